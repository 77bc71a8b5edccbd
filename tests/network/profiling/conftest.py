"""Profiles made by hand, in which nothing was measured."""

from __future__ import annotations

import pytest

from pplconv.machine.ceilings import Ceilings
from pplconv.network.profiling.measured import Profile
from pplconv.network.report import BufferPlan, NetworkPlan, StepPlan

# Of kernels that every machine has.
CEILINGS = Ceilings("portable", 2, 100e9, {"L2": 200e9, "L3": 50e9, "memory": 20e9})


@pytest.fixture
def profile(rng):
    """Make a profile of 30 steps of many kinds, in which nothing was measured."""
    kinds = ["Conv", "epilogue", "MaxPool", "Add+Mul", "Softmax", "Copy", "Resize", "Concat",
             "Transpose", "Erf"]  # fmt: skip
    steps = []
    for number in range(30):
        kind = kinds[number % len(kinds)]
        product = kind == "Conv"
        steps.append(StepPlan(
            kind, (f"node{number}",), (1, 8, number + 1, 5), ("NHWC", "NCHW")[number % 2],
            "how", int(rng.integers(1e5, 1e8)) if product else 0, int(rng.integers(1e3, 1e6)),
            float(rng.uniform(1e-6, 1e-3)), "direct" if product else "", 512 if product else 0,
            number == 29,
        ))  # fmt: skip
    buffers = [BufferPlan(64 * n, 64, n % 20, n % 20 + n % 9) for n in range(40)]
    plan = NetworkPlan(
        (("x", (1, 3, 8, 8)),), tuple(steps), {"rule": ["a", "b"]}, 64 * 40, 128,
        tuple(sorted(buffers, key=lambda buffer: buffer.first)),
    )  # fmt: skip
    return Profile("net.onnx", plan, 0.0123, CEILINGS, "a machine", "1.2.3")


@pytest.fixture
def roofs():
    """Give what no machine has measured."""
    return CEILINGS
