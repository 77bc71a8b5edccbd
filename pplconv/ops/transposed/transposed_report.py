"""`TransposedPlan`, the result of `ConvTranspose2d.plan_for`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TextIO

from ... import planner
from ...planner import Plan
from .transposed_problem import TransposedProblem

__all__ = ["TransposedPlan", "as_run_here"]


@dataclass(frozen=True)
class TransposedPlan:
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

    problem: str
    dtype: str
    layout: str
    way: str
    parts: tuple[Plan, ...]
    isa: str
    threads: int
    packed_weight_bytes: int
    scratch_bytes: int
    error_bound: float

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

    def show(
        self, measure: bool = False, *, width: int | None = None, file: TextIO | None = None
    ) -> None:
        """Print bars as `Plan.show` does, those of all parts together.

        Parameters
        ----------
        measure, width, file
            As of `Plan.show`. Parts are timed one by one, each on dense arrays.

        Raises
        ------
        ValueError, RuntimeError
            As of `Plan.show`.
        """
        from ...planner.showing import show_parts

        title = f"transposed {self.problem} {self.dtype} {self.layout}\n{self.way}"
        show_parts(self.parts, title, measure, width, file)

    def __str__(self) -> str:
        """Lay the plan out for reading, one fact a line."""
        lines = {
            "problem": f"transposed {self.problem} {self.dtype} {self.layout}",
            "way": f"{self.way} (error at most {self.error_bound:.1e})",
            "team": f"{self.threads} threads",
            "scratch": f"{self.scratch_bytes} bytes",
            "weights": f"{self.packed_weight_bytes} bytes",
        }
        for number, part in enumerate(self.parts, 1):
            lines[f"part {number}"] = f"{part.algorithm} {part.kernel}, {part.problem}"
        return "\n".join(f"{name:<11}{text}" for name, text in lines.items())


def as_run_here(plan: TransposedPlan) -> TransposedPlan:
    """The plan with the team that a call of this thread would have now."""
    parts = tuple(map(planner.as_run_here, plan.parts))
    return replace(plan, parts=parts, threads=max(part.threads for part in parts))
