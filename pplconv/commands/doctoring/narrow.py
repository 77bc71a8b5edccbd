"""What products of bfloat16 gain on this CPU, by the planner's estimate."""

from __future__ import annotations

from dataclasses import replace

from ... import planner
from ...arguments.checks import PRECISIONS
from ...numerics import BRAIN_KINDS, numerics_of
from ...problem import ConvProblem

__all__ = ["LAYERS", "estimate_gains"]

LAYERS = {"1x1": "mb1ic256ih28oc256kh1", "3x3": "mb1ic128ih28oc128kh3ph1"}
"""Two layers of usual networks; float32 may compute the second by Winograd's algorithm."""


def estimate_gains() -> dict[str, float]:
    """Estimate how many times as fast each of `LAYERS` is; empty without such products."""
    levels = {planner.best_isa(numerics_of("f32", kind)) for kind in BRAIN_KINDS}
    if not levels - {None, "portable"}:
        return {}
    tolerance, found = planner.default_tolerance(), {}
    for name, text in LAYERS.items():
        wide = ConvProblem.parse(text, layout="NHWC")
        low = replace(wide, permitted=PRECISIONS["bf16"]["f32"])
        before, after = (planner.least_cycles(each, tolerance, None) for each in (wide, low))
        found[name] = before / after
    return found
