"""A transposed convolution with its weights packed, and its steps compiled for one team."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arguments.activation import Activation as Description
from ...memory.dtypes import DTYPES
from ...schedules.copy_loops import Copy as CopyWork
from ..blocked import from_blocked, to_blocked
from ..prepared import Activation, PackedWeights, Prepared
from ..program import Frame, Program
from .phases import joined_kernel, phase_kernel
from .tap_runs import run_kernel
from .transposed_problem import TransposedProblem
from .transposed_report import TransposedPlan
from .transposed_ways import Copy, Lying, Piece, Way
from .transposing import Decomposed

__all__ = ["Transposed"]

Array = npt.NDArray[Any]
Numbers = dict[str, int]


def _kernel(weight: Array, groups: int, piece: Piece) -> Array:
    """The weights of a piece, contiguous."""
    kind, *which = piece.kernel
    if kind == "nothing":
        return np.zeros(piece.problem.weight_shape, weight.dtype)
    if kind == "phase":
        return np.ascontiguousarray(phase_kernel(weight, groups, *which))
    if kind == "taps":
        return np.ascontiguousarray(run_kernel(weight, groups, *which))
    if kind == "row":
        taps, across = which
        part = weight[:, :, taps.start : taps.stop : taps.step]
        return np.ascontiguousarray(joined_kernel(part, groups, (1, across)))
    return np.ascontiguousarray(joined_kernel(weight, groups, which))


class Transposed:
    """A transposed convolution with its weights packed, ready to run.

    Parameters
    ----------
    decomposed : Decomposed
        The planned decomposition.
    weight : ndarray
        Contiguous, (ic, oc / groups, kh, kw).
    bias : ndarray or None
        Of the arrays' type.
    described : pplconv.arguments.activation.Activation
        The activation, checked.
    packed : dict
        Packed weights by piece and packing, shared by several of these.
    """

    def __init__(
        self,
        decomposed: Decomposed,
        weight: Array,
        bias: Array | None,
        described: Description,
        packed: dict[Any, PackedWeights],
    ) -> None:
        self._decomposed = decomposed
        self._bias, self._described = bias, described
        self._weights: list[PackedWeights] = []
        self.used: set[Any] = set()
        groups = decomposed.problem.groups
        for piece, prepared in zip(decomposed.way.pieces, decomposed.prepared, strict=True):
            plan = prepared.plan
            key = piece.kernel, f"{plan.packing} of {plan.numerics.weights}"
            if key not in packed:
                packed[key] = PackedWeights(prepared, _kernel(weight, groups, piece))
            self.used.add(key)
            self._weights.append(packed[key])
        # Programs are compiled when needed: few calls have a residual.
        self._programs: dict[bool, _Compiled] = {}

    @property
    def plan(self) -> TransposedPlan:
        """The plan."""
        return self._decomposed.plan

    @property
    def problem(self) -> TransposedProblem:
        """The requested problem."""
        return self._decomposed.asked

    def run(self, x: Array, y: Array, residual: Array | None) -> None:
        """Compute; all arrays are contiguous, of the problem's shapes and type."""
        if not self.problem.batch:
            return
        asked, computed = self._decomposed.asked, self._decomposed.problem
        if asked is computed:
            self._run(x, y, residual)
            return
        planes = from_blocked(x.reshape(asked.input_shape), asked.ic)
        if residual is not None:
            residual = from_blocked(residual.reshape(asked.output_shape), asked.oc)
        sums = np.empty(computed.output_shape, y.dtype)
        self._run(planes, sums, residual)
        y.reshape(asked.output_shape)[...] = to_blocked(sums, asked.block)

    def _run(self, x: Array, y: Array, residual: Array | None) -> None:
        added = residual is not None
        program = self._programs.get(added)
        if program is None:
            # Two threads may compile the same program; either one serves.
            program = self._programs[added] = self._compile(added)
        program.run([x, y] if residual is None else [x, y, residual])

    def _compile(self, added: bool) -> _Compiled:
        d = self._decomposed
        p = d.problem
        e = DTYPES[p.dtype].itemsize
        sizes = {
            "x": e * int(np.prod(p.input_shape, dtype=object)),
            "y": e * int(np.prod(p.output_shape, dtype=object)),
        }
        if added:
            sizes["residual"] = sizes["y"]
        arena = d.way.arena
        # What is added to the sums of a piece lies behind them.
        compiled = _Compiled(sizes, 2 * arena if added else arena, arena)
        constants = [self._constants(i) for i in range(len(d.way.pieces))]
        isa = d.plan.isa
        for turn in range(d.rounds):
            at = {name: turn * d.images * (size // max(p.batch, 1)) for name, size in sizes.items()}
            for index, piece in enumerate(d.way.pieces):
                if added:
                    for copy in d.way.copies:
                        if _first_of(d.way, copy, index):
                            compiled.copy(copy, at, isa, back=True)
                compiled.convolve(d.prepared[index], piece, at, constants[index], added)
                for copy in d.way.copies:
                    if copy.after == index:
                        compiled.copy(copy, at, isa, back=False)
        compiled.finish(max(part.threads for part in d.plan.parts), d.most, d.most_scratch)
        return compiled

    def _constants(self, index: int) -> dict[str, Any]:
        """Weights, bias and activation of a piece."""
        d = self._decomposed
        piece, numerics = d.way.pieces[index], d.prepared[index].plan.numerics
        described, groups = self._described, d.problem.groups

        def repeated(array: Array) -> Array:
            by_group = array.reshape(groups, 1, -1)
            return np.repeat(by_group, piece.times, axis=1).reshape(-1)

        bias = self._bias
        if bias is not None:
            with np.errstate(all="ignore"):
                bias = np.ascontiguousarray(repeated(bias), DTYPES[numerics.bias])
        if described.kind == "prelu":
            described = replace(described, slope=repeated(described.slope))
        return {
            "weights": self._weights[index], "bias": bias,
            "activation": Activation(described, numerics.bias),
        }  # fmt: skip


def _first_of(way: Way, copy: Copy, index: int) -> bool:
    """Whether this copy moves a residual before the piece, the first that needs it."""
    first = max((c.after for c in way.copies if c.after < copy.after), default=-1) + 1
    return index == first


class _Compiled:
    """Steps for one team, divided where NumPy has to copy."""

    def __init__(self, sizes: dict[str, int], arena: int, residuals: int) -> None:
        self._sizes = sizes
        self._names = list(sizes)
        self._arena, self._residuals = arena, residuals
        self._steps: list[tuple[Any, dict[str, Any]]] = []
        self._cuts: list[tuple[int, Callable[[Frame, list[Array]], None]]] = []
        self._program: Program | None = None

    def _place(self, lying: Lying, at: Numbers, base: str = "", shift: int = 0) -> Any:
        """Describe a part of an array for a program."""
        base = base or lying.base
        if base == "zeros":
            return np.zeros(lying.strides[0] * lying.shape[0], np.uint8)
        offset = lying.offset + at.get(base, 0) + shift
        if base == "arena":
            return ("arena", offset, self._arena - offset)
        return ("external", self._names.index(base), offset, self._sizes[base] - offset)

    def convolve(
        self, prepared: Prepared, piece: Piece, at: Numbers, constants: dict[str, Any], added: bool
    ) -> None:
        """Add the step of a piece."""
        residual = None
        if added and piece.y.base == "arena":
            residual = self._place(piece.y, at, shift=self._residuals)
        elif added:
            residual = self._place(piece.y, at, "residual")
        self._steps.append((prepared, {
            "x": self._place(piece.x, at), "y": self._place(piece.y, at), "residual": residual,
            **constants,
        }))  # fmt: skip

    def copy(self, copy: Copy, at: Numbers, isa: str, *, back: bool) -> None:
        """Add the step of a copy to the output, or from a residual."""
        fields = copy.fields(back=back)
        base, shift = ("residual", self._residuals) if back else ("y", 0)
        if fields is not None:
            outer = self._place(copy.outer, at, base)
            inner = self._place(copy.inner, at, shift=shift)
            arrays = [inner, outer] if back else [outer, inner]
            self._steps.append((CopyWork(fields, isa), {"arrays": arrays}))
            return
        number = self._names.index(base)
        outer_at = copy.outer.offset + at[base]
        inner_at = copy.inner.offset + shift
        # Copies move bits of any type.
        bits = np.dtype(f"u{copy.element}")

        def move(frame: Frame, arrays: list[Array]) -> None:
            memory: Any = frame
            flat: Any = arrays[number].reshape(-1).view(np.uint8)
            outer = np.ndarray(copy.outer.shape, bits, flat, outer_at, copy.outer.strides)
            inner = np.ndarray(copy.inner.shape, bits, memory, inner_at, copy.inner.strides)
            if back:
                inner[...] = outer
            else:
                outer[...] = inner

        self._cuts.append((len(self._steps), move))

    def finish(self, threads: int, most: int, most_scratch: int | None) -> None:
        """Compile the steps."""
        sizes = list(self._sizes.values())
        self._program = Program(self._steps, self._arena, sizes, threads, most, most_scratch)

    def run(self, arrays: list[Array]) -> None:
        """Run on the caller's arrays."""
        program = self._program
        assert program is not None
        externals: list[Array | None] = list(arrays)
        frame = program.frame()
        try:
            done = 0
            for end, move in self._cuts:
                program.run(frame, externals, done, end)
                done = end
                move(frame, arrays)
            program.run(frame, externals, done, len(self._steps))
        finally:
            program.give_back(frame)
