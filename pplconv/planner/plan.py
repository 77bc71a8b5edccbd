"""A plan: how one problem is computed. Frozen, readable, and free of any address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class Plan:
    """How one convolution is computed, decided before the first run.

    Block sizes and the team never change a result; algorithm and ISA may change its last
    bits.

    Parameters
    ----------
    problem : str
        The problem in one line, as oneDNN's benchdnn writes it.
    dtype, layout : str
        Of input and output.
    algorithm : str
        ``"pointwise"`` or ``"im2col"``.
    isa : str
        Instruction set of the kernels.
    kernel : str
        Symbol of the main microkernel.
    orientation : str
        ``"pixels"``: vectors run over output pixels, weights are broadcast. ``"channels"``:
        vectors run over output channels, pixels are broadcast.
    mr, nr : int
        Rows and columns of the tile that the microkernel keeps in registers.
    k_block : int
        Length of one block of the sum.
    oc_segment, hw_segment, group_segment : int
        Output channels, output pixels and groups of one task.
    pixels_inner : bool
        Whether the pixels of a task run in the inner loop (weights stay in L1).
    tasks, threads : int
        Tasks of the parallel loop; size of the team.
    packing : str
        Format of the packed weights: panel width and order of k.
    packed_weight_bytes : int
        Size of the packed weights, in bytes.
    scratch_bytes : int
        Scratch memory of the whole team, in bytes.
    cost : mapping of str to float
        The estimate, term by term, in cycles of the whole team's wall time.
    runners_up : tuple of str
        The next best candidates of the estimate, best first.
    """

    problem: str
    dtype: str
    layout: str
    algorithm: str
    isa: str
    kernel: str
    orientation: str
    mr: int
    nr: int
    k_block: int
    oc_segment: int
    hw_segment: int
    group_segment: int
    pixels_inner: bool
    tasks: int
    threads: int
    packing: str
    packed_weight_bytes: int
    scratch_bytes: int
    cost: Mapping[str, float] = field(hash=False, compare=False)
    runners_up: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost", MappingProxyType(dict(self.cost)))

    def __reduce__(self) -> tuple[object, ...]:
        # A mapping proxy cannot be pickled; the fields in order can.
        values = (getattr(self, name) for name in self.__dataclass_fields__)
        return type(self), tuple(dict(v) if isinstance(v, Mapping) else v for v in values)

    def __str__(self) -> str:
        """Lay the plan out for reading, one fact a line."""
        cost = ", ".join(f"{name} {cycles:.3g}" for name, cycles in self.cost.items())
        lines = {
            "problem": f"{self.problem} {self.dtype} {self.layout}",
            "algorithm": f"{self.algorithm}, vectors over {self.orientation}",
            "kernel": f"{self.kernel} (tile {self.mr}x{self.nr})",
            "blocks": (
                f"k {self.k_block}, oc {self.oc_segment}, hw {self.hw_segment}, "
                f"groups {self.group_segment}, "
                f"{'pixels' if self.pixels_inner else 'channels'} innermost"
            ),
            "team": f"{self.threads} threads over {self.tasks} tasks",
            "scratch": f"{self.scratch_bytes} bytes",
            "weights": f"{self.packed_weight_bytes} bytes, packed {self.packing}",
            "cost": f"{cost} (cycles)",
            "runners-up": "; ".join(self.runners_up) or "none",
        }
        return "\n".join(f"{name:<11}{text}" for name, text in lines.items())
