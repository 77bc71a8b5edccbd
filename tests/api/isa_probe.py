"""Run a compact set of problems in a process of its own and print what came of it as JSON.

The cap on instruction sets is read once in a process, so each cap needs a process. Not a test
module: ``test_isa.py`` runs it as a script, with the helpers' directories on the path.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import numpy as np

import pplconv
from tests.api.problems import CURVES, Problem, stated_by
from tests.reference import assert_convolution

# batch, groups, ic, oc, image, kernel, stride, padding, dilation
SHAPES = [
    (1, 1, 64, 64, (14, 14), (1, 1), 1, 0, 1),
    (2, 1, 33, 29, (13, 7), (1, 1), 1, 0, 1),
    (1, 1, 20, 40, (9, 33), (1, 1), 2, 0, 1),
    (1, 1, 3, 32, (33, 31), (7, 7), 2, 3, 1),
    (1, 1, 96, 70, (12, 17), (3, 3), 1, 1, 1),
    (1, 1, 260, 20, (7, 7), (3, 3), 1, "same_upper", 1),
    (3, 4, 20, 24, (16, 16), (3, 2), (1, 2), ((0, 1), (2, 1)), (2, 1)),
    (1, 24, 24, 24, (19, 18), (3, 3), 1, 1, 1),
    (2, 5, 5, 15, (8, 49), (5, 5), 1, 2, 1),
    (None, 1, 1, 1, (5, 5), (2, 2), 1, 0, 1),
    (4, 1, 130, 129, (1, 1), (1, 1), 1, 0, 1),
]


def methods(problem: Problem) -> list[dict[str, Any]]:
    """Give the options that lead to each method: the planner's, and those that can serve."""
    found: list[dict[str, Any]] = [{}, {"algorithm": "im2col"}, {"algorithm": "direct"}]
    if problem.kernel == (1, 1) and problem.stride == 1:
        found.append({"algorithm": "pointwise"})
    if problem.groups == problem.in_channels:
        found.append({"algorithm": "depthwise"})
    if problem.kernel in ((3, 3), (5, 5)) and problem.stride == problem.dilation == 1:
        # So strict that few variants are left, and both instruction sets get the same.
        tolerance = 3e-6 if problem.dtype == "float32" else 1e-14
        found.append({"algorithm": "winograd", "tolerance": tolerance})
    return found


def compute(problem: Problem, options: dict[str, Any]) -> tuple[Any, np.ndarray, list[str]]:
    """Give the plan, the result and what was wrong with it."""
    arrays = problem.arrays()
    # The bits do not depend on the team.
    arguments = {**problem.parameters, **options, "threads": 1}
    conv = pplconv.Conv2d(arrays["weight"], arrays["bias"], **arguments)
    y = conv(arrays["input"], arrays["residual"])
    plan = conv.plan_for(problem.input_shape)
    # NaN has many bit patterns; there is none here.
    assert not np.isnan(y).any()
    failures = []
    try:
        assert_convolution(y, **arrays, **problem.parameters, stated=stated_by(plan))
    except AssertionError as error:
        failures.append(f"{problem} {options}: {error}")
    return plan, y, failures


def main() -> None:
    """Print the ISAs that plans name, a digest of each result, and what was wrong.

    An argument says how many of the shapes are enough.
    """
    isas, digests, failures = set(), {}, []
    for dtype in ("float32", "float64"):
        for layout in ("NCHW", "NHWC"):
            for seed, shape in enumerate(SHAPES[: int(sys.argv[1]) if sys.argv[1:] else None]):
                plain = {"activation": None, "with_bias": True}
                clipped = {"activation": ("clip", -1, 2), "with_residual": True}
                # The activation that changes from shape to shape: each meets both layouts.
                curved = {"activation": CURVES[seed % len(CURVES)], "with_bias": True}
                for epilogue in (plain, clipped, curved):
                    problem = Problem(dtype, layout, *shape, **epilogue, seed=seed)
                    for options in methods(problem):
                        plan, y, failure = compute(problem, options)
                        isas.add(plan.isa)
                        failures += failure
                        name = f"{problem} by {plan.algorithm}: {plan.bits}"
                        digests[name] = hashlib.sha256(y.tobytes()).hexdigest()
    print(json.dumps({"isas": sorted(isas), "digests": digests, "failures": failures}))


if __name__ == "__main__":
    main()
