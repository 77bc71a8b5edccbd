"""Small whole networks against ONNX's reference, with the same bits for each team."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.network.session import InferenceSession
from tests.network.running import agree, referred
from tests.network.small_models import SMALL


@pytest.mark.parametrize("name", SMALL)
def test_small_networks(name):
    model, feed = SMALL[name]()
    expected = referred(model, feed)
    results = [InferenceSession(model, threads=n).run(None, feed) for n in (1, 2, 3)]
    agree(results[0], expected, 1e-4)
    for other in results[1:]:
        for x, y in zip(results[0], other, strict=True):
            assert x.tobytes() == y.tobytes()


def test_an_output_is_no_constant():
    """The outputs vary, so that the comparison above tells results apart."""
    for make in SMALL.values():
        model, feed = make()
        outputs = InferenceSession(model, threads=1).run(None, feed)
        assert all(np.ptp(y) > 1e-3 for y in outputs)
