"""The page: one file, no script, nothing to be fetched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...drawing.figures import megabytes, milliseconds, number, operations
from ...drawing.style import STYLE
from ...drawing.svg import table, tag, text
from ..report import StepPlan
from .arena_chart import draw_arena
from .estimates import MOST, draw_estimates, estimated, estimates_key
from .measured import Group, Profile, groups, kind_of, kinds, moved
from .roofline import draw_movers, draw_roofline, movers, points
from .timeline import draw_memory, draw_steps

_STEPS = """Each step by itself, the shortest of several runs; in a whole run one step follows
another without the start of a team between them. At the right: the time of a kind, in so many
steps. Point at anything to read what it is."""
_BANDS = """Steps in a box run one after the other in a band of rows or columns, then in the next
band, so that the images between them stay in a cache. A step is shown once, with the time of all
its bands."""
_MEMORY = """What lies between steps has its place in one arena. Filled: the bytes in use during
each step; the line is the arena's size."""
_ROOFLINE = """A circle is a convolution or a product; its area is its part of the time. Operations
are those of the direct sum, so Winograd may stand above the flat roof; bytes are what the step
reads and writes, packed weights among them, wherever they lie. The roofs were measured in this
run: the flat one by multiplying and adding in registers, the slopes by copying arrays that fit L2,
L3 or neither."""
_ESTIMATES = """What the planner thought that a convolution or a product would take, term by
term, in cycles of the clock that one core had in this run. The upright line is what the step took
by itself; at the right that time, also as a multiple of the estimate. Estimates are there to tell
ways to compute apart; weights that lie in a cache and busy neighbours are the usual differences.
{shown}"""
_MOVERS = """All other steps are a matter of bytes: copies, pooling, element-wise chains. Between
two steps small tensors stay in a cache."""
_ARENA = """A rectangle is a buffer, as high as it is large, from the step that writes it first to
the one that reads it last. What is empty is free."""
_LAYOUTS = """The order of the dimensions of each step's result in memory, outermost first; a + says
that it is a part of a larger array."""


def page(profile: Profile) -> str:
    """Write the page.

    Parameters
    ----------
    profile : Profile
        What was measured.

    Returns
    -------
    str
        HTML that needs nothing else.
    """
    # Memory is that of each band; all else is said of operators.
    whole, profile = profile, replace(profile, plan=profile.plan.by_operators())
    found = kinds(profile.plan)
    title = f"{profile.model}: profile"
    parts = [
        tag("h1", text(profile.model)),
        tag("p", text(_head(profile))),
        _figures(profile),
        _section("Steps over time", _STEPS, draw_steps(profile, found)),
        _section("Memory over time", _MEMORY, draw_memory(whole)),
        _section("Kinds of steps", "", _groups(profile, "kind", found, colours=True)),
    ]
    if profile.plan.groups:
        parts.insert(4, _section("Groups of steps in bands", _BANDS, _banded(profile)))
    if points(profile):
        parts.append(
            _section("Roofline", _ROOFLINE, _key(profile, found), draw_roofline(profile, found))
        )
    if thought := estimated(profile):
        shown = f"The {MOST} steps that take longest are shown." if len(thought) > MOST else ""
        words = _ESTIMATES.format(shown=shown)
        key = estimates_key(profile)
        parts.append(_section("Estimates", words, key, draw_estimates(profile)))
    if movers(profile):
        parts.append(_section("Steps without products", _MOVERS, draw_movers(profile, found)))
    layouts = groups(profile.plan, lambda step: step.layout)
    parts.append(_section("Layouts", _LAYOUTS, _groups(profile, "layout", layouts)))
    if profile.plan.buffers:
        parts.append(_section("Arena", _ARENA, draw_arena(profile)))
    if profile.plan.fired:
        rows = [[text(rule), str(len(names))] for rule, names in profile.plan.fired.items()]
        parts.append(
            _section("Rules", "What rewrote the graph.", table(["rule", "times"], rows, _FIRST))
        )
    parts.append(_section("All steps", "", _steps(profile)))
    head = (
        '<meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        + tag("title", text(title))
        # No text of a model is in it, so there is nothing to escape.
        + f"<style>{STYLE}</style>"
    )
    body = "\n".join(parts)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


_FIRST = frozenset({0})
_HELD_UP = 1.5


def _section(title: str, words: str, *content: str) -> str:
    said = tag("p", text(" ".join(words.split()))) if words else ""
    return tag("section", tag("h2", text(title)), said, *content)


def _head(profile: Profile) -> str:
    inputs = ", ".join(f"{name} {'x'.join(map(str, s))}" for name, s in profile.plan.inputs)
    team = profile.ceilings.threads
    threads = "1 thread" if team == 1 else f"{team} threads"
    return (
        f"{inputs or 'no inputs'}; {threads}, {profile.ceilings.isa}; {profile.machine}; "
        f"pplconv {profile.version}"
    )


def _figures(profile: Profile) -> str:
    plan, run = profile.plan, max(profile.run_seconds, 1e-12)
    rate = profile.flops / run
    # Where a team waits for a thread that another process keeps from its core, whole runs show it.
    held_up = profile.run_seconds > _HELD_UP * max(profile.step_seconds, 1e-4)
    told = "busy cores?" if held_up else "the shortest"
    on_host = sum(step.host for step in plan.steps)
    figures = [
        ("a whole run", milliseconds(profile.run_seconds), told),
        ("steps by themselves", milliseconds(profile.step_seconds), f"{len(plan.steps)} steps"),
        ("products", operations(profile.flops),
         f"{number(rate / 1e9)} GFLOP/s, {number(100 * rate / profile.ceilings.flops)} % of peak"),
        ("read and written", megabytes(profile.moved), f"{number(profile.moved / run / 1e9)} GB/s"),
        ("arena", megabytes(plan.arena_bytes), f"scratch {megabytes(plan.scratch_bytes)}"),
        ("steps in Python", str(on_host), "by onnx.reference" if on_host else "all are compiled"),
    ]  # fmt: skip
    return tag("dl", *(
        tag("div", tag("dt", text(name)), tag("dd", text(value), tag("small", text(more))))
        for name, value, more in figures
    ), class_="figures")  # fmt: skip


def _banded(profile: Profile) -> str:
    rows = []
    for group in profile.plan.groups:
        steps = profile.plan.steps[group.first : group.last + 1]
        seconds = sum(step.seconds or 0.0 for step in steps)
        rows.append([
            f"{group.first} to {group.last}", text(", ".join(kind_of(step) for step in steps)),
            str(group.bands), group.size, megabytes(group.inner_bytes),
            megabytes(group.window_bytes), milliseconds(group.saved_seconds),
            milliseconds(seconds),
        ])  # fmt: skip
    head = ["steps", "what", "bands", "size of a band", "stays in cache", "takes there",
            "estimated to save", "time"]  # fmt: skip
    return table(head, rows, frozenset({0, 1}))


def _key(profile: Profile, found: Sequence[Group]) -> str:
    shown = {index for index, _, _ in points(profile)}
    ceilings = profile.ceilings
    roofs = [f"{name} {number(rate / 1e9)} GB/s" for name, rate in ceilings.bandwidths.items()]
    roofs.append(f"{ceilings.isa} {number(ceilings.flops / 1e9)} GFLOP/s")
    return tag("ul", *(
        tag("li", tag("i", class_=f"k{colour}"), text(group.name))
        for colour, group in enumerate(found)
        if shown & set(group.numbers)
    ), tag("li", text(f"roofs: {', '.join(roofs)}")), class_="key")  # fmt: skip


def _groups(profile: Profile, what: str, found: Sequence[Group], *, colours: bool = False) -> str:
    total = max(profile.step_seconds, 1e-12)
    rows = []
    for colour, group in enumerate(found):
        share, seconds = group.seconds / total, max(group.seconds, 1e-12)
        look = f"k{colour}" if colours else "k7"
        bar = tag("b", class_=look, style=f"width:{5 * share:.3f}rem")
        rows.append([
            text(group.name), str(len(group.numbers)), milliseconds(group.seconds),
            f"{bar}{100 * share:.1f} %",
            f"{number(group.flops / seconds / 1e9)}" if group.flops else "",
            megabytes(group.moved), number(group.moved / seconds / 1e9),
        ])  # fmt: skip
    head = [what, "steps", "time", "share", "GFLOP/s", "moved", "GB/s"]
    return table(head, rows, _FIRST)


def _steps(profile: Profile) -> str:
    def cells(index: int, step: StepPlan) -> list[str]:
        seconds = step.seconds or 0.0
        per: Callable[[float], str] = lambda n: number(n / seconds / 1e9) if n and seconds else ""  # noqa: E731
        return [
            str(index), text(profile.plan.bracket(index) + step.kind),
            text(step.method or ("Python" if step.host else "")),
            text("x".join(map(str, step.shape))), text(step.layout), milliseconds(seconds),
            per(step.flops), megabytes(moved(step)), per(moved(step)), text(step.detail),
            text(", ".join(step.outputs)),
        ]  # fmt: skip

    head = ["", "step", "method", "shape", "layout", "time", "GFLOP/s", "moved", "GB/s", "how",
            "outputs of the model"]  # fmt: skip
    rows = (cells(index, step) for index, step in enumerate(profile.plan.steps))
    return table(head, rows, frozenset({1, 2, 3, 4, 9, 10}))
