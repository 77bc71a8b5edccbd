"""How fast memory is, in this very run: the sloping roofs of a roofline.

Read by copying arrays whose pair fills half of L2, several L2s, or more than the last cache. A
byte copied counts as two moved, one read and one written.
"""

from __future__ import annotations

from benchmarks import machine
from pplconv.machine.ceilings import copy_rate, working_sets


def measure(threads: int) -> dict[str, float]:
    """Measure every level for a team of `threads`: bytes a second, nearest level first."""
    sets = working_sets(threads, machine.cache_bytes())
    return {level: copy_rate(size, threads) for level, size in sets.items()}
