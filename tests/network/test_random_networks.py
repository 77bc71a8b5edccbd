"""Random networks against onnxruntime without its rewriting, and the same bits for each team."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pplconv.network.session import InferenceSession
from random_networks import Network
from running import agree, by_onnxruntime

# Relative to the largest element: each of a dozen convolutions may spend 1e-5.
ALLOWED = 1e-4
# A network takes much longer than the problems of most tests.
EXAMPLES = max(settings.default.max_examples // 8, 10)


@pytest.mark.parametrize("free", [False, True])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_random_networks(free, data):
    network = Network(data.draw, free=free)
    g = network.g
    model = g.model(*network.outputs)
    sessions = [InferenceSession(model, threads=threads) for threads in (1, 2, 3)]
    feeds = [g.feed]
    if free:
        # Larger by the same in all inputs, so that what is added still fits.
        more = [data.draw(st.integers(0, 2)) for _ in range(3)]
        shapes = {
            name: (x.shape[0] + more[0], x.shape[1], x.shape[2] + more[1], x.shape[3] + more[2])
            for name, x in g.feed.items()
        }
        feeds.append({n: g.rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()})
    for feed in feeds:
        results = [session.run(None, feed) for session in sessions]
        # What is left of a difference has the errors of what was subtracted, which is about 1.
        agree(results[0], by_onnxruntime(model, feed), ALLOWED, least=1.0)
        for other in results[1:]:
            for x, y in zip(results[0], other, strict=True):
                assert x.tobytes() == y.tobytes()
