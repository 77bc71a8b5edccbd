"""The tables of sparse weights: speed-ups, times, peers, products a cycle, where they begin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from benchmarks.report import conditions
from benchmarks.sparse.gains import break_evens, gain, lead, mean
from benchmarks.sparse.measured import Measured, Roles
from benchmarks.standing import KIND_TITLES
from benchmarks.tables import NONE, Table, giga, milli, percent, ratio


def where(precision: str, threads: int) -> str:
    """Name precision and team of a table."""
    return f"{precision}, {conditions(1, threads)}"


def _label(one: Measured) -> list[str]:
    return [one.problem.name, KIND_TITLES[one.problem.kind], f"{one.density:g}"]


def _add(table: Table, cells: Sequence[str], bold: Sequence[int] = ()) -> None:
    """Add a row, with a rule before each layer's first."""
    if not table.rows or table.rows[-1][0] != cells[0]:
        table.rule()
    table.add(cells, bold)


def _ways(roles: Roles) -> dict[str, bool]:
    """What sparse weights are compared with: title, and whether it is the direct sum."""
    return {"/ dense": False} | ({"/ direct": True} if roles.direct else {})


def gains_table(title: str, measured: Sequence[Measured], roles: Roles) -> Table:
    """Make the table of rates by stored weights, and of how many times as fast that is as dense.

    A dense layer's rate is that of all its operations; that of sparse weights counts products with
    weights that are not zero.
    """
    blocks, ways = list(roles.sparse), _ways(roles)
    columns = [name for n in blocks for name in (f"block {n}", *ways)]
    table = Table(title, ["layer", "class", "density", "dense by", "dense", *columns])
    for one in measured:
        dense, seconds = one.fastest(roles.dense)
        cells = [*_label(one), dense or NONE]
        cells.append(giga(one.problem.flops / seconds if seconds else None))
        for block in blocks:
            ours = one.fastest(roles.sparse[block])[1]
            cells.append(giga(one.useful(block) / ours if ours else None))
            cells += [ratio(gain(one, block, roles, direct), 1.0) for direct in ways.values()]
        _add(table, cells)
    return table


def peers_table(title: str, measured: Sequence[Measured], roles: Roles) -> Table:
    """Make the table of the best peer on weights of each block, and how far ahead we are."""
    blocks = list(roles.sparse)
    columns = [name for n in blocks for name in (f"best peer, block {n}", "/ peer")]
    table = Table(title, ["layer", "class", "density", *columns])
    for one in measured:
        cells, behind = _label(one), []
        for block in blocks:
            peer, value = lead(one, block, roles)
            cells += [peer or NONE, ratio(value, 1.0)]
            if value is not None and value < 1.0:
                behind.append(len(cells) - 1)
        if any(cell != NONE for cell in cells[3:]):
            _add(table, cells, behind)
    return table


def times_table(title: str, measured: Sequence[Measured]) -> Table:
    """Make the table of all times (ms), an engine a column; a status stands for a missing time."""
    names = list(dict.fromkeys(name for one in measured for name in one.layer.entries))
    table = Table(title, ["layer", "class", "density", *names])
    for one in measured:
        cells = _label(one)
        for name in names:
            entry = one.layer.entries.get(name)
            seconds = None if entry is None else entry.seconds
            unmeasured = entry is not None and seconds is None
            cells.append(entry.status if entry is not None and unmeasured else milli(seconds))
        _add(table, cells)
    return table


def products_table(
    title: str, measured: Sequence[Measured], roles: Roles, a_cycle: Mapping[str, float]
) -> Table:
    """Make the table of useful products, a cycle of a core and as a part of the loop's.

    The loop is that of the instruction that the plan names, read between the rounds of the layer.
    So cycles need no clock: its rate stands for the products that the core does in each.

    Parameters
    ----------
    title : str
    measured : sequence of Measured
    roles : Roles
    a_cycle : mapping of str to float
        Products that a core does in a cycle, by level of the ladder.
    """
    blocks = list(roles.sparse)
    columns = [name for n in blocks for name in (f"block {n} a cycle", "% loop")]
    table = Table(title, ["layer", "class", "density", "loop", "a cycle", *columns])
    for one in measured:
        isa, _ = one.ceiling(
            one.fastest(name for some in roles.sparse.values() for name in some)[0]
        )
        cells = [*_label(one), isa or NONE]
        cells.append(f"{a_cycle[isa]:g}" if isa in a_cycle else NONE)
        for block in blocks:
            name, seconds = one.fastest(roles.sparse[block])
            level, peak = one.ceiling(name)
            part = one.useful(block) / seconds / peak if seconds and peak else None
            known = part is not None and level in a_cycle
            cells.append(f"{(part or 0.0) * a_cycle[level]:.1f}" if known else NONE)
            cells.append(percent(part, 1.0))
        _add(table, cells)
    return table


def break_even_table(title: str, groups: Mapping[int, Sequence[Measured]], roles: Roles) -> Table:
    """Make the table of densities below which sparse weights are faster than dense ones.

    Parameters
    ----------
    title : str
    groups : mapping of int to sequence of Measured
        By size of team; all of one precision.
    roles : Roles
    """
    columns = [
        (threads, block, direct)
        for direct in _ways(roles).values()
        for threads in groups
        for block in roles.sparse
    ]
    table = Table(
        title,
        [
            "layer",
            "class",
            *(
                f"block {block}{' / direct' if direct else ''}, {threads} t"
                for threads, block, direct in columns
            ),
        ],
    )
    found = {key: break_evens(groups[key[0]], key[1], roles, key[2]) for key in columns}
    problems = {one.problem.name: one.problem for some in groups.values() for one in some}
    for name, problem in problems.items():
        cells = [name, KIND_TITLES[problem.kind]]
        for key in columns:
            density, side = found[key].get(name, (math.nan, ""))
            cells.append(NONE if math.isnan(density) else f"{side} {density:.2f}".strip())
        table.add(cells)
    return table


def classes_table(title: str, measured: Sequence[Measured], roles: Roles) -> Table:
    """Make the table of geometric means over the layers of a class, and of the least ones."""
    blocks, ways = list(roles.sparse), _ways(roles)
    columns = [
        name for n in blocks for name in (f"block {n} / dense", "least", *list(ways)[1:], "/ peer")
    ]
    table = Table(title, ["class", "density", "layers", *columns])
    for kind in dict.fromkeys(one.problem.kind for one in measured):
        table.rule()
        of_kind = [one for one in measured if one.problem.kind == kind]
        for density in dict.fromkeys(one.density for one in of_kind):
            some = [one for one in of_kind if one.density == density]
            cells = [KIND_TITLES[kind], f"{density:g}", str(len(some))]
            for block in blocks:
                gains = [gain(one, block, roles) for one in some]
                least = min((one for one in gains if one is not None), default=None)
                values = [mean(gains), least]
                if len(ways) > 1:
                    values.append(mean(gain(one, block, roles, direct=True) for one in some))
                values.append(mean(lead(one, block, roles)[1] for one in some))
                cells += [ratio(value, 1.0) for value in values]
            table.add(cells)
    return table
