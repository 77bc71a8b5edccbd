"""How a network runs, for people: `InferenceSession.plan_for` and `profile`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TextIO

from .. import planner
from ..arguments import checks
from ..drawing.bars import Row, draw, write
from ..drawing.columns import columns
from ..drawing.figures import milliseconds
from ..ops.prepared import PackedWeights, Prepared
from ..planner.roofs import NOMINAL_HERTZ
from .arena import lives
from .compiling import Compiled
from .programs import Program
from .storage import Shape, Step


@dataclass(frozen=True)
class StepPlan:
    """One step of a network.

    Parameters
    ----------
    kind : str
        Kind of step.
    outputs : tuple of str
        Names of the outputs of its nodes.
    shape : tuple of int
        Of its result.
    layout : str
        ``"NHWC"``, or the order of the dimensions in memory, outermost first; ``"view"`` of a
        part of an array is marked by ``+``.
    detail : str
        Details, for people.
    flops : int
        Floating-point operations of convolutions and products.
    bytes : int
        Bytes read and written, without packed weights.
    seconds : float or None
        Its time; None if it was not measured.
    method : str
        Algorithm of a convolution or product; "" of all other steps.
    weight_bytes : int
        Bytes of packed weights.
    host : bool
        Whether it runs in Python.
    plan : Plan or None
        Plan of a convolution or product; its `sparsity` and gains describe the treatment of zero
        weights.
    turns : int
        How often a run takes the step; operations, bytes and time are those of all turns.
    """

    kind: str
    outputs: tuple[str, ...]
    shape: Shape
    layout: str
    detail: str
    flops: int
    bytes: int
    seconds: float | None = None
    method: str = ""
    weight_bytes: int = 0
    host: bool = False
    plan: planner.Plan | None = None
    turns: int = 1

    @property
    def leaves_zeros_out(self) -> bool:
        """Whether zero weights are left out."""
        return self.plan is not None and self.plan.leaves_zeros_out


@dataclass(frozen=True)
class BufferPlan:
    """A buffer of the arena, and its lifetime in steps.

    Parameters
    ----------
    offset, size : int
        In bytes; the offset counts from the beginning of the arena.
    first, last : int
        Numbers of the steps that write it first and use it last.
    """

    offset: int
    size: int
    first: int
    last: int


@dataclass(frozen=True)
class NetworkPlan:
    """How a network runs for inputs of certain shapes; printed, it is a table.

    Parameters
    ----------
    inputs : tuple of (str, tuple of int)
        Names and shapes.
    steps : tuple of StepPlan
        In their order.
    fired : dict
        For each rule that rewrote the graph, the outputs of the rewritten nodes.
    arena_bytes, scratch_bytes : int
        Memory of one run: intermediate results, and scratch of the team.
    buffers : tuple of BufferPlan
        How the arena is shared, by first steps.
    times : int
        Runs of the steps, each on a part of the batch; their work and time are those of all.
    advice : str
        A line on `precision`: the estimated gain of ``"low"``, or why a given one changes nothing.
    """

    inputs: tuple[tuple[str, Shape], ...]
    steps: tuple[StepPlan, ...]
    fired: dict[str, list[str]] = field(default_factory=dict)
    arena_bytes: int = 0
    scratch_bytes: int = 0
    buffers: tuple[BufferPlan, ...] = ()
    times: int = 1
    advice: str = ""

    def show(self, *, most: int = 16, width: int | None = None, file: TextIO | None = None) -> None:
        """Print bars: the longest steps, with the estimate beside each.

        Parameters
        ----------
        most : int, optional
            Number of steps to show; the rest is summed up.
        width : int, optional
            Columns; by default those of the terminal.
        file : file object, optional
            Destination; standard output by default.

        Notes
        -----
        Steps without a time have the estimate's, at a nominal clock. It knows convolutions and
        products only: other steps without a time are left out.
        """
        most = checks.integer("most", most, 1)
        write(self._picture(most, width), sys.stdout if file is None else file)

    def _picture(self, most: int, width: int | None) -> str:
        def thought(step: StepPlan) -> float:
            return step.turns * sum(step.plan.cost.values()) / NOMINAL_HERTZ if step.plan else 0.0

        measured = any(step.seconds is not None for step in self.steps)
        taken = [s.seconds or 0.0 if measured else thought(s) for s in self.steps]
        order = sorted((n for n, t in enumerate(taken) if t > 0), key=lambda n: -taken[n])
        total = sum(taken)
        rows = []
        for number in order[:most]:
            step, seconds = self.steps[number], taken[number]
            shape = "x".join(map(str, step.shape))
            words = f"{milliseconds(seconds)} {100 * seconds / total:3.0f} %"
            if measured and step.plan is not None:
                words += f" {milliseconds(thought(step)):>9}"
            elif measured:
                words += " " * 10
            label = " ".join(part for part in (step.kind, step.method, shape) if part)
            rows.append(Row(f"{number:3} {label}", seconds, words))
        rest = sum(taken[number] for number in order[most:])
        blank = " " * 10 if measured else ""
        if rest:
            words = f"{milliseconds(rest)} {100 * rest / total:3.0f} %{blank}"
            rows.append(Row(f"    {len(order) - most} shorter ones", 0.0, words))
        known = "measured, and estimated at the right" if measured else "estimated"
        clock = f" at a nominal {NOMINAL_HERTZ / 1e9:g} GHz"
        title = f"{len(self.steps)} steps, {milliseconds(total)}, {known}{clock}"
        return "\n".join([title, draw(rows, width)])

    def __str__(self) -> str:
        lines = [
            f"inputs: {', '.join(f'{name} {shape}' for name, shape in self.inputs)}",
            f"arena: {self.arena_bytes / 1e6:.1f} MB, scratch: {self.scratch_bytes / 1e6:.1f} MB",
        ]
        if self.times > 1:
            lines.append(f"batch: in {self.times} parts, one after the other")
        known = [s for s in self.steps if s.plan is not None and s.plan.sparsity is not None]
        if known:
            out = sum(s.leaves_zeros_out for s in known)
            lines.append(f"sparse weights: of {len(known)} steps, {out} of which leave zeros out")
        for rule, names in self.fired.items():
            lines.append(f"rule {rule}: {len(names)} times")
        if self.advice:
            lines.append(self.advice)
        rows = [("", "step", "shape", "layout", "Mflop", "MB", "us", "how")]
        for number, s in enumerate(self.steps):
            time = "" if s.seconds is None else f"{s.seconds * 1e6:.1f}"
            shape = "x".join(map(str, s.shape))
            flops = f"{s.flops / 1e6:.1f}" if s.flops else ""
            rows.append(
                (str(number), s.kind, shape, s.layout, flops, f"{s.bytes / 1e6:.2f}", time,
                 s.detail)
            )  # fmt: skip
        lines += columns(rows, {0, 4, 5, 6})
        total = sum(s.seconds or 0.0 for s in self.steps)
        if total:
            lines.append(f"total: {total * 1e3:.3f} ms")
        return "\n".join(lines)


def _layout(step: Step) -> str:
    value = step.writes[0]
    named = "NCHW" if len(value.shape) == 4 else "0123456789"
    text = "".join(named[d] for d in value.order)
    filled = value.size * value.dtype.itemsize == value.buffer.size
    return text if filled else f"{text}+"


def _plan(step: Step) -> planner.Plan | None:
    return planner.as_run_here(step.work.plan) if isinstance(step.work, Prepared) else None


def _weight_bytes(step: Step) -> int:
    packed = isinstance(step.places.get("weights"), PackedWeights)
    return int(step.work.packed_bytes) if packed else 0


def plan_of(
    program: Program,
    fired: dict[str, list[str]],
    seconds: Sequence[float] | None = None,
) -> NetworkPlan:
    """Describe a compiled network.

    Parameters
    ----------
    program : Program
        The network. Of one that is cut, the nodes at the cut are the last steps.
    fired : dict
        Rules that rewrote its graph.
    seconds : sequence of float, optional
        Time of each step.
    """
    if isinstance(program, Compiled):
        return _plan_of(program, fired, seconds)
    # It needs `onnx`, and a program of layers is never cut.
    from .cut_program import CutProgram

    assert isinstance(program, CutProgram)
    first = NetworkPlan((), (), fired)
    if program.first is not None:
        first = _plan_of(program.first, fired, seconds)
    done = len(first.steps)
    calls = tuple(
        StepPlan(
            call.kind, tuple(call.writes), (), "", "in Python, at a cut", 0, 0,
            None if seconds is None else float(seconds[done + number]), host=True,
        )
        for number, call in enumerate(program.calls)
    )  # fmt: skip
    return replace(first, inputs=tuple(program.inputs), steps=first.steps + calls)


def _plan_of(
    compiled: Compiled, fired: dict[str, list[str]], seconds: Sequence[float] | None
) -> NetworkPlan:
    steps = []
    for number, step in enumerate(compiled.steps):
        plan = _plan(step)
        moved = sum(v.size * v.dtype.itemsize for v in (*step.reads, *step.writes))
        runs = compiled.times * step.turns
        detail = f"{step.detail}, {step.turns} turns" if step.turns > 1 else step.detail
        steps.append(StepPlan(
            step.kind, tuple(step.nodes), step.writes[0].shape, _layout(step), detail,
            runs * step.flops, runs * moved,
            None if seconds is None else float(seconds[number]),
            plan.algorithm if plan else "", _weight_bytes(step), step.host, plan, step.turns,
        ))  # fmt: skip
    buffers = (
        BufferPlan(b.offset, b.size, b.first, b.last)
        for b in lives(compiled.steps, compiled.repeats)
    )
    return NetworkPlan(
        tuple((name, shape) for name, shape, _ in compiled.inputs), tuple(steps), fired,
        compiled.program.arena_bytes, compiled.program.scratch_bytes, tuple(buffers),
        compiled.times,
    )  # fmt: skip
