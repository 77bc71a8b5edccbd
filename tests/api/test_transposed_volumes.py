"""`conv_transpose3d` and `conv_transpose1d` against float64 sums, and their errors."""

from __future__ import annotations

import numpy as np
import pytest

import pplconv
from pplconv.ops import slabs
from tests.api.buffers import guarded, untouched
from tests.api.volume_reference import assert_sums, transposed
from tests.reference import activate

F32 = np.float32
CALLS = {1: pplconv.conv_transpose1d, 3: pplconv.conv_transpose3d}
LAYOUTS = {1: ("NCW", "NWC"), 3: ("NCDHW", "NDHWC")}
CASES = [(axes, last) for axes in CALLS for last in (False, True)]


def numbers(rng, *shape, dtype=F32):
    return rng.standard_normal(shape).astype(dtype)


def drawn(rng, axes, dtype=F32):
    """Draw operands and a geometry whose output is not empty."""
    while True:
        groups = int(rng.choice([1, 1, 2, 3]))
        group, own = rng.integers(1, 5, 2).tolist() if rng.random() < 0.8 else (1, 1)
        kernel, size = rng.integers(1, 4, axes).tolist(), rng.integers(1, 6, axes).tolist()
        stride, dilation = rng.integers(1, 4, (2, axes)).tolist()
        more = [int(rng.integers(0, max(s, d))) for s, d in zip(stride, dilation, strict=True)]
        geometry = {
            "stride": tuple(stride), "dilation": tuple(dilation), "output_padding": tuple(more),
            "padding": tuple(map(tuple, rng.integers(0, 3, (axes, 2)).tolist())), "groups": groups,
        }  # fmt: skip
        out = [
            (n - 1) * s + (k - 1) * d + 1 + m - sum(cut)
            for n, s, k, d, m, cut in zip(
                size, stride, kernel, dilation, more, geometry["padding"], strict=True
            )
        ]
        if min(out) > 0:
            break
    x = numbers(rng, int(rng.integers(1, 4)), groups * group, *size, dtype=dtype)
    w = numbers(rng, groups * group, own, *kernel, dtype=dtype)
    return x, w, numbers(rng, own * groups, dtype=dtype), geometry, out


def given(geometry, axes):
    """Give a geometry as a call takes it: a signal's padding is a pair of its own."""
    return {**geometry, "padding": geometry["padding"][0]} if axes == 1 else geometry


@pytest.mark.parametrize(("axes", "last"), CASES)
@pytest.mark.parametrize("dtype", [F32, np.float64])
@pytest.mark.parametrize("number", range(8))
def test_random_geometries(axes, last, dtype, number, rng):
    x, w, b, geometry, out = drawn(rng, axes, dtype)
    r = numbers(rng, len(x), len(b), *out, dtype=dtype)
    seen, added = ((np.moveaxis(a, 1, -1) if last else a) for a in (x, r))
    common = {**given(geometry, axes), "layout": LAYOUTS[axes][last], "tolerance": 0}
    y = CALLS[axes](seen, w, b, residual=added, **common)
    terms = int(np.prod(w.shape)) // w.shape[1] // geometry["groups"]
    turned = np.moveaxis(y, -1, 1) if last else y
    assert_sums(transposed, turned, x, w, b, r, terms=terms, **geometry)
    one = CALLS[axes](seen[0], w, b, residual=added[0], **common)
    np.testing.assert_allclose(one, y[0], rtol=1e-4, atol=1e-4)
    # The size of the output in place of what is added to it.
    del common["output_padding"]
    if all(m < s for m, s in zip(geometry["output_padding"], geometry["stride"], strict=True)):
        again = CALLS[axes](seen, w, b, residual=added, output_size=tuple(out), **common)
        assert again.tobytes() == y.tobytes()


@pytest.mark.parametrize("axes", CALLS)
def test_outputs_epilogues_and_padding_by_words(axes, rng):
    x, w = numbers(rng, 2, 4, *[4] * axes), numbers(rng, 4, 3, *[3] * axes)
    y = CALLS[axes](x, w, stride=2, padding="same_upper")
    geometry = {
        "stride": (2,) * axes, "dilation": (1,) * axes, "output_padding": (0,) * axes, "groups": 1,
        "padding": ((0, 1),) * axes,
    }  # fmt: skip
    assert_sums(transposed, y, x, w, terms=4 * 3**axes, **geometry)
    expected = activate(
        transposed(x, w, **{**geometry, "padding": ((0, 0),) * axes}), "relu", x.dtype, "NCHW"
    )
    out = guarded(
        CALLS[axes], expected.shape, "float32", x, w, None, 2, activation="relu", also=[x, w]
    )
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
    assert CALLS[axes](x[:0], w).shape == (0, 3, *[6] * axes)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nonfinite_numbers_reach_their_places_alone(value, rng):
    x, w = numbers(rng, 1, 3, 4, 4, 5), numbers(rng, 3, 2, 2, 2, 2)
    x[0, 1, 2, 1, 3] = value
    geometry = {
        "stride": (2, 1, 2), "dilation": (1, 1, 1), "output_padding": (1, 0, 0), "groups": 1,
        "padding": ((1, 0), (0, 0), (0, 0)),
    }  # fmt: skip
    y = pplconv.conv_transpose3d(x, w, tolerance=0, **geometry)
    assert_sums(transposed, y, x, w, terms=24, **geometry)
    assert np.isfinite(y[0, 0, 0]).all()


@pytest.mark.parametrize("padding", [(0, 0), (3, 1), (998, 2000)])
@pytest.mark.parametrize(("stride", "dilation"), [(1000, 1), (1009, 700), (5, 12)])
def test_outputs_between_far_places(stride, dilation, padding, rng):
    """Most outputs see no input; they are the bias and the residual."""
    x, w = numbers(rng, 2, 4, 3, 2, 3), numbers(rng, 4, 3, 2, 2, 1)
    if sum(padding) > 2 * stride:
        return
    geometry = {
        "stride": (stride, 1, 1), "dilation": (dilation, 1, 1), "output_padding": (2, 0, 0),
        "groups": 2, "padding": (padding, (0, 0), (0, 0)),
    }  # fmt: skip
    depths = 2 * stride + dilation + 3 - sum(padding)
    b, r = numbers(rng, 6), numbers(rng, 2, 6, depths, 3, 3)
    y = pplconv.conv_transpose3d(x, w, b, residual=r, tolerance=0, **geometry)
    assert_sums(transposed, y, x, w, b, r, terms=4, **geometry)


def test_far_places_take_no_list_as_long_as_the_stride():
    """It took a second for each 10**5."""
    assert len(slabs.transposed_slabs(3, (2 << 29) + 2, 2, 1 << 29, 1, 0)) < 20


ERRORS = [
    ({"stride": (1 << 40, 1, 1)}, "padding, stride or dilation is too large"),
    ({"dilation": (1 << 40, 1, 1)}, "padding, stride or dilation is too large"),
    (
        {"stride": ((1 << 40) + 1, 1, 1), "output_padding": (1 << 40, 0, 0)},
        "padding, stride or dilation is too large",
    ),
    ({"input": np.ones((1, 1, 9), F32)}, r"input must have shape \(N, C, D, H, W\)"),
    ({"input": np.ones((1, 3, 4, 4, 4), F32)}, "input must have 2 channels"),
    ({"input": np.ones((1, 2, 4, 0, 4), F32)}, "input must not be empty"),
    ({"weight": np.ones((2, 1, 3, 3), F32)}, r"weight must have the 5 dimensions \(ic, oc"),
    ({"weight": np.ones((2, 1, 0, 3, 3), F32)}, "weight must not be empty"),
    ({"groups": 3}, "groups must divide the 2 input channels"),
    ({"stride": (1, 1)}, r"stride must be an int or three ints, got \(1, 1\)"),
    ({"padding": "same"}, "padding must be an int, .* or \"same_lower\", got 'same'"),
    ({"padding": 9}, "padding leaves no output: .* of 6 depths and 6 rows and 6 columns"),
    ({"output_padding": 1}, "output_padding must be below the stride or the dilation"),
    ({"output_size": (7, 6, 6)}, r"output_size must be from \(6, 6, 6\) to \(6, 6, 6\)"),
    ({"layout": "NCHW"}, "layout must be one of NCDHW, NDHWC"),
    ({"bias": np.ones(3, F32)}, r"bias must have shape \(1,\)"),
    ({"residual": np.ones((1, 1, 6, 6, 5), F32)}, r"residual must have shape \(1, 1, 6, 6, 6\)"),
    ({"out": np.ones((1, 1, 5, 6, 6), F32)}, r"out must have shape \(1, 1, 6, 6, 6\)"),
    ({"activation": "rely"}, "activation must be"),
]


@pytest.mark.parametrize(("changes", "match"), ERRORS, ids=lambda value: str(value)[:30])
def test_errors_name_the_argument(changes, match):
    out = np.zeros((1, 1, 6, 6, 6), F32)
    arguments = {
        "input": np.ones((1, 2, 4, 4, 4), F32), "weight": np.ones((2, 1, 3, 3, 3), F32), "out": out,
        **changes,
    }  # fmt: skip
    with untouched(out), pytest.raises(ValueError, match=f"^{match}"):
        pplconv.conv_transpose3d(**arguments)


SIGNAL_ERRORS = [
    ({"input": np.ones((1, 1, 1, 9), F32)}, r"input must have shape \(N, C, W\)"),
    ({"input": np.ones((1, 3, 9), F32)}, "input must have 2 channels"),
    ({"input": np.ones((1, 2, 0), F32)}, "input must not be empty"),
    (
        {"weight": np.ones((2, 1), F32)},
        r"weight must have the 3 dimensions \(ic, oc / groups, kw\)",
    ),
    ({"groups": 3}, "groups must divide the 2 input channels"),
    ({"padding": (1, 2, 3)}, r"padding must be an int, \(int,\), \(left, right\)"),
    ({"padding": "same"}, r"padding must be an int, \(int,\), \(left, right\)"),
    ({"padding": 9}, "padding leaves no output: .* of 11 columns"),
    ({"output_padding": 1}, r"output_padding must be below the stride or the dilation, got \(1,\)"),
    ({"output_size": 12}, r"output_size must be from \(11,\) to \(11,\)"),
    ({"layout": "NCHW"}, "layout must be one of NCW, NWC"),
    ({"residual": np.ones((1, 1, 9), F32)}, r"residual must have shape \(1, 1, 11\)"),
    ({"out": np.ones((1, 1, 9), F32)}, r"out must have shape \(1, 1, 11\)"),
]


@pytest.mark.parametrize(("changes", "match"), SIGNAL_ERRORS, ids=lambda value: str(value)[:30])
def test_errors_speak_of_signals(changes, match):
    out = np.zeros((1, 1, 11), F32)
    arguments = {
        "input": np.ones((1, 2, 9), F32),
        "weight": np.ones((2, 1, 3), F32),
        "out": out,
        **changes,
    }
    with untouched(out), pytest.raises(ValueError, match=f"^{match}"):
        pplconv.conv_transpose1d(**arguments)


def test_bfloat16_is_refused_by_name():
    import ml_dtypes

    x = np.ones((1, 2, 4, 4, 4), ml_dtypes.bfloat16)
    with pytest.raises(TypeError, match=r"^input must be float16, float32 or float64"):
        pplconv.conv_transpose3d(x, np.ones((2, 1, 1, 1, 1), x.dtype))
