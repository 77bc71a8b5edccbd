"""Networks in low precision beside other engines: ``python -m benchmarks.networks.low --help``.

Models of the zoo (see `zoo`), all engines in one process, in turn, CPU time on one thread or
time on several. OpenVINO runs
twice: as it comes, which computes in bfloat16 where the CPU has products of it, and in float32. A
result counts if its signal to noise against our float32 is not 10 dB worse than that of OpenVINO as
it comes.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import pplconv
from benchmarks import options
from benchmarks.names import pick
from benchmarks.networks.accuracy import MODELS
from benchmarks.networks.engines import Array, Engine, Feed, OnnxRuntime, OpenVino, Pplconv
from benchmarks.networks.run import usable
from benchmarks.networks.zoo import Animal, everything, obtained
from benchmarks.report import Head
from benchmarks.tables import NONE, Table
from benchmarks.timing import Clock, Settings, interleave
from benchmarks.tool import Run, command, new_parser

_CPU, _WALL = Clock(now=time.process_time), Clock()
_WORSE = 10.0  # dB


class Low(Pplconv):
    """pplconv in low precision."""

    name = "low"
    note = 'InferenceSession(path, threads=n, precision="low")'
    settings: Mapping[str, str] = {"precision": "low"}


class AsItComes(OpenVino):
    """OpenVINO without a hint of precision."""

    name = "openvino as it comes"
    note = "LATENCY, INFERENCE_NUM_THREADS n, NUM_STREAMS 1, static shapes"
    settings: Mapping[str, str] = {}


ENGINES: tuple[type[Engine], ...] = (Pplconv, Low, OnnxRuntime, AsItComes, OpenVino)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.networks.low", __doc__)
    parser.add_argument(
        "--models", type=options.words, default=list(MODELS), help="some names of the zoo's lists"
    )
    parser.add_argument(
        "--threads", type=options.positive, default=1, help="of each engine (default: %(default)s)"
    )
    options.add_timing(parser, rounds=5, min_seconds=0.1)
    options.add_cache(parser)
    options.add_output(parser)
    return parser


@command(_parser)
def main(run: Run) -> int:
    """Time the models, and give the exit status: 1 if a result was wrong."""
    chosen = run.chosen
    with run.refusing():
        animals = pick("model", chosen.models, everything())
    present, absent = usable(ENGINES)
    paths = obtained(run, animals)
    if isinstance(paths, int):
        return paths
    settings = Settings(chosen.rounds, chosen.min_ms)
    done: dict[str, Times] = {}
    with run.steps(len(animals), "some models are missing") as progress:
        for name, animal in animals.items():
            progress.begin(name)
            path = paths[name]
            if not isinstance(path, str):
                done[name] = times(path, animal, present, settings, chosen.threads)
    head = run.head(
        _method(settings, chosen.threads), notes=[f"{name}: {why}" for name, why in absent.items()]
    )
    status = run.publish(head, [table_of(done, present, chosen.threads)], _plain(head, done))
    return status or int(any(found.is_wrong for found in done.values()))


class Times:
    """The times of a model in ms, and signal to noise in dB, by engine."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}
        self.decibels: dict[str, float] = {}

    @property
    def is_wrong(self) -> bool:
        """Whether low precision is much less accurate than the peer in bfloat16."""
        peer = self.decibels.get(AsItComes.name, -math.inf)
        return not self.decibels[Low.name] > min(peer, 40.0) - _WORSE

    @property
    def ratio(self) -> float:
        """The time of the best peer as a multiple of ours."""
        ours = (Pplconv.name, Low.name)
        peers = [taken for name, taken in self.milliseconds.items() if name not in ours]
        return min(peers, default=math.nan) / self.milliseconds[Low.name]

    @property
    def gain(self) -> float:
        """Our time in float32 as a multiple of that in low precision."""
        return self.milliseconds[Pplconv.name] / self.milliseconds[Low.name]


def times(
    path: Path, animal: Animal, present: Sequence[type[Engine]], settings: Settings, threads: int
) -> Times:
    """Time the engines on a model."""
    found, calls, expected = Times(), {}, None
    plain = pplconv.InferenceSession(str(path), threads=1, fallback="silent")
    feed: Feed = animal.feed({value.name: value.type for value in plain.get_inputs()})
    for kind in present:
        engine = kind()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                engine.load(str(path), animal.inputs, threads)
                outputs = [np.array(array) for array in engine.run(feed)]
        except Exception as error:
            if kind.ours:
                raise
            print(f"{kind.name}: {error}", file=sys.stderr)
            continue
        if expected is None:
            expected = outputs
        found.decibels[kind.name] = decibels(expected, outputs)
        calls[kind.name] = lambda engine=engine: engine.run(feed)
    timed = interleave(calls, settings, _CPU if threads == 1 else _WALL)
    found.milliseconds = {name: 1e3 * timing.best for name, timing in timed.items()}
    return found


def decibels(expected: Sequence[Array], outputs: Sequence[Array]) -> float:
    """Give the least signal to noise of the outputs of floating point that have a signal."""
    floats = [
        (want, got) for want, got in zip(expected, outputs, strict=True)
        if want.dtype.kind == "f" and want.any()
    ]  # fmt: skip
    if any(want.shape != got.shape for want, got in floats):
        return -math.inf
    return min((pplconv.quant.signal_to_noise(*pair) for pair in floats), default=math.inf)


def table_of(done: Mapping[str, Times], present: Sequence[type[Engine]], threads: int = 1) -> Table:
    """Make the table: a row for each model."""
    names = [kind.name for kind in present]
    header = ["model", *names, "best peer / low", "float32 / low", "low, dB", "peer, dB"]
    title = "CPU time of a run on one thread" if threads == 1 else f"a run on {threads} threads"
    table = Table(f"Networks in low precision: {title}, ms", header)
    for name, found in done.items():
        table.add([
            name,
            *(f"{found.milliseconds[n]:.3g}" if n in found.milliseconds else NONE for n in names),
            f"{found.ratio:.2f}", f"{found.gain:.2f}", f"{found.decibels[Low.name]:.0f}",
            f"{found.decibels.get(AsItComes.name, math.nan):.0f}",
        ])  # fmt: skip
    means = [
        math.exp(sum(map(math.log, each)) / len(done))
        for each in ([f.ratio for f in done.values()], [f.gain for f in done.values()])
    ] if done else []  # fmt: skip
    if means:
        table.rule()
        blank = [""] * len(names)
        table.add(["geometric mean", *blank, *(f"{mean:.2f}" for mean in means), "", ""])
    return table


def _method(settings: Settings, threads: int) -> str:
    how = "CPU time of the process" if threads == 1 else "time by the clock"
    return (
        f"all engines in one process, of {threads} threads each, in turn; {how}; "
        f"{settings.rounds} rounds, the best one counts; a round is the median of runs that last "
        f"{settings.min_seconds * 1e3:g} ms or more together; signal to noise against pplconv in "
        "float32"
    )


def _plain(head: Head, done: Mapping[str, Times]) -> dict[str, object]:
    models = [{"name": name, **vars(found)} for name, found in done.items()]
    return {**head.plain(), "models": models}


if __name__ == "__main__":
    sys.exit(main())
