"""Memory that a session takes besides its weights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import pplconv
from tests.network.graphs import Graph
from tests.patience import PATIENCE

# Weights are packed once; and something is left for the largest tensor, huge pages and Python.
PEAK, AFTER = 1.6, 1.4

_PROBE = """
import json, sys
import numpy as np
import pplconv

def memory():
    with open("/proc/self/status") as status:
        found = dict(line.split(":", 1) for line in status)
    return [1024 * int(found[name].split()[0]) for name in ("VmRSS", "VmHWM")]

path, small, size = sys.argv[1:]
x = {"x1": np.ones((1, int(size), 2, 2), np.float32)}
# What is imported, and made once a process.
pplconv.InferenceSession(small, threads=1).run(None, x)
before = max(memory())
session = pplconv.InferenceSession(path, threads=1)
session.run(None, x)
after, peak = memory()
print(json.dumps([after - before, peak - before]))
"""


def network(width: int, repeats: int, odd: int) -> onnx.ModelProto:
    """1x1 convolutions, one of them before a BatchNormalization, and two kinds of products."""
    g = Graph(opset=17)
    g.rng = np.random.default_rng(0)

    def weights(*shape: int) -> str:
        return g.constant(g.rng.standard_normal(shape, np.float32) / width**0.5)

    y = g.input(1, width, 2, 2)
    for _ in range(repeats):
        y = g.Relu(g.Conv(y, weights(width, width, 1, 1)))
        y = g.Conv(y, weights(width, width, 1, 1))
        y = g.Relu(g.BatchNormalization(y, *(g.positive(width) for _ in range(4))))
    y = g.Reshape(y, g.constant([4, width], np.int64))
    for _ in range(repeats):
        y = g.Relu(g.Gemm(y, weights(width, width), transB=1))
        y = g.Relu(g.MatMul(y, weights(width, width)))
    model = g.model(y)
    model.producer_name = "x" * odd
    return model


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
@pytest.mark.parametrize("odd", [0, 1])
def test_a_session_takes_little_more_than_its_packed_weights(odd, tmp_path):
    width, repeats = 1536, 2
    weights = 4 * repeats * 4 * width**2
    assert 64 << 20 < weights < 80 << 20
    onnx.save(network(width, repeats, odd), tmp_path / "large.onnx")
    onnx.save(network(width, 0, 0), tmp_path / "small.onnx")
    result = subprocess.run(
        [sys.executable, "-c", _PROBE, tmp_path / "large.onnx", tmp_path / "small.onnx",
         str(width)],
        capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**os.environ, "MALLOC_ARENA_MAX": "1"}, timeout=PATIENCE,
    )  # fmt: skip
    after, peak = json.loads(result.stdout)
    told = f"{after / weights:.2f} and {peak / weights:.2f} times the weights"
    assert peak < PEAK * weights, told
    assert after < AFTER * weights, told
    # The weights are counted too, so the right memory was measured.
    assert after > 0.9 * weights, told


@pytest.mark.unbanded("scratch of bands is less than what the method of a whole image takes")
def test_workspace_is_the_whole_teams(rng):
    """A bound that fits Winograd's tiles of one thread holds for the scratch of a whole team.

    The caches decide how large a team must be to want more scratch than one thread.
    """
    g = Graph(opset=17)
    y = g.Relu(g.conv(g.input(1, 64, 40, 40), 64, (64, 3, 3), pads=[1] * 4))
    model = g.model(g.conv(y, 256, (64, 1, 1)))
    single = pplconv.InferenceSession(model, threads=1).plan_for(g.feed)
    for threads in (3, 4, 8, 16, 32, 64):
        free = pplconv.InferenceSession(model, threads=threads)
        plan = free.plan_for(g.feed)
        if plan.scratch_bytes > 2 * single.scratch_bytes:
            break
    assert plan.scratch_bytes > 2 * single.scratch_bytes > 0
    (expected,) = free.run(None, g.feed)
    for limit in (single.scratch_bytes, plan.scratch_bytes - 1):
        session = pplconv.InferenceSession(model, threads=threads, max_workspace=limit)
        assert session.plan_for(g.feed).scratch_bytes <= limit
        # The method is that of one thread, for any team, so these are the same bits.
        assert session.run(None, g.feed)[0].tobytes() == expected.tobytes()
    least = pplconv.InferenceSession(model, threads=threads, max_workspace=1 << 14)
    assert least.plan_for(g.feed).scratch_bytes <= 1 << 14
    np.testing.assert_allclose(least.run(None, g.feed)[0], expected, rtol=0, atol=1e-3)
