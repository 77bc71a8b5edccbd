"""Phases of a transposed convolution: together they see what its definition says, and no more."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

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
