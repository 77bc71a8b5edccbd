"""All tables of a run, in the order of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asm.registry import ELEMENT_BYTES, ISAS, PRODUCTS
from benchmarks.engines.base import Identity
from benchmarks.quantized.ceilings import loops
from benchmarks.sparse.figures import figures_table
from benchmarks.sparse.measured import Measured, Roles, group
from benchmarks.sparse.page import (
    break_even_table,
    classes_table,
    gains_table,
    peers_table,
    products_table,
    times_table,
    where,
)
from benchmarks.tables import Table
from pplconv import config
from pplconv import machine as machines


def report(
    measured: Sequence[Measured],
    identities: Mapping[str, Sequence[Identity]],
    a_cycle: Mapping[str, Mapping[str, float]],
) -> list[Table]:
    """Make all tables of a run.

    Parameters
    ----------
    measured : sequence of Measured
    identities : mapping of str to sequence of Identity
        Engines that were there, by precision.
    a_cycle : mapping of str to mapping of str to float
        By precision and level of the ladder: products that a core does in a cycle.
    """
    if not measured:
        return []
    roles = {precision: Roles.of(some) for precision, some in identities.items()}
    groups = group(measured)
    made = [figures_table(measured, roles)]
    for precision in dict.fromkeys(one.precision for one in measured):
        teams = {threads: some for (kind, threads), some in groups.items() if kind == precision}
        title = f"{precision}: part of the weights below which sparse ones are faster"
        made.append(break_even_table(title, teams, roles[precision]))
    for (precision, threads), some in groups.items():
        mine, place = roles[precision], where(precision, threads)
        unit = "GFLOP/s" if precision == "fp32" else "Gop/s"
        made += [
            classes_table(f"{place}: times as fast, geometric means of layers", some, mine),
            gains_table(f"{place}: {unit} of weights that are not zero", some, mine),
            peers_table(f"{place}: best peer on the same weights", some, mine),
            products_table(f"{place}: useful products", some, mine, a_cycle.get(precision, {})),
            times_table(f"{place}: ms", some),
        ]
    return made


def products_a_cycle(precision: str) -> dict[str, float]:
    """Products that a core of this machine does in a cycle, by level of the ladder.

    Of a level with several loops it is the fastest one's, as a reading of it is. Tile registers are
    left out: no sparse weights are multiplied there.
    """
    here = machines.current()
    if precision == "fp32":
        known = [("f32", isa) for isa in here.usable_isas(config.current().max_isa)]
    else:
        known = [(product, isa) for product, isa in loops(precision) if isa != "amx"]
    found: dict[str, float] = {}
    for product, isa in known:
        if isa in here.fma_per_cycle and isa in ISAS:
            lanes = ISAS[isa].vector_bytes // ELEMENT_BYTES[PRODUCTS[product].sum]
            rate = here.fma_rate(isa, product) * lanes * PRODUCTS[product].kr
            found[isa] = max(found.get(isa, 0.0), rate)
    return found
