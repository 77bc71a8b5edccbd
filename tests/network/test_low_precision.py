"""Sessions whose products may be of narrower floats than the arrays."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.numerics import numerics_of
from pplconv.planner import best_isa
from tests.network.test_half_networks import image, session_of

pytestmark = pytest.mark.narrow
ROUNDED = 2.0**-8


def test_bfloat16_is_insisted_on() -> None:
    """The same network, with operands that have lost sixteen bits."""
    g, y = image(np.float32)
    low, single = session_of(g, y, precision="low_bf16"), session_of(g, y)
    (got,), (expected,) = low.run(None, g.feed), single.run(None, g.feed)
    assert got.dtype == np.float32
    largest = np.abs(expected).max()
    error = np.abs(got - expected).max() / largest
    assert error < 8 * ROUNDED
    hardware = any(
        best_isa(numerics_of("f32", kind)) not in (None, "portable")
        for kind in ("bf16t", "bf16m", "bf16")
    )
    # Rounded operands show; without such products nothing is rounded.
    assert (error > 1e-5) == hardware


@pytest.mark.parametrize("precision", ["bf16", "low"])
def test_what_is_only_permitted_stays_near(precision: str) -> None:
    g, y = image(np.float32)
    (got,) = session_of(g, y, precision=precision).run(None, g.feed)
    (expected,) = session_of(g, y).run(None, g.feed)
    assert np.abs(got - expected).max() < 8 * ROUNDED * np.abs(expected).max()


@pytest.mark.parametrize("precision", ["bf16", "low_bf16"])
def test_float16_networks(precision: str) -> None:
    g, y = image()
    (got,) = session_of(g, y, precision=precision).run(None, g.feed)
    (expected,) = session_of(g, y).run(None, g.feed)
    assert got.dtype == np.float16
    expected = expected.astype(np.float32)
    assert np.abs(got - expected).max() < 8 * ROUNDED * np.abs(expected).max()


def test_words_that_are_none() -> None:
    g, y = image(np.float32)
    with pytest.raises(ValueError, match="precision must be one of auto, fp32"):
        session_of(g, y, precision="half")
