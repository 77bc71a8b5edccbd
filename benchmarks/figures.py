"""The figures that pplconv is built to reach, and the verdict of a run on each.

Every figure is a ratio inside one run: against the best of all peers (see `benchmarks.standing`),
against the FMA peak read beside the layer, or of the estimate's plans against measured ones. A
figure "in total" is about sums over layers with their counts; every other one holds on each layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.engines.base import Identity
from benchmarks.engines.pplconv import DEFAULT_SEARCH, DEFAULT_TOLERANCE
from benchmarks.problems import Problem
from benchmarks.results import LayerResult
from benchmarks.standing import (
    Setting,
    Standing,
    main_setting,
    ours_of,
    peers_of,
    stand,
    total_of_peak,
    total_ratio,
)
from benchmarks.tables import NONE, Table

PEERS, PEAK, ESTIMATE = "peers", "peak", "estimate"


def _layers(kind: str, *nets: str) -> Callable[[Problem], bool]:
    return lambda p: p.kind == kind and p.net in nets and p.mb == 1


def _wide_3x3(problem: Problem) -> bool:
    dense = _layers("3x3", "vgg_19", "resnet_50")(problem)
    return dense and all(128 <= channels <= 256 for channels in (problem.ic, problem.oc))


_POINTWISE = _layers("1x1", "resnet_50", "mobilenet")
_WINOGRAD = _layers("3x3", "vgg_19", "resnet_50")
_DEPTHWISE = _layers("depthwise", "mobilenet")
_STEMS = _layers("stem", "resnet_50", "vgg_19", "mobilenet")


@dataclass(frozen=True)
class Figure:
    """One figure to reach.

    Attributes
    ----------
    layers, what : str
        Which layers it is about, and what is compared, in words.
    one, many : float or None
        The needed value with one thread and with a team; None: nothing is asked.
    pick : callable
        Whether a problem is one of its layers.
    against : str
        ``"peers"``: the best of them; ``"peak"``: the FMA peak; ``"estimate"``: the time of the
        estimate's plans over that of measured ones, which must not be *more* than is needed.
    total : bool
        Whether sums are compared; if not, it must hold on each layer.
    layouts : tuple of str
        Layouts of pplconv that count; none: all.
    peers, peer_layouts : tuple of str
        Peers that count, and layouts of theirs; none: all.
    tolerance : float
        The tolerance that pplconv was given.
    """

    layers: str
    what: str
    one: float | None
    many: float | None
    pick: Callable[[Problem], bool]
    against: str = PEERS
    total: bool = False
    layouts: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    peer_layouts: tuple[str, ...] = ()
    tolerance: float = DEFAULT_TOLERANCE

    def needed(self, threads: int) -> float | None:
        """The needed value with so many threads."""
        return self.one if threads == 1 else self.many


_1X1 = "1x1, ResNet-50 and MobileNetV1"
_3X3 = "3x3 stride 1, VGG-19 and ResNet-50"
_CHANNELS = ("NHWC", "NCHWc")

FIGURES = (
    Figure(f"{_1X1}, NHWC or NCHWc", "each layer / LiteRT", 0.99, 0.99, _POINTWISE,
           layouts=_CHANNELS, peers=("litert",)),
    Figure(f"{_1X1}, NHWC or NCHWc", "total / FMA peak", 0.97, 0.97, _POINTWISE, PEAK, total=True,
           layouts=_CHANNELS),
    Figure(f"{_1X1}, NCHW", "total / FMA peak", 0.95, 0.95, _POINTWISE, PEAK, total=True,
           layouts=("NCHW",)),
    Figure(f"{_1X1}, NCHW", "each layer / best NCHW peer", 1.0, 1.0, _POINTWISE,
           layouts=("NCHW",), peer_layouts=("NCHW",)),
    Figure(_3X3, "total / best peers", 1.10, 1.10, _WINOGRAD, total=True),
    Figure(f"{_3X3}, 128-256 channels", "each layer / FMA peak", 3.4, None, _wide_3x3, PEAK),
    Figure(f"{_3X3}, tolerance 1e-4", "total / best peers", 1.25, 1.25, _WINOGRAD, total=True,
           tolerance=1e-4),
    Figure("depthwise, MobileNetV1", "total / best peers", 1.2, 1.2, _DEPTHWISE, total=True),
    Figure("depthwise, MobileNetV1", "each layer / best peer", 1.0, 1.0, _DEPTHWISE),
    Figure("stems of ResNet-50, VGG-19, MobileNetV1", "each layer / best peer", 1.05, 1.05, _STEMS),
    Figure("all layers, every batch size", "each layer / best peer", 0.97, 0.95, lambda p: True),
    Figure("all layers, every batch size", "total, estimate / measure, at most", 1.05, 1.08,
           lambda p: True, ESTIMATE, total=True),
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """The verdict of a run on a figure, with one size of team.

    Attributes
    ----------
    value : float or None
        The figure; None where the run cannot tell.
    worst, rival : str
        Layer that is furthest from the needed value, and its rival: a peer, ``"peak"`` or
        ``"measured plan"``.
    worst_value : float or None
        The ratio on that layer.
    found, expected : int
        Layers in the figure, and layers that it is about.
    setting : Setting or None
        Of the pplconv that counted.
    """

    figure: Figure
    threads: int
    value: float | None
    worst: str = ""
    worst_value: float | None = None
    rival: str = ""
    found: int = 0
    expected: int = 0
    setting: Setting | None = None

    @property
    def reached(self) -> bool | None:
        """Whether the figure holds on the layers found; None where nothing is known."""
        needed = self.figure.needed(self.threads)
        if self.value is None or needed is None:
            return None
        return self.value <= needed if self.figure.against == ESTIMATE else self.value >= needed

    @property
    def verdict(self) -> str:
        """``yes``, ``no``, ``yes so far`` where layers are missing, or ``not measured``."""
        if self.reached is None:
            return "not measured"
        if not self.reached:
            return "no"
        return "yes" if self.found >= self.expected else "yes so far"


@dataclass
class _Ratios:
    """Ratios of single layers, and the times that their total is made of."""

    ratios: dict[str, float] = field(default_factory=dict)
    rivals: dict[str, str] = field(default_factory=dict)
    total: float | None = None


def outcomes(
    layers: Sequence[LayerResult],
    identities: Sequence[Identity],
    expected: Mapping[str, Sequence[Problem]],
) -> list[Outcome]:
    """Hold a run against every figure.

    Parameters
    ----------
    layers : sequence of LayerResult
        The whole run: all networks, batch sizes and teams.
    identities : sequence of Identity
        Its engines.
    expected : mapping of str to sequence of Problem
        The shipped networks: a figure is about all their layers, also those left out of the run.

    Returns
    -------
    list of Outcome
        Figure by figure, one for each size of team of the run that the figure asks about.
    """
    teams = sorted({layer.threads for layer in layers})
    problems = [one for net in expected.values() for one in net]
    return [
        _outcome(figure, [one for one in layers if one.threads == team], team, identities, problems)
        for figure in FIGURES
        for team in teams
        if figure.needed(team) is not None
    ]


def _outcome(
    figure: Figure,
    layers: Iterable[LayerResult],
    threads: int,
    identities: Sequence[Identity],
    problems: Iterable[Problem],
) -> Outcome:
    mine = [one for one in layers if figure.pick(one.problem)]
    batches = max(1, len({one.problem.mb for one in mine}))
    expected = batches * sum(figure.pick(problem) for problem in problems)
    setting = main_setting(identities, figure.tolerance)
    ratios = _Ratios()
    if setting is not None:
        if figure.against == ESTIMATE:
            ratios = _estimate_ratios(mine, identities, setting)
        else:
            ratios = _rival_ratios(figure, mine, identities, setting)
    if not ratios.ratios:
        return Outcome(figure, threads, None, expected=expected, setting=setting)
    extreme = max if figure.against == ESTIMATE else min
    worst = extreme(ratios.ratios, key=ratios.ratios.__getitem__)
    worst_value = ratios.ratios[worst]
    return Outcome(
        figure,
        threads,
        ratios.total if figure.total else worst_value,
        worst,
        worst_value,
        ratios.rivals[worst],
        len(ratios.ratios),
        expected,
        setting,
    )


def _name(problem: Problem) -> str:
    return problem.name if problem.mb == 1 else f"{problem.name}, batch {problem.mb}"


def _rival_ratios(
    figure: Figure,
    layers: Iterable[LayerResult],
    identities: Sequence[Identity],
    setting: Setting,
) -> _Ratios:
    ours = ours_of(identities, setting, figure.layouts)
    peers = [
        name
        for name in peers_of(identities, figure.peer_layouts)
        if not figure.peers or name in figure.peers
    ]
    ratios = _Ratios()
    kept: list[Standing] = []
    for layer in layers:
        one = stand(layer, ours, peers)
        value = one.of_peak if figure.against == PEAK else one.ratio
        if value is not None:
            kept.append(one)
            ratios.ratios[_name(layer.problem)] = value
            ratios.rivals[_name(layer.problem)] = "peak" if figure.against == PEAK else one.peer
    ratios.total = total_of_peak(kept) if figure.against == PEAK else total_ratio(kept)
    return ratios


def _estimate_ratios(
    layers: Iterable[LayerResult], identities: Sequence[Identity], setting: Setting
) -> _Ratios:
    """Compare plans of the estimate with measured ones, each in its best layout."""
    ratios = _Ratios()
    if setting.search == DEFAULT_SEARCH:
        return ratios
    measured = ours_of(identities, setting)
    estimated = ours_of(identities, Setting(DEFAULT_SEARCH, setting.asked))
    slow = fast = 0.0
    for layer in layers:
        one = stand(layer, measured, estimated)
        if one.ratio is None or one.ours_seconds is None or one.peer_seconds is None:
            continue
        ratios.ratios[_name(layer.problem)] = one.ratio
        ratios.rivals[_name(layer.problem)] = "measured plan"
        slow += one.peer_seconds * layer.problem.count
        fast += one.ours_seconds * layer.problem.count
    ratios.total = slow / fast if fast else None
    return ratios


def figures_table(found: Sequence[Outcome]) -> Table:
    """Make the table of all figures: needed, measured, reached, and where it is worst."""
    settings = {one.setting.title for one in found if one.setting is not None}
    title = "Figures to reach"
    if settings:
        title += f" (pplconv with {'; '.join(sorted(settings))})"
    header = [
        "layers",
        "figure",
        "threads",
        "needed",
        "measured",
        "reached",
        "worst layer",
        "there",
    ]
    table = Table(title, [*header, "against", "layers found"])
    for one in found:
        table.add(
            [
                one.figure.layers,
                one.figure.what,
                str(one.threads),
                f"{one.figure.needed(one.threads):.2f}",
                NONE if one.value is None else f"{one.value:.3f}",
                one.verdict,
                one.worst or NONE,
                NONE if one.worst_value is None else f"{one.worst_value:.3f}",
                one.rival or NONE,
                f"{one.found} of {one.expected}",
            ],
            [5] if one.reached is False else [],
        )
    return table
