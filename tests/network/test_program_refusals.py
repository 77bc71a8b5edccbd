"""Programs refuse steps that would write what is only read, or read numbers of other channels."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv import planner
from pplconv.arguments.activation import Activation as Description
from pplconv.ops.prepared import Activation, PackedWeights, Prepared
from pplconv.ops.program import Program
from pplconv.ops.strided_copies import copy_fields
from pplconv.problem import ConvProblem
from pplconv.schedules.copy_loops import Copy

SIZE = 96
ISA = "portable"


def copies():
    """A step that copies 24 numbers."""
    return Copy(copy_fields((4, 6), 4, (24, 4), (24, 4)), ISA)


def program(source, destination, inputs):
    step = copies(), {"arrays": [destination, source]}
    return Program([step], 128, [SIZE, SIZE], 1, 1, inputs=inputs)


def test_inputs_and_constants_are_not_written(rng):
    x, y = rng.standard_normal((2, 24)).astype(np.float32)
    first, second = ("external", 0, 0, SIZE), ("external", 1, 0, SIZE)
    for destination in (first, x):
        with pytest.raises(ValueError, match="writes a constant or an input"):
            program(second, destination, 1)
    made = program(first, second, 1)
    frame = made.frame()
    made.run(frame, [x, y], 0, 1)
    made.give_back(frame)
    np.testing.assert_array_equal(x, y)
    # Without inputs, all of the caller's arrays may be written.
    program(second, first, 0)
    program(first, ("arena", 0, 128), 1)


def test_arrays_lie_at_whole_elements(rng):
    x = rng.standard_normal(32).astype(np.float32).view(np.uint8)
    second = ("external", 1, 0, SIZE)
    for place in (("arena", 2, SIZE), ("external", 0, 2, SIZE), ("constant", x, 1)):
        with pytest.raises(ValueError, match="elements of 4 bytes"):
            Program([(copies(), {"arrays": [second, ("each", place, 0)]})], 128, [128, SIZE], 1, 1)
    with pytest.raises(ValueError, match="stride"):
        step = copies(), {"arrays": [second, ("each", ("arena", 0, SIZE), 3)]}
        Program([step], 256, [SIZE, SIZE], 1, 1, repeats=[(0, 1, 2)])


@pytest.mark.parametrize(
    ("name", "at", "number", "error"),
    [
        ("x", 0, -64, ValueError), ("y", 2, 1 << 50, MemoryError),
        ("y", 0, 1 << 46, MemoryError), ("geometry", 0, -1, ValueError),
        ("geometry", 4, 1 << 31, MemoryError), ("matrices", 0, -64, ValueError),
        ("matrices", 1, 1 << 50, MemoryError), ("matrices", 2, 1 << 46, None),
        ("matrices", 5, 4, ValueError), ("matrices", 5, 3, None),
    ],
)  # fmt: skip
def test_sizes_of_plans_do_not_overflow(name, at, number, error):
    """A file may say any number."""
    problem = ConvProblem.parse(f"mb{1 << 20}g2ic4ih5oc6kh1")
    plan, fields = planner.make_plan(problem)
    numbers = [*fields[name]]
    numbers[at] = number
    fields[name] = tuple(numbers)
    if error is None:
        Prepared(problem, plan, fields, 1)
        return
    with pytest.raises(error):
        Prepared(problem, plan, fields, 1)


def test_weights_have_a_plan():
    """A file may say null where a plan belongs."""
    weight = np.empty(0)
    with pytest.raises(TypeError, match="prepared"):
        PackedWeights(None, weight, np.zeros(64, np.uint8), keep=weight)


def test_slopes_are_those_of_the_channels(rng):
    problem = ConvProblem.parse("mb1ic4ih5oc6kh1")
    plan, fields = planner.make_plan(problem)
    prepared = Prepared(problem, plan, fields, 1)
    weight = rng.standard_normal((6, 4, 1, 1)).astype(np.float32)
    places = {
        "x": ("external", 0, 0, 400), "y": ("external", 1, 0, 600),
        "weights": PackedWeights(prepared, weight),
    }  # fmt: skip
    for count, kind in ((6, "f32"), (5, "f32"), (6, "f64")):
        slope = rng.standard_normal(count)
        activation = Activation(Description("prelu", slope=slope), kind)
        steps = [(prepared, {**places, "activation": activation})]
        if (count, kind) == (6, "f32"):
            Program(steps, 0, [400, 600], 1, 1, inputs=1)
            continue
        with pytest.raises(ValueError, match=r"for each output channel|type of the bias"):
            Program(steps, 0, [400, 600], 1, 1, inputs=1)


def test_a_clip_has_two_bounds():
    with pytest.raises(ValueError, match="two bounds"):
        Activation(Description("none", bounds=(0.0,) * 9), "f32")
