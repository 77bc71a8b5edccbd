"""`TransposedPlan`, the result of `ConvTranspose2d.plan_for`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..._records import record
from ...planner import Plan
from ..plan_of_parts import PlanOfParts
from .transposed_problem import TransposedProblem

__all__ = ["TransposedPlan"]


@record(frozen=True)
class TransposedPlan(PlanOfParts):
    """The plan of one transposed convolution, made before the first run.

    Parameters
    ----------
    problem : str
        The problem in one line, as oneDNN's benchdnn writes it for deconvolutions.
    dtype, layout : str
        Of input and output; a blocked layout with its block, ``"NCHW16c"``.
    way : str
        The division into ordinary convolutions: ``"phases"`` writes each phase to its positions in
        the output, ``"rows"`` computes neighbours in a row at once, ``"joined"`` computes all
        phases at once and then copies them, ``"phases, moved"`` and ``"phases, spared"`` compute
        phases one by one and copy them, ``"taps"`` serves large strides by products of many taps.
    parts : tuple of Plan
        The plans of these convolutions.
    isa : str
        Instruction set of the kernels.
    threads : int
        Size of the team.
    packed_weight_bytes : int
        Size of all packed weights, in bytes.
    scratch_bytes : int
        Memory of a call in bytes: the whole team's scratch, and results before they are copied.
    error_bound : float
        Stated bound of the error against float64, relative to the output's largest magnitude.
    """

    kind: ClassVar[str] = "transposed"

    @classmethod
    def of(
        cls, problem: TransposedProblem, way: str, moved: int, parts: Sequence[Plan]
    ) -> TransposedPlan:
        """Sum up the plans of the parts; `moved` is in bytes."""
        return cls(
            str(problem), problem.dtype, parts[0].layout, way, tuple(parts), parts[0].isa,
            max(part.threads for part in parts), sum(part.packed_weight_bytes for part in parts),
            moved + max(part.scratch_bytes for part in parts),
            max(part.error_bound for part in parts),
        )  # fmt: skip
