"""If, Loop and Scan, and sizes that depend on data, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.network.session import InferenceSession
from tests.network.flow_cases import FLOWS, SIZES, model_of
from tests.network.running import agree, by_onnxruntime, copies, needs_onnxruntime

CASES = FLOWS | SIZES


@needs_onnxruntime
@pytest.mark.parametrize("name", CASES)
def test_as_onnxruntime(name, rng):
    case = CASES[name]
    model = model_of(case, rng)
    session = InferenceSession(model, threads=1)
    for height in (6, 5, 6):
        for feed in case.feeds:
            feed = {"x": rng.standard_normal((2, 2, height, 6)).astype(np.float32), **feed}
            agree(session.run(None, feed), by_onnxruntime(model, feed), least=1)
