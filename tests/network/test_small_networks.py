"""Small whole networks against ONNX's reference, with the same bits for each team."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.network.session import InferenceSession
from tests.network.running import agree, referred, run
from tests.network.small_models import SMALL


@pytest.mark.parametrize("name", SMALL)
def test_small_networks(name):
    model, feed = SMALL[name]()
    agree(run(model, feed, teams=(1, 2, 3)), referred(model, feed), 1e-4)


def test_an_output_is_no_constant():
    """The outputs vary, so that the comparison above tells results apart."""
    for make in SMALL.values():
        model, feed = make()
        outputs = InferenceSession(model, threads=1).run(None, feed)
        assert all(np.ptp(y) > 1e-3 for y in outputs)
