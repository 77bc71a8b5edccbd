"""Where pplconv stands: its best layout against the best of all peers, layer by layer.

A peer counts in its fastest layout, and so does pplconv. The best peer may differ from layer to
layer, so the sum over best peers is faster than any single peer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.engines.base import Identity
from benchmarks.engines.pplconv import DEFAULT_SEARCH, DEFAULT_TOLERANCE, short
from benchmarks.results import KINDS, LayerResult
from benchmarks.tables import NONE, Table, giga, percent, ratio

KIND_TITLES = {
    "stem": "stems",
    "1x1": "1x1",
    "3x3": "3x3 stride 1",
    "other": "other",
    "depthwise": "depthwise",
}


@dataclass(frozen=True)
class Standing:
    """One layer: the best of ours and the best of theirs.

    Attributes
    ----------
    ours, peer : str
        Names; empty where none has a time.
    ours_seconds, peer_seconds : float or None
    """

    layer: LayerResult
    ours: str
    ours_seconds: float | None
    peer: str
    peer_seconds: float | None

    @property
    def ratio(self) -> float | None:
        """How many times as fast as the best peer pplconv is."""
        if self.ours_seconds is None or self.peer_seconds is None:
            return None
        return self.peer_seconds / self.ours_seconds

    @property
    def of_peak(self) -> float | None:
        """Our rate as a part of the FMA peak; Winograd can exceed 1."""
        if self.ours_seconds is None or not self.layer.peak:
            return None
        return self.layer.problem.flops / self.ours_seconds / self.layer.peak


@dataclass(frozen=True)
class Setting:
    """A way to prepare pplconv; each of its layouts is an engine."""

    search: str
    asked: float

    @property
    def title(self) -> str:
        """The setting in words, for a reader who has not seen the options."""
        return f"search={self.search}, tolerance={short(self.asked)}"


def settings_of(identities: Iterable[Identity]) -> list[Setting]:
    """List the settings of the prepared pplconvs, in their order."""
    found: dict[Setting, None] = {}
    for one in identities:
        if one.ours and one.search and one.asked is not None:
            found[Setting(one.search, one.asked)] = None
    return list(found)


def main_setting(
    identities: Iterable[Identity], tolerance: float = DEFAULT_TOLERANCE
) -> Setting | None:
    """Choose the setting that stands for pplconv at `tolerance`: measured, where the run has it."""
    found = [one for one in settings_of(identities) if one.asked == tolerance]
    return max(found, key=lambda one: one.search != DEFAULT_SEARCH, default=None)


def ours_of(
    identities: Iterable[Identity], setting: Setting, layouts: Collection[str] = ()
) -> list[str]:
    """Names of the pplconvs of a setting, of all layouts or of some."""
    return [
        one.name
        for one in identities
        if one.ours
        and (one.search, one.asked) == (setting.search, setting.asked)
        and (not layouts or one.layout in layouts)
    ]


def peers_of(identities: Iterable[Identity], layouts: Collection[str] = ()) -> list[str]:
    """Names of the peers, of all layouts or of some."""
    return [
        one.name for one in identities if not one.ours and (not layouts or one.layout in layouts)
    ]


def stand(layer: LayerResult, ours: Iterable[str], peers: Iterable[str]) -> Standing:
    """Compare the best of `ours` with the best of `peers` on `layer`."""
    return Standing(layer, *layer.fastest(ours), *layer.fastest(peers))


def total_ratio(standings: Sequence[Standing]) -> float | None:
    """How many times as fast pplconv is over all layers with their counts, or None."""
    ours = theirs = 0.0
    for one in standings:
        if one.ours_seconds is None or one.peer_seconds is None:
            return None
        ours += one.ours_seconds * one.layer.problem.count
        theirs += one.peer_seconds * one.layer.problem.count
    return theirs / ours if ours else None


def total_of_peak(standings: Sequence[Standing]) -> float | None:
    """Time of all layers, each at its own peak, over ours, or None."""
    ours = at_peak = 0.0
    for one in standings:
        if one.ours_seconds is None or not one.layer.peak:
            return None
        problem = one.layer.problem
        ours += one.ours_seconds * problem.count
        at_peak += problem.flops / one.layer.peak * problem.count
    return at_peak / ours if ours else None


def worst(standings: Iterable[Standing]) -> Standing | None:
    """The layer that is the furthest behind, or the least ahead."""
    known = [one for one in standings if one.ratio is not None]
    return min(known, key=lambda one: one.ratio or 0.0, default=None)


def layer_table(title: str, standings: Sequence[Standing]) -> Table:
    """Make the table of a network, a row a layer: our best layout beside the best peer."""
    table = Table(
        title,
        ["layer", "class", "pplconv's best", "GFLOP/s", "% peak", "best peer", "GFLOP/s", "/ peer"],
    )
    lowest = worst(standings)
    for one in standings:
        problem = one.layer.problem
        rates = [
            giga(problem.flops / seconds if seconds else None)
            for seconds in (one.ours_seconds, one.peer_seconds)
        ]
        cells = [
            problem.layer or problem.sizes,
            KIND_TITLES[problem.kind],
            one.ours or NONE,
            rates[0],
            percent(one.of_peak, 1.0),
            one.peer or NONE,
            rates[1],
            ratio(one.ratio, 1.0),
        ]
        table.add(cells, [len(cells) - 1] if one is lowest else [])
    return table


def class_table(title: str, standings: Sequence[Standing]) -> Table:
    """Make the table of classes: all networks together, then each network, and all of it."""
    table = Table(
        title,
        ["class", "layers", "% peak", "/ best peers", "worst layer", "/ peer there", "that peer"],
    )
    kinds = [kind for kind in KINDS if any(one.layer.problem.kind == kind for one in standings)]
    nets = list(dict.fromkeys(one.layer.problem.net for one in standings))
    for kind in kinds:
        of_kind = [one for one in standings if one.layer.problem.kind == kind]
        table.add(_class_row(KIND_TITLES[kind], of_kind))
        if len(nets) > 1:
            for net in nets:
                of_net = [one for one in of_kind if one.layer.problem.net == net]
                if of_net:
                    table.add(_class_row(f"· {net}", of_net))
    table.rule()
    table.add(_class_row("all", standings))
    return table


def _class_row(label: str, standings: Sequence[Standing]) -> list[str]:
    timed = [one for one in standings if one.ours_seconds is not None]
    compared = [one for one in timed if one.ratio is not None]
    lowest = worst(compared)
    count = str(len(standings))
    # The count shows that layers without a time are not in the sums.
    if len(compared) < len(standings):
        count = f"{len(compared)} of {count}"
    return [
        label,
        count,
        percent(total_of_peak(timed), 1.0),
        ratio(total_ratio(compared), 1.0),
        lowest.layer.problem.name if lowest else NONE,
        ratio(lowest.ratio, 1.0) if lowest else NONE,
        lowest.peer if lowest else NONE,
    ]


def summary_table(title: str, standings: Sequence[Standing]) -> Table:
    """Make the table of a network that a terminal of 80 columns shows: rates, and their ratio."""
    table = Table(title, ["layer", "pplconv's best", "GFLOP/s", "best peer", "GFLOP/s", "/ peer"])
    for one in standings:
        problem = one.layer.problem
        ours, theirs = (
            giga(problem.flops / seconds if seconds else None)
            for seconds in (one.ours_seconds, one.peer_seconds)
        )
        label = problem.layer or problem.sizes
        ahead = ratio(one.ratio, 1.0)
        table.add([label, one.ours or NONE, ours, one.peer or NONE, theirs, ahead])
    table.rule()
    table.add(["all, with counts", "", "", "", "", ratio(total_ratio(standings), 1.0)])
    return table


def networks_table(standings: Mapping[str, Sequence[Standing]]) -> Table:
    """Make the last table of a run, a row a network: all of its layers, with their counts."""
    title = "Summary: each network by the best layout of each layer, beside the best peer of each"
    table = Table(title, ["network", "layers", "GFLOP/s", "% peak", "/ best peers"])
    for network, some in standings.items():
        timed = [one for one in some if one.ours_seconds is not None]
        compared = [one for one in timed if one.ratio is not None]
        seconds = sum((one.ours_seconds or 0.0) * one.layer.problem.count for one in timed)
        flops = sum(one.layer.problem.flops * one.layer.problem.count for one in timed)
        count = str(len(some))
        if len(compared) < len(some):
            count = f"{len(compared)} of {count}"
        table.add(
            [
                network,
                count,
                giga(flops / seconds if seconds else None),
                percent(total_of_peak(timed), 1.0),
                ratio(total_ratio(compared), 1.0),
            ]
        )
    return table
