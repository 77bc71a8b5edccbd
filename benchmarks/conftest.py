"""Options of the pytest-benchmark suite, and its order: engines side by side, layer by layer."""

from __future__ import annotations

import argparse

import pytest

from benchmarks import options
from benchmarks.engines import ENGINES, choose
from benchmarks.problems import ProblemError, load_nets, select


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that select networks, layers, engines and teams."""
    group = parser.getgroup("pplconv benchmarks")
    group.addoption("--nets", default="", help="networks, such as resnet_50,vgg_19 (default: all)")
    group.addoption("--layers", default="", help="regular expression for net:layer or the class")
    group.addoption("--engines", default="", help="engines, such as pplconv,ort (default: all)")
    group.addoption("--bench-threads", default="1", help="sizes of teams, such as 1,2")


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
        params = item.callspec.params  # type: ignore[attr-defined]
        return order[params["problem"]], params["threads"], names.index(params["engine"].name)

    ours = [index for index, item in enumerate(items) if _is_benchmark(item)]
    ordered = sorted((items[index] for index in ours), key=place)
    for index, item in zip(ours, ordered, strict=True):
        items[index] = item


def _is_benchmark(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and {"problem", "threads", "engine"} <= set(callspec.params)
