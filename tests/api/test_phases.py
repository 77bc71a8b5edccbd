"""Phases of a transposed convolution: together they see what its definition says, and no more."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pplconv
from pplconv.ops.transposed.phases import (
    Axis,
    block_phases,
    joined,
    joined_kernel,
    output_length,
    phase_kernel,
    phases,
    spans,
    turned,
)
from pplconv.ops.transposed.tap_runs import covers, run_kernel, tap_runs
from tests.api.blocks import from_layout, to_layout
from tests.api.transposed_reference import scatter

AXES = [
    Axis(outputs, inputs, kernel, stride, dilation, padding)
    for inputs, kernel, stride, dilation, padding, more in itertools.product(
        (1, 2, 5), (1, 2, 3, 4, 6), (1, 2, 3, 4, 6), (1, 2, 3), (0, 1, 3, 5), (-2, 0, 1, 4)
    )
    if (outputs := output_length(inputs, kernel, stride, dilation, (padding, 0), more)) > 0
]


def terms_of(axis: Axis) -> list[set[tuple[int, int]]]:
    """Which inputs each output sees, and by which tap."""
    found: list[set[tuple[int, int]]] = [set() for _ in range(axis.outputs)]
    for i, k in itertools.product(range(axis.inputs), range(axis.kernel)):
        o = i * axis.stride - axis.padding + k * axis.dilation
        if 0 <= o < axis.outputs:
            found[o].add((i, k))
    return found


def computed(phase, taps) -> list[set[tuple[int, int]]]:
    """Do the same for the outputs of an ordinary convolution; taps are turned round."""
    backwards = list(taps)[::-1]
    return [
        {
            (i, k)
            for place, k in enumerate(backwards)
            if 0 <= (i := phase.start + j + place * phase.dilation) < phase.axis.inputs
        }
        for j in range(phase.count)
    ]


def test_phases_are_all_outputs():
    assert len(AXES) > 2000
    for axis in AXES:
        expected, seen = terms_of(axis), []
        for phase in phases(axis):
            for j, found in enumerate(computed(phase, phase.taps)):
                output = phase.first + j * axis.stride
                assert found == expected[output], (axis, phase, output)
                seen.append(output)
            if phase.is_empty:
                assert not any(computed(phase, phase.taps))
                continue
            # As a convolution of the inputs seen, and as one of all inputs.
            reach = (len(phase.taps) - 1) * phase.dilation
            inputs = phase.seen.stop - phase.seen.start
            assert inputs > 0
            assert inputs + sum(phase.padding) - reach == phase.count
            assert phase.skipped + phase.count <= phase.computed
        assert sorted(seen) == list(range(axis.outputs)), axis


def test_blocks_are_all_outputs():
    together = 0
    for axis in AXES:
        expected = terms_of(axis)
        places = [computed(phase, phase.taps) for phase in block_phases(axis)]
        at_once = joined(axis)
        together += at_once is not None and axis.stride > 1
        for only in (None, *range(axis.stride)):
            seen = []
            for span in spans(axis, only):
                for block, place in itertools.product(range(span.count), range(span.places)):
                    output = span.output + block * axis.stride + place
                    at, where = span.first + block, span.place + place
                    assert places[where][at] == expected[output], (axis, span)
                    if at_once is not None:
                        taps = range(where, axis.kernel, axis.stride)
                        assert computed(at_once, taps)[at] == expected[output], (axis, at_once)
                    seen.append(output)
            begin = -axis.padding % axis.stride
            wanted = range(axis.outputs)
            if only is not None:
                wanted = range((begin + only) % axis.stride, axis.outputs, axis.stride)
            assert sorted(seen) == list(wanted), (axis, only)
    assert together > 100


@pytest.mark.parametrize("groups", [1, 3])
def test_kernels(groups, rng):
    weight = rng.standard_normal((6, 4, 4, 6))
    whole = turned(weight, groups)
    assert whole.shape == (4 * groups, 6 // groups, 4, 6)
    for g, o, i in itertools.product(range(groups), range(4), range(6 // groups)):
        own = weight[g * 6 // groups + i, o]
        np.testing.assert_array_equal(whole[g * 4 + o, i], own[::-1, ::-1])
        at_once = joined_kernel(weight, groups, (2, 3))
        assert at_once.shape == (groups * 6 * 4, 6 // groups, 2, 2)
        for down, across in itertools.product(range(2), range(3)):
            part = own[down::2, across::3][::-1, ::-1]
            np.testing.assert_array_equal(at_once[((g * 2 + down) * 3 + across) * 4 + o, i], part)
            phase = phase_kernel(weight, groups, range(down, 4, 2), range(across, 6, 3))
            np.testing.assert_array_equal(phase[g * 4 + o, i], part)


# Large strides: by runs of taps, in as many steps as there are runs -------------------------------


BLOCK = pplconv.to_blocked(np.ones((1, 1, 1), np.float32)).shape[-1]


@pytest.mark.parametrize("most", [None, 1, 2])
def test_runs_see_what_the_definition_says(most):
    for axis in AXES[:: 1 if most is None else 7]:
        expected, runs = terms_of(axis), tap_runs(axis, most)
        seen: dict[int, set[tuple[int, int]]] = {}
        for run in runs:
            assert run.count <= (most or axis.kernel)
            for span in run.spans:
                pairs = itertools.product(range(span.count), range(span.places))
                for j, place in pairs:
                    output = span.output + j * axis.stride + place * axis.dilation
                    position = span.first + j - run.padding[0]
                    backwards = run.taps[::-1, span.place + place]
                    assert output not in seen
                    assert span.first + j < run.computed
                    seen[output] = {
                        (i, int(k))
                        for t, k in enumerate(backwards)
                        if 0 <= (i := position + t * run.dilation) < axis.inputs
                    }
        assert all(0 <= output < axis.outputs for output in seen)
        assert [seen.get(o, set()) for o in range(axis.outputs)] == expected
        assert covers(axis, runs) == (len(seen) == axis.outputs)
        if most is None:
            assert len(runs) <= 2


def test_kernels_of_runs(rng):
    weight = rng.standard_normal((6, 2, 5, 4))
    down, across = (
        next(run for run in tap_runs(axis) if run.depth == 2 or run.axis.kernel == 4)
        for axis in (Axis(99, 9, 5, 3, 1, 0), Axis(99, 9, 4, 9, 2, 0))
    )
    kernel = run_kernel(weight, 3, down, across)
    assert kernel.shape == (3 * down.count * across.count * 2, 2, down.depth, across.depth)
    split = kernel.reshape(3, down.count, across.count, 2, 2, down.depth, across.depth)
    for g, c, a, o, i, t, u in np.ndindex(split.shape):
        row, column = down.taps[::-1, c][t], across.taps[::-1, a][u]
        assert split[g, c, a, o, i, t, u] == weight[2 * g + i, o, row, column]


PROBLEMS = {
    "few taps": ((2, 3), (3, 2), (40, 17), (1, 1), 1),
    "as many taps as the stride": ((2, 2), (9, 10), (9, 10), (1, 1), 2),
    "more taps than the stride": ((3, 2), (25, 13), (9, 11), (1, 1), 1),
    "taps apart": ((2, 3), (4, 3), (12, 8), (5, 6), 2),
    "many taps apart": ((2, 2), (7, 25), (6, 12), (3, 2), 1),
    "one row": ((1, 4), (1, 5), (1, 300), (1, 2), 2),
    "thousands": ((1, 1), (2, 1), (3000, 2), (1, 1), 1),
    "nothing seen": ((1, 2), (2, 2), (50, 90), (1, 1), 1),
}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCHWc"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_large_strides(name, layout, rng):
    """With a residual, an activation and rows cut off; few steps, whatever the stride."""
    size, kernel, stride, dilation, groups = PROBLEMS[name]
    own = BLOCK if layout == "NCHWc" and groups > 1 else 3
    x = rng.standard_normal((2, groups * own, *size)).astype(np.float32)
    w = rng.standard_normal((groups * own, own, *kernel)).astype(np.float32)
    b = rng.standard_normal(groups * own).astype(np.float32)
    full = [
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(size, stride, kernel, dilation, strict=True)
    ]
    pads = [(n // 4, n // 3) for n in full]
    if name == "nothing seen":
        pads[1] = (5, full[1] - 80)
    geometry = {"stride": stride, "padding": tuple(pads), "dilation": dilation, "groups": groups}
    arrays = {"residual": None}
    plain = scatter(x, w, b, None, output_padding=(0, 0), **geometry)
    if name != "thousands":
        arrays["residual"] = rng.standard_normal(plain.shape).astype(np.float32)
        plain = plain + arrays["residual"]
    layer = pplconv.ConvTranspose2d(w, b, layout=layout, activation="relu", **geometry)
    given = to_layout(x, layout, BLOCK)
    residual = arrays["residual"]
    residual = None if residual is None else to_layout(residual, layout, BLOCK)
    y = from_layout(layer(given, residual=residual), layout, groups * own)
    np.testing.assert_allclose(y, np.maximum(plain, 0), rtol=0, atol=1e-5 * np.abs(plain).max())
    assert len(layer.plan_for(given.shape).parts) <= 5


def test_infinities_reach_what_their_taps_lead_to(rng):
    x = rng.standard_normal((1, 2, 3, 3)).astype(np.float32)
    w = rng.standard_normal((2, 3, 5, 11)).astype(np.float32)
    x[0, 1, 1, 2], w[1, 2, 3, 4] = np.inf, np.nan
    geometry = {"stride": (4, 20), "padding": ((1, 0), (2, 3)), "dilation": (1, 1), "groups": 1}
    with np.errstate(invalid="ignore"):
        expected = scatter(x, w, None, None, output_padding=(0, 0), **geometry)
    y = pplconv.conv_transpose2d(x, w, **geometry)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(y), np.isinf(expected))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_little_scratch(layout, rng):
    """Runs are divided until they fit; what cannot fit is refused."""
    x = rng.standard_normal((2, 4, 9, 9)).astype(np.float32)
    w = rng.standard_normal((4, 2, 10, 9)).astype(np.float32)
    geometry = {"stride": (9, 12), "padding": ((0, 1), (2, 0)), "dilation": (1, 1), "groups": 2}
    expected = scatter(x, w, None, None, output_padding=(0, 0), **geometry)
    parts = []
    for limit in (1 << 22, 1 << 17, 1 << 15):
        layer = pplconv.ConvTranspose2d(
            w, layout=layout, max_workspace=limit, threads=1, **geometry
        )
        given = to_layout(x, layout, BLOCK)
        y = from_layout(layer(given), layout, 4)
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-4)
        plan = layer.plan_for(given.shape)
        assert plan.scratch_bytes <= limit
        parts.append(len(plan.parts))
    assert parts == sorted(parts) and parts[0] < parts[-1]
    with pytest.raises(ValueError, match="max_workspace"):
        pplconv.conv_transpose2d(x, w, layout="NCHW", max_workspace=64, **geometry)
