"""Draws that cases of every kind share."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.fuzz.arrays import FORMS
from tests.fuzz.special import SPECIALS

# Multiplications of a problem, and how often it may have so many: most are tiny, since tiny
# problems have the same edges as large ones, and more of them fit into a second.
PRODUCTS = ((8_000, 70), (60_000, 25), (400_000, 4), (3_000_000, 1))
WISDOM = ("bytes", "flipped", "cut", "spliced", "values", "division", "real")
SPOILED_OUT = (
    "out dtype", "out shape", "out strides", "out read-only", "out unaligned", "out no array",
)  # fmt: skip


def products(r: Random) -> int:
    """Multiplications that a problem may have."""
    budgets, weights = zip(*PRODUCTS, strict=True)
    return r.choices(budgets, weights)[0]


def form(r: Random, odd: float = 0.3) -> str:
    """How an operand lies; plain, but for a share of them."""
    return r.choice(FORMS) if r.random() < odd else "plain"


def forms(r: Random, names: tuple[str, ...]) -> dict[str, str]:
    """How all operands lie."""
    found = {name: form(r) for name in names}
    found["activation"] = r.choice(("plain", "plain", "plain", "list"))
    return found


def wrong(r: Random, spoiled: tuple[str, ...]) -> dict[str, str | None]:
    """What is wrong with a case: with its call, as one of `spoiled` says, or with wisdom."""
    if (kind := r.random()) < 0.04:
        # A name of the table in ``test_errors``, which the judge looks up.
        return {"spoiled": r.choice(spoiled) if kind < 0.02 else f"argument {r.randrange(1 << 16)}"}
    return {"wisdom": r.choice(WISDOM)} if kind < 0.06 else {}


def surroundings(r: Random) -> dict[str, Any]:
    """Fields that a case of any kind has besides."""
    return {
        "tiny": r.random() < 0.4,
        "other_team": r.choice((1, 2, 3, 4)) if r.random() < 0.2 else None,
        "scale": r.choice((0, 0, 0, 12, -12)),
        "special": r.choice(SPECIALS) if r.random() < 0.15 else None,
    }
