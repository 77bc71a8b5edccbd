"""A chart of buffers in the arena, step by step."""

from __future__ import annotations

from ...drawing.figures import megabytes, percent, round_number
from ...drawing.svg import Axis, chart, grid, tag, text
from .measured import Profile
from .timeline import draw_groups

_HEIGHT = 260
_TINTS = 4


def draw_arena(profile: Profile) -> str:
    """Draw each buffer at its offset, over its lifetime."""
    plan = profile.plan
    x = Axis(0.0, max(len(plan.steps), 1))
    y = Axis(0.0, max(plan.arena_bytes, 1))
    drawn = grid(x, _HEIGHT, "steps, each as wide as any other")
    drawn += draw_groups(profile, x.at, _HEIGHT)
    for number, buffer in enumerate(plan.buffers):
        words = (
            f"{megabytes(buffer.size)} at {megabytes(buffer.offset)}, "
            f"steps {buffer.first} to {buffer.last}"
        )
        top = 100 - y.at(buffer.offset + buffer.size)
        drawn.append(tag(
            "rect", tag("title", text(words)), x=percent(x.at(buffer.first)),
            width=percent(x.at(buffer.last + 1) - x.at(buffer.first)),
            y=f"{_HEIGHT * top / 100:.2f}", height=f"{_HEIGHT * y.at(buffer.size) / 100:.2f}",
            class_=f"buffer t{number % _TINTS}",
        ))  # fmt: skip
    # Text last, on top of everything.
    for value in Axis(0.0, y.high / 1e6).ticks(4):
        place = _HEIGHT * (1 - y.at(value * 1e6) / 100)
        words = f"{round_number(value)} MB"
        drawn.append(tag("text", text(words), x=4, y=f"{max(place, 15) - 4:.1f}"))
    return chart(_HEIGHT + 34, "Buffers of the arena", *drawn, frame=_HEIGHT)
