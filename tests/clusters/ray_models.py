"""Models for a Ray cluster; its processes import them by this name."""

from __future__ import annotations

import os
import time

import numpy as np

import pplconv

SHAPE = (1, 32, 40, 40)


class Model:
    """One layer; on request it reports facts about its process."""

    def __init__(self, seed: int) -> None:
        weight = np.random.default_rng(seed).standard_normal((64, 32, 3, 3)).astype(np.float32)
        self.conv = pplconv.Conv2d(weight, padding=1, input_shape=SHAPE)

    def __call__(self, x, ask=False):
        if ask:
            return {
                "pid": os.getpid(),
                "omp": os.environ.get("OMP_NUM_THREADS"),
                "cpus": len(os.sched_getaffinity(0)),
                "writeable": bool(self.conv.weight.flags.writeable),
            }
        if x.size == 1:
            time.sleep(float(x))
            return x
        return self.conv(x)


def answer(seed: int, x: np.ndarray) -> np.ndarray:
    """Compute the output of the model with this seed."""
    return Model(seed)(x)
