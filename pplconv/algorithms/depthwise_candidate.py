"""The base of depthwise convolution's candidates, of floating point and of bytes: the cut."""

from __future__ import annotations

from abc import abstractmethod

from .._records import record
from ..numerics import Numerics
from ..problem import ConvProblem
from .candidate import Candidate, ceil_div
from .core_model import busiest_share

NAME = "depthwise"
# Kinds of products of `depthwise_bytes`: bytes in place, by weights of up to nine bits.
BYTE_PRODUCTS = ("u8d", "s8d")


@record(frozen=True)
class DepthwiseCandidate(Candidate):
    """A cut of images into segments of output channels and rows, one task each.

    Parameters
    ----------
    problem : ConvProblem
        The problem to compute.
    numerics : Numerics
        The types that it is computed with.
    isa_lanes : int
        Sums in a vector.
    channel_segment, row_segment : int
        Output channels and rows of a task.
    chunk_bytes : int
        Size that the rows and sums of a chunk in the scratch should fit.
    """

    problem: ConvProblem
    numerics: Numerics
    isa_lanes: int
    channel_segment: int
    row_segment: int
    chunk_bytes: int

    algorithm = NAME
    multiplies_padding = False

    @property
    @abstractmethod
    def by_pixels(self) -> bool:
        """Whether vectors run over pixels."""

    @property
    def orientation(self) -> str:
        """Direction of vectors."""
        return "pixels" if self.by_pixels else "channels"

    @property
    def blocks(self) -> dict[str, int | str]:
        """Orientation and segments."""
        return {
            "orientation": self.orientation,
            "channel_segment": self.channel_segment,
            "row_segment": self.row_segment,
        }

    @property
    def tasks(self) -> int:
        """Iterations of the parallel loop."""
        p = self.problem
        return p.batch * ceil_div(p.oc, self.channel_segment) * ceil_div(p.oh, self.row_segment)

    def cut_fields(self, chunk: tuple[int, int]) -> dict[str, int]:
        """The cut as the loops take it; `chunk`: channels and rows computed together."""
        return {
            "channel_segment": self.channel_segment,
            "row_segment": self.row_segment,
            "channel_chunk": chunk[0],
            "row_chunk": chunk[1],
        }

    def busiest(self, threads: int) -> float:
        """Share of the work that the busiest of `threads` threads has."""
        p = self.problem
        largest = min(1.0, self.channel_segment / p.oc) * min(1.0, self.row_segment / max(p.oh, 1))
        return busiest_share(self.tasks, threads, largest / max(p.batch, 1))
