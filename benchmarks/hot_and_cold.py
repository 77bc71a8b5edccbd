"""Tables of calls that find their data in the caches beside calls that do not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from benchmarks.results import LayerResult, Sum, sums
from benchmarks.tables import Table, milli, ratio


def has_cold(layers: Iterable[LayerResult]) -> bool:
    """Whether any cold call was timed."""
    return any(entry.cold for layer in layers for entry in layer.entries.values())


def as_cold(layer: LayerResult) -> LayerResult:
    """Give the layer with the times of its cold calls in place of the others."""
    entries = {name: replace(entry, rounds=entry.cold) for name, entry in layer.entries.items()}
    return replace(layer, entries=entries)


def cold_sums(layers: Sequence[LayerResult], peers: Iterable[str]) -> list[Sum]:
    """Add up a network as `sums` does, by the cold calls."""
    return sums([as_cold(layer) for layer in layers], peers)


def side_by_side(
    title: str, layers: Sequence[LayerResult], names: Sequence[str], peers: Sequence[str]
) -> Table:
    """Make the table of a network: for each engine a hot call, a cold call, and their ratio.

    Parameters
    ----------
    title : str
    layers : sequence of LayerResult
    names : sequence of str
        Engines, in the order of the columns.
    peers : sequence of str
        The engines that are not pplconv: the last three columns have the best of them on each
        layer.

    Returns
    -------
    Table
        In milliseconds; a row a layer, then the sums over the network with each layer's count.
    """
    header = ["layer", "count"]
    for name in names:
        header += [f"{name} hot", "cold", "cold / hot"]
    table = Table(title, [*header, "best peers hot", "cold", "cold / hot"])
    for layer in layers:
        cold = as_cold(layer)
        cells = [layer.problem.layer or layer.problem.sizes, str(layer.problem.count)]
        for name in names:
            cells += _trio(layer.fastest([name])[1], cold.fastest([name])[1])
        table.add([*cells, *_trio(layer.fastest(peers)[1], cold.fastest(peers)[1])])
    table.rule()
    for hot_sum, cold_sum in zip(sums(layers, peers), cold_sums(layers, peers), strict=True):
        cells = [hot_sum.label, ""]
        for name in names:
            cells += _trio(hot_sum.seconds.get(name), cold_sum.seconds.get(name))
        table.add([*cells, *_trio(hot_sum.floor, cold_sum.floor)])
    return table


def _trio(hot: float | None, cold: float | None) -> list[str]:
    return [milli(hot), milli(cold), ratio(cold, hot)]
