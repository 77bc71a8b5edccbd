"""Options of the pytest-benchmark suite, its order, engines side by side, and its summary."""

from __future__ import annotations

import argparse
import io
from collections.abc import Generator

import pytest

from benchmarks import options
from benchmarks.engines import ENGINES, choose
from benchmarks.problems import Problem, ProblemError, load_nets, select
from benchmarks.report import conditions, group
from benchmarks.results import LayerResult
from benchmarks.runner import Progress, run_layer
from benchmarks.standing import main_setting, ours_of, peers_of, stand, summary_table
from benchmarks.timing import Settings

# The layers that were measured, in their order.
_LAYERS = pytest.StashKey[list[LayerResult]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that select networks, layers, engines and teams."""
    group = parser.getgroup("pplconv benchmarks")
    group.addoption("--nets", default="", help="networks, such as resnet_50,vgg_19 (default: all)")
    group.addoption("--layers", default="", help="regular expression for net:layer or the class")
    group.addoption("--engines", default="", help="engines, such as pplconv,ort (default: all)")
    group.addoption("--bench-threads", default="1", help="sizes of teams, such as 1,2")
    group.addoption(
        "--bench-rounds", type=options.positive, default=5, help="visits of each engine (default 5)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin the list of layers."""
    config.stash[_LAYERS] = []


@pytest.fixture
def layer(problem: Problem, threads: int, request: pytest.FixtureRequest) -> LayerResult:
    """Measure the engines that were selected on one layer, in turn, or give what was measured."""
    layers = request.config.stash[_LAYERS]
    if layers and (layers[-1].problem, layers[-1].threads) == (problem, threads):
        return layers[-1]
    chosen = [
        item.callspec.params["engine"]  # type: ignore[attr-defined]
        for item in request.session.items
        if _is_benchmark(item) and _case_of(item) == (problem, threads)
    ]
    engines = [engine for engine, found in options.availability(chosen) if found.ok]
    settings = Settings(
        rounds=request.config.getoption("--bench-rounds"),
        settle_seconds=options.SETTLE_SECONDS if threads > 1 else 0.0,
    )
    layers.append(run_layer(problem, engines, threads, settings, None, Progress(1, io.StringIO())))
    return layers[-1]


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Generator[None, object, object]:
    """Show GFLOP/s and ratios of each network, in 80 columns, below all other tables."""
    try:
        # Raises where `--benchmark-compare-fail` finds something.
        return (yield)
    finally:
        _show(terminalreporter, config.stash[_LAYERS])


def _show(reporter: pytest.TerminalReporter, measured: list[LayerResult]) -> None:
    for (net, batch, threads), layers in group(measured).items():
        engines = [ENGINES[name] for name in ENGINES if any(name in one.entries for one in layers)]
        identities = [engine.identity for engine in engines]
        setting = main_setting(identities)
        ours = [one.name for one in identities if one.ours]
        if setting is not None:
            ours = ours_of(identities, setting)
        title = f"{net}, {conditions(batch, threads)}: best visits"
        table = summary_table(title, [stand(one, ours, peers_of(identities)) for one in layers])
        reporter.write_line("\n" + table.text())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise by layer, team and engine, as the options say."""
    if not {"problem", "threads", "engine"} <= set(metafunc.fixturenames):
        return
    option = metafunc.config.getoption
    try:
        nets = select(load_nets(), options.words(option("--nets")), option("--layers"))
        engines = choose(options.words(option("--engines")))
        teams = options.counts(option("--bench-threads"))
    except (ProblemError, ValueError, argparse.ArgumentTypeError) as error:
        raise pytest.UsageError(str(error)) from None
    problems = [problem for one in nets.values() for problem in one]
    # The last one set varies slowest.
    metafunc.parametrize("engine", engines, ids=lambda engine: engine.name)
    metafunc.parametrize("threads", teams, ids=lambda threads: f"{threads}T")
    metafunc.parametrize("problem", problems, ids=lambda problem: problem.name)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Undo a shuffle of the benchmarks: the engines of a layer are compared close in time."""
    problems = [problem for one in load_nets().values() for problem in one]
    order = {problem: index for index, problem in enumerate(problems)}
    names = list(ENGINES)

    def place(item: pytest.Item) -> tuple[int, int, int]:
        problem, threads = _case_of(item)
        engine = item.callspec.params["engine"]  # type: ignore[attr-defined]
        return order[problem], threads, names.index(engine.name)

    ours = [index for index, item in enumerate(items) if _is_benchmark(item)]
    ordered = sorted((items[index] for index in ours), key=place)
    for index, item in zip(ours, ordered, strict=True):
        items[index] = item


def _is_benchmark(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and {"problem", "threads", "engine"} <= set(callspec.params)


def _case_of(item: pytest.Item) -> tuple[Problem, int]:
    params = item.callspec.params  # type: ignore[attr-defined]
    return params["problem"], params["threads"]
