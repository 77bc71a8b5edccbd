"""The tables that only narrow types have: ceilings, layers, networks, units off, figures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.engines.base import Identity
from benchmarks.report import conditions, group
from benchmarks.results import LayerResult
from benchmarks.standing import KIND_TITLES, Standing, stand, total_ratio
from benchmarks.tables import NONE, Table, giga, percent, ratio

# Ceilings of a layer by level of the ladder, in the order of the layers.
Readings = Sequence[Mapping[str, float]]


@dataclass(frozen=True)
class Roles:
    """Which engines of a run are compared with which.

    Attributes
    ----------
    ours : tuple of str
        The pplconv that is compared: with uint8 activations, or in bfloat16.
    signed : tuple of str
        The same with int8 activations; none in bfloat16.
    plain : tuple of str
        pplconv in float32.
    peers : tuple of str
        All of them, whatever their activations.
    exact : tuple of str
        Engines whose errors are counted in units.
    """

    ours: tuple[str, ...]
    signed: tuple[str, ...]
    plain: tuple[str, ...]
    peers: tuple[str, ...]
    exact: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, engines: Sequence[Identity], plain: Collection[str], kinds: Mapping[str, str]
    ) -> Roles:
        """Sort the engines of a run.

        Parameters
        ----------
        engines : sequence of Identity
        plain : collection of str
            Names of those that compute in float32.
        kinds : mapping of str to str
            Type of activations of the quantized ones, by name.
        """
        own = [one.name for one in engines if one.ours and one.name not in plain]
        return cls(
            tuple(name for name in own if kinds.get(name) != "s8"),
            tuple(name for name in own if kinds.get(name) == "s8"),
            tuple(one.name for one in engines if one.ours and one.name in plain),
            tuple(one.name for one in engines if not one.ours and one.name not in plain),
            tuple(one.name for one in engines if one.name in kinds),
        )


def ceilings_table(best: Mapping[int, Mapping[str, float]]) -> Table:
    """Make the table of the loops: the rate of each instruction, by size of team."""
    teams = list(best)
    names = list(dict.fromkeys(name for team in teams for name in best[team]))
    table = Table(
        "Ceilings: register-only loops, best of the run, Gop/s",
        ["instruction", *(conditions(1, team) for team in teams)],
    )
    for name in names:
        table.add([name, *(giga(best[team].get(name)) for team in teams)])
    return table


def of_ceiling(one: Standing, readings: Mapping[str, float]) -> tuple[str, float | None]:
    """Give the instruction set that our plan names, and the part of its ceiling that we reach.

    Where the plan names none that has a loop, it is held against the fastest one.
    """
    if one.ours_seconds is None or not readings:
        return "", None
    named = one.layer.entries[one.ours].isa
    ceiling = readings.get(named) or max(readings.values())
    return named, one.layer.problem.flops / one.ours_seconds / ceiling


def layers_table(
    title: str, layers: Sequence[LayerResult], readings: Readings, roles: Roles
) -> Table:
    """Make the table of a network: the best of ours beside its ceiling and the others."""
    table = Table(
        title,
        [
            "layer", "class", "count", "pplconv's best", "Gop/s", "instructions", "% ceiling",
            "best peer", "Gop/s", "/ peer", "s8 / u8", "/ own f32",
        ],
    )  # fmt: skip
    for layer, reading in zip(layers, readings, strict=True):
        one = stand(layer, roles.ours, roles.peers)
        isa, part = of_ceiling(one, reading)
        problem = layer.problem
        rates = [
            giga(problem.flops / seconds if seconds else None)
            for seconds in (one.ours_seconds, one.peer_seconds)
        ]
        behind = one.ratio is not None and one.ratio < 1.0
        cells = [
            problem.layer or problem.sizes,
            KIND_TITLES[problem.kind],
            str(problem.count),
            one.ours or NONE,
            rates[0],
            isa or NONE,
            percent(part, 1.0),
            one.peer or NONE,
            rates[1],
            ratio(one.ratio, 1.0),
            ratio(stand(layer, roles.signed, roles.ours).ratio, 1.0),
            ratio(stand(layer, roles.ours, roles.plain).ratio, 1.0),
        ]
        table.add(cells, [9] if behind else [])
    return table


def _total(layers: Sequence[LayerResult], ours: Collection[str], others: Collection[str]) -> str:
    """Times of `others` over those of `ours`, over all layers that both have, with their counts."""
    found = [stand(layer, ours, others) for layer in layers]
    known = [one for one in found if one.ratio is not None]
    text = ratio(total_ratio(known) if known else None, 1.0)
    # The text shows that layers are missing in the sums.
    return text if len(known) in (0, len(found)) else f"{text} ({len(known)} of {len(found)})"


def networks_table(layers: Sequence[LayerResult], roles: Roles) -> Table:
    """Make the table of totals: how many times as fast we are, each network and size of team."""
    table = Table(
        "Totals by network, with the counts of the layers: how many times as fast pplconv is",
        [
            "network", "layers", "/ best peer of each layer",
            *(f"/ {name}" for name in roles.peers), "s8 / u8", "/ own f32",
        ],
    )  # fmt: skip
    for (net, batch, threads), some in group(layers).items():
        table.add(
            [
                f"{net}, {conditions(batch, threads)}",
                str(len(some)),
                _total(some, roles.ours, roles.peers),
                *(_total(some, roles.ours, [name]) for name in roles.peers),
                _total(some, roles.signed, roles.ours),
                _total(some, roles.ours, roles.plain),
            ]
        )
    return table


def units_table(layers: Sequence[LayerResult], roles: Roles) -> Table:
    """Make the table of how often each engine's results are one unit off the exact ones."""
    table = Table(
        "Results that are one unit off the exact ones (none is further off), and wrong layers",
        ["engine", "layers", "exact", "on average, %", "at most, %", "wrong or failed"],
    )
    for name in roles.exact:
        entries = [layer.entries[name] for layer in layers if name in layer.entries]
        right = [entry.error for entry in entries if entry.status == "ok"]
        bad = sum(entry.status in ("wrong", "failed") for entry in entries)
        mean = sum(right) / len(right) if right else None
        table.add(
            [
                name,
                str(len(right)),
                str(sum(error == 0.0 for error in right)),
                NONE if mean is None else f"{100 * mean:.3g}",
                f"{100 * max(right):.3g}" if right else NONE,
                str(bad),
            ]
        )
    return table


@dataclass(frozen=True)
class _Figure:
    """One figure to reach: a value of each of its layers, or of their sum."""

    layers: str
    what: str
    needed: float
    pick: Callable[[LayerResult], bool]
    ours: str
    others: str
    total: bool = False


def _resnet(layer: LayerResult) -> bool:
    return layer.problem.net == "resnet_50"


def _dense(layer: LayerResult) -> bool:
    return layer.problem.kind not in ("depthwise", "stem") and layer.problem.groups == 1


def _depthwise(layer: LayerResult) -> bool:
    return layer.problem.kind == "depthwise"


def _any(layer: LayerResult) -> bool:
    return True


# AMX reaches a smaller part of its ceiling than VNNI: loads of its tiles limit it.
_CEILINGS = {"amx": 0.70}
_CEILING = 0.92

FIGURES = {
    "int8": (
        _Figure("ResNet-50", "each layer / best peer", 1.0, _resnet, "ours", "peers"),
        _Figure("ResNet-50", "total / best peers", 1.15, _resnet, "ours", "peers", total=True),
        _Figure("all layers", "total, s8 / u8", 0.97, _any, "signed", "ours", total=True),
        _Figure("depthwise", "total / own f32", 1.3, _depthwise, "ours", "plain", total=True),
    ),
    "bf16": (
        _Figure("all layers", "each layer / best peer", 1.0, _any, "ours", "peers"),
        _Figure("dense", "total / own f32", 1.85, _dense, "ours", "plain", total=True),
    ),
}


def figures_table(
    precision: str, layers: Sequence[LayerResult], readings: Readings, roles: Roles
) -> Table:
    """Hold the run against the figures to reach, by size of team."""
    table = Table(
        "Figures to reach",
        ["layers", "figure", "threads", "needed", "measured", "reached", "worst layer", "found"],
    )
    for threads in dict.fromkeys(layer.threads for layer in layers):
        at = [index for index, layer in enumerate(layers) if layer.threads == threads]
        mine, read = [layers[index] for index in at], [readings[index] for index in at]
        for figure in FIGURES[precision]:
            picked = [layer for layer in mine if figure.pick(layer)]
            found = [
                stand(layer, getattr(roles, figure.ours), getattr(roles, figure.others))
                for layer in picked
            ]
            ratios = {one.layer.problem.name: one.ratio for one in found if one.ratio is not None}
            known = [one for one in found if one.ratio is not None]
            total = total_ratio(known) if known and figure.total else None
            _add(
                table, figure.layers, figure.what, threads, figure.needed, ratios, total, len(found)
            )
        if precision == "int8":
            _add_ceilings(table, mine, read, roles, threads)
    return table


def _add_ceilings(
    table: Table,
    layers: Sequence[LayerResult],
    readings: Readings,
    roles: Roles,
    threads: int,
) -> None:
    parts: dict[str, dict[str, float]] = {}
    for layer, reading in zip(layers, readings, strict=True):
        if _dense(layer):
            isa, part = of_ceiling(stand(layer, roles.ours, roles.peers), reading)
            if part is not None:
                parts.setdefault(isa, {})[layer.problem.name] = part
    for isa, found in parts.items():
        needed = _CEILINGS.get(isa, _CEILING)
        where = f"dense, by {isa or 'an instruction that is not named'}"
        _add(table, where, "each layer / ceiling", threads, needed, found, None, len(found))


def _add(
    table: Table,
    layers: str,
    what: str,
    threads: int,
    needed: float,
    ratios: Mapping[str, float],
    total: float | None,
    expected: int,
) -> None:
    worst = min(ratios, key=ratios.__getitem__, default="")
    value = total if total is not None else ratios.get(worst)
    verdict = "not measured" if value is None else "yes" if value >= needed else "no"
    table.add(
        [
            layers,
            what,
            str(threads),
            f"{needed:.2f}",
            NONE if value is None else f"{value:.3f}",
            verdict,
            f"{worst} {ratios[worst]:.3f}" if worst else NONE,
            f"{len(ratios)} of {expected}",
        ],
        [5] if verdict == "no" else [],
    )
