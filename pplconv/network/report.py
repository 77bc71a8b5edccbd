"""How a network runs, for people: `InferenceSession.plan_for` and `profile`."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import field, replace
from typing import TextIO

from .. import planner
from .._records import record
from ..arguments import checks
from ..drawing.bars import Row, draw, write
from ..drawing.columns import columns
from ..drawing.figures import megabytes, milliseconds
from ..ops.prepared import PackedWeights, Prepared
from ..planner.roofs import NOMINAL_HERTZ
from .arena import lives
from .compiled import Compiled
from .programs import Program
from .storage import BANDS, Shape, Step


@record(frozen=True)
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
    cost : dict of str to float
        Estimated cycles of a convolution or product by term, those of all turns; empty of all
        other steps.
    group : int or None
        Number of the group that it belongs to, if it runs in bands.
    member : int or None
        Which of the group's operators it computes; None of a step that moves rows which the next
        band reads again.
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
    cost: dict[str, float] = field(default_factory=dict)
    group: int | None = None
    member: int | None = None

    @property
    def leaves_zeros_out(self) -> bool:
        """Whether zero weights are left out."""
        return self.plan is not None and self.plan.leaves_zeros_out


@record(frozen=True)
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


@record(frozen=True)
class GroupPlan:
    """Steps that run one after the other in a band of rows or columns, then in the next band.

    Parameters
    ----------
    first, last : int
        Numbers of its first and its last step.
    shapes : tuple of tuple of int
        Of the whole result of each of its operators.
    bands : int
        Number of bands of an image.
    rows : int
        Rows of the group's last result in a band, apart from the first and the last band.
    axis : int
        The axis that is cut: 2, or 3 if columns count as rows.
    inner_bytes : int
        Bytes of the images between its operators: bands of them stay in L2 or L3.
    window_bytes : int
        Memory that they take: the rows of a band.
    saved_seconds : float
        Time that it is estimated to save, at a nominal clock.
    """

    first: int
    last: int
    shapes: tuple[Shape, ...]
    bands: int
    rows: int
    axis: int
    inner_bytes: int
    window_bytes: int
    saved_seconds: float

    def __str__(self) -> str:
        saved = f", about {milliseconds(self.saved_seconds)} saved" if self.saved_seconds else ""
        return (
            f"{self.bands} bands of {self.size}, {megabytes(self.inner_bytes)} stay in cache, "
            f"in {megabytes(self.window_bytes)}{saved}"
        )

    @property
    def size(self) -> str:
        """Rows or columns of a band, in words."""
        return f"{self.rows} {'columns' if self.axis == 3 else 'rows'}"


@record(frozen=True)
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
    groups : tuple of GroupPlan
        Steps that run band by band.

    Notes
    -----
    A group computes each of its operators in a first band, in those between, and in a last one:
    these are steps of their own. Tables and pictures show them as one step (`by_operators`).
    """

    inputs: tuple[tuple[str, Shape], ...]
    steps: tuple[StepPlan, ...]
    fired: dict[str, list[str]] = field(default_factory=dict)
    arena_bytes: int = 0
    scratch_bytes: int = 0
    buffers: tuple[BufferPlan, ...] = ()
    times: int = 1
    advice: str = ""
    groups: tuple[GroupPlan, ...] = ()

    def by_operators(self) -> NetworkPlan:
        """Give the plan in which each operator of a group is one step, of all bands.

        Returns
        -------
        NetworkPlan
            Its steps, buffers and groups have other numbers. The plan of a summed step is that of
            a band in the middle.
        """
        return _summed(self)

    def then(self, other: NetworkPlan) -> NetworkPlan:
        """Give the plan of a program that runs another one behind this one."""
        steps, groups = len(self.steps), len(self.groups)
        moved = tuple(
            step if step.group is None else replace(step, group=step.group + groups)
            for step in other.steps
        )
        behind = tuple(
            replace(group, first=group.first + steps, last=group.last + steps)
            for group in other.groups
        )
        return replace(
            self, steps=self.steps + moved, groups=self.groups + behind,
            times=max(self.times, other.times),
            arena_bytes=max(self.arena_bytes, other.arena_bytes),
            scratch_bytes=max(self.scratch_bytes, other.scratch_bytes),
        )  # fmt: skip

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
            return sum(step.cost.values()) / NOMINAL_HERTZ

        steps = self.by_operators().steps
        measured = any(step.seconds is not None for step in steps)
        taken = [s.seconds or 0.0 if measured else thought(s) for s in steps]
        order = sorted((n for n, t in enumerate(taken) if t > 0), key=lambda n: -taken[n])
        total = sum(taken)
        rows = []
        for number in order[:most]:
            step, seconds = steps[number], taken[number]
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
        title = f"{len(steps)} steps, {milliseconds(total)}, {known}{clock}"
        return "\n".join([title, draw(rows, width)])

    def bracket(self, number: int) -> str:
        """Give what stands before a step in a table: marks join the steps of a group."""
        for group in self.groups:
            if group.first <= number <= group.last:
                return "\u250c " if number == group.first else (
                    "\u2514 " if number == group.last else "\u2502 "
                )  # fmt: skip
        return ""

    def __str__(self) -> str:
        lines = [
            f"inputs: {', '.join(f'{name} {shape}' for name, shape in self.inputs)}",
            f"arena: {self.arena_bytes / 1e6:.1f} MB, scratch: {self.scratch_bytes / 1e6:.1f} MB",
        ]
        if self.times > 1:
            lines.append(f"batch: in {self.times} parts, one after the other")
        plan = self.by_operators()
        known = [s for s in plan.steps if s.plan is not None and s.plan.sparsity is not None]
        if known:
            out = sum(s.leaves_zeros_out for s in known)
            lines.append(f"sparse weights: of {len(known)} steps, {out} of which leave zeros out")
        for rule, names in self.fired.items():
            lines.append(f"rule {rule}: {'once' if len(names) == 1 else f'{len(names)} times'}")
        if self.advice:
            lines.append(self.advice)
        rows = [("", "step", "shape", "layout", "Mflop", "MB", "us", "how")]
        for number, s in enumerate(plan.steps):
            time = "" if s.seconds is None else f"{s.seconds * 1e6:.1f}"
            shape = "x".join(map(str, s.shape))
            flops = f"{s.flops / 1e6:.1f}" if s.flops else ""
            rows.append(
                (str(number), plan.bracket(number) + s.kind, shape, s.layout, flops,
                 f"{s.bytes / 1e6:.2f}", time, s.detail)
            )  # fmt: skip
        heads = {group.first: str(group) for group in plan.groups}
        title, *table = columns(rows, {0, 4, 5, 6})
        lines.append(title)
        for number, line in enumerate(table):
            if number in heads:
                lines.append(heads[number])
            lines.append(line)
        total = sum(s.seconds or 0.0 for s in self.steps)
        if total:
            lines.append(f"total: {total * 1e3:.3f} ms")
        return "\n".join(lines)


def _summed(plan: NetworkPlan) -> NetworkPlan:
    """Sum the steps of each operator of a group over its bands."""
    steps: list[StepPlan] = []
    # For each step: its new number, the numbers of its group's first and last step, and its band.
    numbers: list[int] = []
    ends: list[tuple[int, int]] = []
    bands: list[int] = []
    groups = []
    for number, step in enumerate(plan.steps):
        if step.group is None:
            numbers.append(len(steps))
            ends.append((len(steps), len(steps)))
            bands.append(0)
            steps.append(step)
            continue
        group = plan.groups[step.group]
        if number != group.first:
            continue
        parts = plan.steps[group.first : group.last + 1]
        keys, own_bands = _operators(parts)
        bands += own_bands
        order = sorted(dict.fromkeys(keys), key=lambda key: key[0])
        first, last = len(steps), len(steps) + len(order) - 1
        numbers += [first + order.index(key) for key in keys]
        ends += [(first, last)] * len(parts)
        groups.append(replace(group, first=first, last=last))
        for key in order:
            own = [part for part, other in zip(parts, keys, strict=True) if other == key]
            steps.append(_sum(own, group))

    def moved(buffer: BufferPlan) -> BufferPlan:
        # What outlives a band is there until the last one.
        a, b = buffer.first, buffer.last
        if (ends[a], bands[a]) != (ends[b], bands[b]):
            return replace(buffer, first=ends[a][0], last=ends[b][1])
        return replace(buffer, first=numbers[a], last=numbers[b])

    buffers = sorted(map(moved, plan.buffers), key=lambda buffer: buffer.first)
    return replace(plan, steps=tuple(steps), buffers=tuple(buffers), groups=tuple(groups))


def _operators(parts: Sequence[StepPlan]) -> tuple[list[tuple[float, str, int]], list[int]]:
    """Give a key and a band to each step of a group: an operator has one key in all bands."""
    keys: list[tuple[float, str, int]] = []
    bands: list[int] = []
    band = -1
    seen: Counter[tuple[float, str]] = Counter()
    before = math.inf
    for part in parts:
        member = math.inf if part.member is None else part.member
        if member < before:  # another band begins
            seen.clear()
            band += 1
        # Moved rows are one step.
        count = 0 if part.member is None else seen[member, part.kind]
        seen[member, part.kind] += 1
        keys.append((member, part.kind, count))
        bands.append(band)
        before = member
    return keys, bands


def _sum(parts: Sequence[StepPlan], group: GroupPlan) -> StepPlan:
    """Sum a step over the bands of its group."""
    main = max(parts, key=lambda part: part.turns)
    shape, detail = main.shape, "rows that the next band reads again"
    if main.member is not None:
        whole = group.shapes[main.member]
        same = [one == other for one, other in zip(whole, shape, strict=False)]
        # Bands are of one image, of some of its rows or columns; some steps take it to pieces.
        if len(shape) == len(whole) and same[1] and (same[2] or same[3]):
            shape = whole
        detail = main.detail.removesuffix(f", {main.turns} turns")
        for named in BANDS:
            detail = detail.removesuffix(named)
    cost: Counter[str] = Counter()
    for part in parts:
        cost.update(part.cost)
    seconds = [part.seconds for part in parts if part.seconds is not None]
    return replace(
        main, shape=shape, detail=detail, flops=sum(part.flops for part in parts),
        bytes=sum(part.bytes for part in parts), seconds=sum(seconds) if seconds else None,
        weight_bytes=max(part.weight_bytes for part in parts), cost=dict(cost),
        turns=sum(part.turns for part in parts), layout=main.layout.removesuffix("+"),
    )  # fmt: skip


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
    groups = [
        GroupPlan(
            group.begin, group.end - 1, group.shapes, group.bands, group.rows, group.axis,
            group.inner_bytes, group.window_bytes, compiled.times * group.gain / NOMINAL_HERTZ,
        )
        for group in compiled.groups
    ]  # fmt: skip
    group_of = {
        number: at
        for at, group in enumerate(groups)
        for number in range(group.first, group.last + 1)
    }  # fmt: skip
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
            {term: runs * cycles for term, cycles in plan.cost.items()} if plan else {},
            group_of.get(number), step.member,
        ))  # fmt: skip
    buffers = (
        BufferPlan(b.offset, b.size, b.first, b.last)
        for b in lives(compiled.steps, compiled.repeats)
    )
    return NetworkPlan(
        tuple((name, shape) for name, shape, _ in compiled.inputs), tuple(steps), fired,
        compiled.program.arena_bytes, compiled.program.scratch_bytes, tuple(buffers),
        compiled.times, groups=tuple(groups),
    )  # fmt: skip
