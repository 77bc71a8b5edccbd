"""Work without instances: calls from many threads, plans, searches, wisdom from many processes.

``PPLCONV_WISDOM`` names the file that all of them write to.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import pplconv

# ic, oc, kernel, groups, side, layout: small, so that there are many calls in a second.
LAYERS: tuple[tuple[int, int, int, int, int, str], ...] = (
    (16, 32, 3, 1, 28, "NCHW"),
    (64, 64, 3, 1, 14, "NHWC"),
    (32, 96, 1, 1, 28, "NCHW"),
    (96, 32, 1, 1, 20, "NHWC"),
    (48, 48, 3, 48, 33, "NCHW"),
    (3, 32, 7, 1, 40, "NHWC"),
)

# Another process on the same file of wisdom: a search each, until it is killed.
WRITER = """
import sys
sys.path[:0] = sys.argv[1:]
import numpy as np
import pplconv
print("ready", flush=True)
side = 4
while True:
    side = side % 24 + 1
    weight = np.ones((8, 8, 3, 3), np.float32)
    pplconv.Conv2d(weight, padding=1, input_shape=(1, 8, side + 2, side + 2), search="measure",
                   search_seconds=0.02, threads=1)
"""


class Layer:
    """A convolution, an input, and the output of one thread."""

    def __init__(self, number: int) -> None:
        ic, oc, k, groups, side, self.layout = LAYERS[number]
        rng = np.random.default_rng(number)
        self.weight = rng.standard_normal((oc, ic // groups, k, k), dtype=np.float32)
        shape = (2, ic, side, side) if self.layout == "NCHW" else (2, side, side, ic)
        self.x = rng.standard_normal(shape, dtype=np.float32)
        self.options: dict[str, Any] = {
            "padding": k // 2,
            "groups": groups,
            "layout": self.layout,
            "activation": "relu",
        }
        self.conv = pplconv.Conv2d(self.weight, threads=2, **self.options)
        alone = pplconv.Conv2d(self.weight, threads=1, **self.options)
        self.expected: bytes = alone(self.x).tobytes()


class Work:
    """Work on all layers; `tried` counts attempts, `wrong` lists faults.

    Parameters
    ----------
    seed : int
        Decides the order of work, and when processes are killed.
    """

    def __init__(self, seed: int) -> None:
        self.layers = [Layer(number) for number in range(len(LAYERS))]
        self.seed, self.turn = seed, 0
        self.tried: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._lock = threading.Lock()

    def note(self, what: str, fault: str = "", count: int = 1) -> None:
        """Count an attempt, and note its fault if it has one."""
        with self._lock:
            self.tried[what] += count
            if fault:
                self.wrong.append(f"{what}: {fault}")


class Load(Work):
    """The work of threads."""

    def run(self, seconds: float, callers: int = 4, writers: int = 2) -> None:
        """Do it all at once for some seconds; nothing of it is left afterwards."""
        until = time.monotonic() + seconds
        jobs: list[Callable[[random.Random], str]] = [
            self.prepared, self.prepared, self.prepared, self.function, self.plan, self.search,
            self.refused,
        ]  # fmt: skip
        self.turn += 1

        def caller(number: int) -> None:
            chance = random.Random(f"{self.seed} {self.turn} {number}")
            while time.monotonic() < until:
                job = chance.choice(jobs)
                try:
                    fault = job(chance)
                except Exception as error:
                    fault = repr(error)
                self.note(job.__name__, fault)

        with ThreadPoolExecutor(callers + writers) as pool:
            futures = [pool.submit(caller, number) for number in range(callers)]
            futures += [pool.submit(self.writer, until, number) for number in range(writers)]
        for future in futures:
            future.result()

    def prepared(self, chance: random.Random) -> str:
        """A convolution that all threads share."""
        layer = chance.choice(self.layers)
        return "" if layer.conv(layer.x).tobytes() == layer.expected else "other bytes"

    def function(self, chance: random.Random) -> str:
        """The function, which packs its weights each time."""
        layer = chance.choice(self.layers)
        y = pplconv.conv2d(layer.x, layer.weight, threads=chance.randint(1, 3), **layer.options)
        return "" if y.tobytes() == layer.expected else "other bytes"

    def plan(self, chance: random.Random) -> str:
        """A plan for a shape of its own; more of them than a convolution keeps."""
        layer = chance.choice(self.layers)
        side = chance.randint(7, 60)
        channels = layer.x.shape[1 if layer.layout == "NCHW" else 3]
        shape = (1, channels, side, side) if layer.layout == "NCHW" else (1, side, side, channels)
        return "" if layer.conv.plan_for(shape).threads <= 2 else "a larger team than asked for"

    def search(self, chance: random.Random) -> str:
        """A search, which remembers what it found."""
        layer = chance.choice(self.layers)
        conv = pplconv.Conv2d(
            layer.weight, **layer.options, threads=chance.randint(1, 2), search="measure",
            search_seconds=0.02, input_shape=layer.x.shape, tolerance=0,
        )  # fmt: skip
        return "" if np.isfinite(conv(layer.x)).all() else "not finite"

    def refused(self, chance: random.Random) -> str:
        """A call that must fail, and must not keep what it held."""
        layer = chance.choice(self.layers)
        try:
            layer.conv(layer.x.astype(np.float64))
        except TypeError:
            return ""
        return "an input of another type than the weights was taken"

    def writer(self, until: float, number: int) -> None:
        """Processes one after another on the same file of wisdom, each killed somewhere."""
        chance = random.Random(f"{self.seed} {self.turn} writer {number}")
        source = str(Path(pplconv.__file__).parents[1])
        while time.monotonic() < until:
            with subprocess.Popen(
                [sys.executable, "-c", WRITER, source],
                stdout=subprocess.PIPE,
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            ) as process:
                assert process.stdout is not None
                started = process.stdout.readline() == b"ready\n"
                time.sleep(max(0.0, min(chance.uniform(0, 0.5), until - time.monotonic())))
                process.send_signal(signal.SIGKILL)
            alive = process.returncode == -signal.SIGKILL
            self.note("killed writer", "" if started and alive else "it died by itself")
