"""A candidate: one way to compute one problem; the interface that planner and loops use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._records import NamedTuple
from ..numerics import Numerics
from ..problem import ConvProblem, Problem
from .core_model import CoreModel

if TYPE_CHECKING:
    from typing_extensions import Self

EXACT = "exact sum"  # integer sums have the same bits in any order
INSIDE = ", inside the image"  # taps on padding are left out of a sum
LINE = 64  # bytes; divides longer lines, of 128 (Apple) and 256 (A64FX)
FINISH_COLUMNS = 128  # of integer sums that are finished together: 32 rows of them stay in L1
PIECES_EACH = 4
PIECE_CYCLES = 30_000.0  # a hundred times what a task costs
# Callers' questions about a plan: attributes of its candidate, which `Candidate.fields` passes on.
ANSWERS = (
    "multiplies_padding", "leaves_zeros_out", "walks_rows", "pixels_run_on", "takes_gaps",
    "offsets_by_taps",
)  # fmt: skip


class KernelKey(NamedTuple):
    """Operation and tile of a kernel; types and instruction set then lead to its symbol.

    Parameters
    ----------
    op : str
        Operation, as the registry names it.
    mr, nr, kr : int
        Tile: rows, columns, and neighbouring k that are multiplied together; 0 if the operation has
        no tile.
    """

    op: str
    mr: int = 0
    nr: int = 0
    kr: int = 0

    @property
    def tile(self) -> str:
        """The tile as plans show it; empty if there is none."""
        return f"{self.mr}x{self.nr}" if self.mr else ""


def ceil_div(a: int, b: int) -> int:
    """Quotient of `a` and `b`, rounded up."""
    return -(-a // b)


def round_up(a: int, multiple: int) -> int:
    """The least multiple of `multiple` that is at least `a`."""
    return -(-a // multiple) * multiple


def finish_panels(channels: int, nr: int) -> int:
    """Panels of at most `channels` output channels whose integer sums are finished together."""
    return max(min(ceil_div(channels, nr), FINISH_COLUMNS // nr), 1)


def odd_lines(size: int) -> int:
    """Round `size` bytes up to an odd number of cache lines: rows then share no cache set."""
    return (ceil_div(size, LINE) | 1) * LINE


def thread_scratch(size: int) -> int:
    """Bytes of one thread's scratch: whole pages that no other thread shares.

    As their number is odd, the threads' scratch does not fall into the same cache sets.
    """
    return (round_up(size, 4096) | 4096) if size else 0


def balanced(total: int, largest: int, multiple: int, pieces: int = 1) -> int:
    """Size of equal pieces of `total`: a multiple of `multiple`, at most about `largest`.

    There are at least `pieces` of them if `total` is large enough.
    """
    # Written out, as a plan cuts hundreds of sizes.
    units = -(-total // multiple)
    count = max(-(-total // max(largest, multiple)), min(pieces, units))
    each = -(-total // count)
    return min(-(-each // multiple), units) * multiple


def team_pieces(total: int, multiple: int, threads: int, cycles: float) -> int:
    """Number of pieces to cut a team's work into, for `balanced`.

    If the machine holds a thread up, the others wait until its piece is done. So each thread gets
    several pieces, unless they would be small or less evenly shared.

    Parameters
    ----------
    total, multiple : int
        The size to cut, and the unit that a piece is a multiple of.
    threads : int
        The team.
    cycles : float
        All the work, on one thread.
    """
    units = ceil_div(total, multiple)
    for each in range(PIECES_EACH, 1, -1) if threads > 1 else ():
        pieces = each * threads
        size = ceil_div(units, pieces)
        most = ceil_div(ceil_div(units, size), threads) * size if size else 0
        if cycles >= pieces * PIECE_CYCLES and most <= ceil_div(units, threads):
            return pieces
    return threads


def ragged_groups(problem: ConvProblem) -> str | None:
    """Say why groups that end inside a block of channels are refused; None if none does."""
    if problem.layout == "NCHWc" and problem.groups > 1:
        ic, oc = problem.ic // problem.groups, problem.oc // problem.groups
        if ic % problem.block or oc % problem.block:
            return f"in NCHWc, groups must fill blocks of {problem.block} channels"
    return None


def narrow_blocks(problem: Problem, numerics: Numerics) -> str | None:
    """Say why blocks of channels are refused for narrow types; None if they are not."""
    if problem.block and numerics.narrow:
        return f"products of {numerics.operand} take no channels in blocks"
    return None


def is_padded(problem: Problem) -> bool:
    """Whether windows of `problem` reach beyond the image."""
    return isinstance(problem, ConvProblem) and problem.padding != ((0, 0), (0, 0))


def bits_of_part(bits: str, part: Problem) -> str:
    """Give the bits that a part of a convolution is asked for: without padding, it has all taps."""
    return bits if is_padded(part) else bits.replace(INSIDE, "")


def wide_only(numerics: Numerics) -> str | None:
    """Say why loops that do not take pixels in rows refuse narrow types; None for wide types."""
    if numerics.narrow:
        return f"products of {numerics.operand} take pixels in rows"
    return None


class Candidate(ABC):
    """One way to compute a problem.

    Attributes
    ----------
    problem : Problem
        The problem to compute.
    numerics : Numerics
        The types that it computes with.
    algorithm : str
        Name of the algorithm, as ``algorithm=`` takes it.
    loops : str
        Which module of ``schedules`` runs it.
    leaves_zeros_out : bool
        Whether zero weights are left out of products; the same for a whole algorithm.
    transforms : bool
        Whether the algorithm transforms its operands, so that there are fewer products than in the
        direct sum; the same for a whole algorithm.
    walks_rows : bool
        Whether the loops walk the rows of images one by one, so that rows of blocks of channels may
        lie anywhere.
    pixels_run_on : bool
        Whether the loops walk pixels without regard to rows and images, so that all pixels must be
        the same distance apart.
    offsets_by_taps : bool
        Whether integer sums leave out taps on padding, so that outputs that see different taps need
        different offsets. Other loops multiply the zero point there.
    """

    problem: Problem
    numerics: Numerics
    algorithm: str
    loops: str

    # The defaults, which hold for most kinds of candidate.
    leaves_zeros_out: bool = False
    transforms: bool = False
    walks_rows: bool = False
    pixels_run_on: bool = False
    offsets_by_taps: bool = False

    @property
    @abstractmethod
    def multiplies_padding(self) -> bool:
        """Whether padding is multiplied like pixels, so that infinite weights give NaN there."""

    @property
    @abstractmethod
    def takes_gaps(self) -> bool:
        """Whether the loops use the distance between pixels, so that there may be gaps.

        Other loops treat an image of one channel as a plane without gaps, and convert the pixels of
        several rows at once.
        """

    @property
    @abstractmethod
    def bits(self) -> str:
        """What decides the bits of the result: the method and the order of its sums.

        The planner chooses the bits without looking at the team; the team only chooses among
        candidates of equal bits.
        """

    @property
    @abstractmethod
    def blocks(self) -> dict[str, int | str]:
        """The choices that distinguish this candidate from others of its algorithm."""

    @property
    @abstractmethod
    def packing(self) -> str:
        """Format of the packed weights; weights of one format serve every plan that has it."""

    @property
    @abstractmethod
    def packed_weight_bytes(self) -> int:
        """Size of the packed weights."""

    @property
    @abstractmethod
    def tasks(self) -> int:
        """Iterations of the parallel loop."""

    @property
    @abstractmethod
    def scratch_bytes(self) -> int:
        """Scratch of one thread."""

    @property
    def shared_bytes(self) -> int:
        """Scratch that the team shares."""
        return 0

    def knowing(self, known: Mapping[str, Any]) -> Self:
        """Give the candidate lazy values that it shares with others; a plan compares hundreds.

        Parameters
        ----------
        known : mapping of str to object
            The values that it would compute itself.
        """
        vars(self).update(known)
        return self

    def workspace(self, threads: int) -> int:
        """Scratch of a team."""
        return self.shared_bytes + threads * self.scratch_bytes

    @property
    @abstractmethod
    def error_bound(self) -> float:
        """Stated bound of the error, relative to the output's largest magnitude."""

    @property
    @abstractmethod
    def kernel(self) -> KernelKey:
        """The main microkernel."""

    @abstractmethod
    def cost(self, core: CoreModel, threads: int) -> dict[str, float]:
        """Estimate the cycles of the busiest thread, by named term."""

    @abstractmethod
    def own_fields(self) -> dict[str, Any]:
        """Collect the fields that the loops take besides the problem's shape."""

    def fields(self, threads: int) -> dict[str, Any]:
        """Collect the fields that the loops take."""
        return {
            "loops": self.loops,
            "threads": threads,
            "tasks": self.tasks,
            "scratch_bytes": self.scratch_bytes,
            "shared_bytes": self.shared_bytes,
            "packed_weight_bytes": self.packed_weight_bytes,
            **{name: getattr(self, name) for name in ANSWERS},
            **shape_fields(self.problem, self.numerics),
            **self.own_fields(),
        }


def shape_fields(p: Problem, numerics: Numerics) -> Mapping[str, Any]:
    """Describe the problem to the loops: its geometry and the layout of the user's arrays."""
    return {
        "geometry": p.geometry,
        "numerics": numerics,
        "batch": p.batch,
        "groups": p.groups,
        "ic": p.ic // p.groups,
        "oc": p.oc // p.groups,
        "x": p.input_memory(numerics.source_bytes),
        "y": p.output_memory(numerics.destination_bytes),
    }
