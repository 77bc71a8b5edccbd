"""What the plans of operators that run several convolutions have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, TextIO, TypeVar

from .. import planner
from .._records import record
from ..planner import Plan

__all__ = ["PlanOfParts", "as_run_here"]

_Some = TypeVar("_Some", bound="PlanOfParts")


@record(frozen=True)
class PlanOfParts:
    """A plan that consists of others; see `TransposedPlan` and `VolumePlan` for the fields."""

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

    # What the problem is, in one word.
    kind: ClassVar[str] = ""

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
        from ..planner.showing import show_parts

        title = f"{self.kind} {self.problem} {self.dtype} {self.layout}\n{self.way}"
        show_parts(self.parts, title, measure, width, file)

    def __str__(self) -> str:
        """Lay the plan out for reading, one fact a line."""
        lines = {
            "problem": f"{self.kind} {self.problem} {self.dtype} {self.layout}",
            "way": f"{self.way} (error at most {self.error_bound:.1e})",
            "team": f"{self.threads} threads",
            "scratch": f"{self.scratch_bytes} bytes",
            "weights": f"{self.packed_weight_bytes} bytes",
        }
        for number, part in enumerate(self.parts, 1):
            lines[f"part {number}"] = f"{part.algorithm} {part.kernel}, {part.problem}"
        return "\n".join(f"{name:<11}{text}" for name, text in lines.items())


def as_run_here(plan: _Some) -> _Some:
    """The plan with the team that a call of this thread would have now."""
    parts = tuple(map(planner.as_run_here, plan.parts))
    return replace(plan, parts=parts, threads=max(part.threads for part in parts))
