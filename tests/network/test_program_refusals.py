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
