"""Networks of small weights on machines without products of four bytes: the same bytes, faster."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.machine import current
from pplconv.network.session import InferenceSession
from tests.levels import allowed_isas
from tests.network.quantizing import S8, U8, Quantized

pytestmark = [
    pytest.mark.narrow,
    pytest.mark.needs_isa("avx2"),
    pytest.mark.unemulated("only x86-64 has these products"),
]


def network(dtype: np.dtype, *, over: bool) -> tuple[Quantized, str]:
    """Two convolutions and a product of seven-bit weights; with `over`, a larger pair in the first.

    Inputs are at the ends of their type, so that a pair which does not fit shows.
    """
    g = Quantized(11)
    rng = g.rng
    zero = 128 if dtype == U8 else 0

    def weights(*shape: int) -> np.ndarray:
        return rng.integers(-64, 65, shape).astype(np.int8)

    first = weights(32, 16, 3, 3)
    first[:, 6:8, 1, 1] = 64
    if over:
        first[:, 6, 1, 1] = 70
    x = g.input(1, 16, 12, 11)
    g.feed[x] = rng.choice(np.array([-9, 9], np.float32), (1, 16, 12, 11))
    y = g.pair(x, 0.05, zero, dtype)
    # Stride 2 keeps the first from Winograd, which takes words whatever the weights.
    for w, pad, stride in ((first, 1, 2), (weights(24, 32, 1, 1), 0, 1)):
        scales = np.full(len(w), 0.002, np.float32)
        constant = g.dq(g.constant(w, S8), scales, np.zeros(len(w), np.int8), S8, axis=0)
        y = g.pair(
            g.Relu(g.Conv(y, constant, pads=[pad] * 4, strides=[stride] * 2)), 0.04, zero, dtype
        )
    flat = g.Flatten(y)
    matrix = g.dq(g.constant(weights(24 * 6 * 6, 20), S8), 0.001, 0, S8)
    return g, g.pair(g.MatMul(flat, matrix), 0.3, zero, dtype)


@pytest.mark.parametrize("dtype", [U8, S8], ids=str)
@pytest.mark.parametrize("over", [False, True])
def test_the_same_bytes_at_every_level(
    dtype: np.dtype, over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    g, y = network(dtype, over=over)
    model = g.model(y)
    results = set()
    for cap in allowed_isas():
        monkeypatch.setenv("PPLCONV_MAX_ISA", cap)
        session = InferenceSession(model, threads=1)
        (got,) = session.run(None, g.feed)
        assert np.ptp(got) > 0
        results.add(got.tobytes())
        steps = [step.detail for step in session.plan_for(g.feed).by_operators().steps]
        products = [text for text in steps if "gemm_" in text]
        assert len(products) == 3
        if cap == "avx2":
            assert not over or "gemm_s16" in products[0]
            if 2 * current().fma_rate("avx2", "u8p") > current().fma_rate("avx2", "s16"):
                assert ["gemm_u8p" in text for text in products] == [not over, True, True]
    assert len(results) == 1
