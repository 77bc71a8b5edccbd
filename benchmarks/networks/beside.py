"""Measure networks beside other programs: ``python -m benchmarks.networks.beside --help``.

Each engine has a process, or two, for each size of its team, and they take turns. Other processes
compute meanwhile: loops, loops of higher priority, or a second copy of the network in the same
engine. The time of a turn is the median of its runs; of two copies, the slower one's. The best turn
counts.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks import options
from benchmarks.networks import engines, models, run
from benchmarks.networks.cases import difference, order, outputs
from benchmarks.networks.engines import Engine
from benchmarks.networks.process import Client, WorkerError, usable_cpus
from benchmarks.runner import Progress
from benchmarks.tables import NONE, Table
from benchmarks.timing import Settings
from benchmarks.tool import Run, command, new_parser
from examples.models.progress import Progress as Steps

# Prints a line when it begins; ends with an error if the system refuses the priority.
LOOP = "import os, sys; os.nice(int(sys.argv[1])); print(flush=True)\nwhile True: pass"


@dataclass(frozen=True)
class Scene:
    """The programs that run at the same time.

    Attributes
    ----------
    loops : int
        Processes that only compute.
    nice : int
        Their niceness: below 0 for a higher priority.
    copies : int
        Of the network, in processes of their own.
    """

    loops: int = 0
    nice: int = 0
    copies: int = 1


SCENES: Mapping[str, Scene] = {
    "alone": Scene(),
    "1 loop": Scene(loops=1),
    "3 loops": Scene(loops=3),
    "1 loop of higher priority": Scene(loops=1, nice=-10),
    "2 copies": Scene(copies=2),
}


@dataclass(frozen=True)
class Team:
    """An engine on some threads."""

    engine: type[Engine]
    threads: int

    def __str__(self) -> str:
        return f"{self.engine.name}, {self.threads}"


@dataclass
class Row:
    """A network in a scene: seconds of each turn, by the name of the team."""

    network: str
    scene: str
    rounds: dict[str, list[float]] = field(default_factory=dict)

    def best(self, team: Team) -> float | None:
        """Give the best turn of a team (seconds)."""
        return min(self.rounds.get(str(team), ()), default=None)

    def against(self, team: Team, others: Sequence[Team]) -> float | None:
        """Give the time of a team, divided by the time of the best of `others`."""
        own = self.best(team)
        theirs = [best for other in others if (best := self.best(other)) is not None]
        return own / min(theirs) if own is not None and theirs else None


@contextmanager
def loops(scene: Scene) -> Iterator[bool]:
    """Run the loops of a scene; False if they cannot have their priority."""
    begun = []
    try:
        for _ in range(scene.loops):
            command = [sys.executable, "-c", LOOP, str(scene.nice)]
            begun.append(
                subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            )
        yield all(one.stdout is not None and one.stdout.readline() for one in begun)
    finally:
        for one in begun:
            one.kill()
            one.communicate()


def start(
    team: Team,
    copies: int,
    stack: ExitStack,
    path: Path,
    common: Mapping[str, object],
    folder: Path,
) -> list[Client]:
    """Start a team's processes, each with the network loaded."""
    found = [stack.enter_context(Client(team.engine, usable_cpus())) for _ in range(copies)]
    file = str(team.engine.convert(path, folder))
    for worker in found:
        worker.ask("load", path=file, threads=team.threads, **common)
    return found


def measure(
    name: str,
    network: models.Network,
    path: Path,
    teams: Sequence[Team],
    scenes: Sequence[str],
    settings: Settings,
    progress: Progress,
) -> tuple[list[Row], list[str]]:
    """Measure a network in all scenes; give a row a scene, and notes on failures."""
    rows, notes = [], []
    copies = max(SCENES[scene].copies for scene in scenes)
    shapes = network.shapes(1)
    with (
        tempfile.TemporaryDirectory(prefix="beside-") as made,
        ExitStack() as stack,
        ThreadPoolExecutor(copies) as callers,
    ):
        folder = Path(made)
        feed = folder / "feed.npz"
        inputs = network.feed(1)
        np.savez(feed, *(inputs[one] for one in shapes))
        path = models.fixed(path, shapes, folder)
        common = {"shapes": shapes, "feed": str(feed)}
        with ExitStack() as one:
            (worker,) = start(Team(run.REFERENCE, 1), 1, one, path, common, folder)
            expected = outputs(worker, folder)
        workers = {}
        for team in teams:
            try:
                found = start(team, copies, stack, path, common, folder)
                wrong = difference(outputs(found[0], folder), expected)[1]
            except (WorkerError, RuntimeError, OSError) as error:
                wrong = str(error)
            if wrong:
                notes.append(f"{name}: {team}: {wrong}")
            else:
                workers[str(team)] = found

        def visit(worker: Client) -> float:
            answer = worker.ask(
                "visit",
                min_seconds=settings.min_seconds,
                settle_seconds=settings.settle_seconds,
            )
            seconds: float = answer["seconds"]
            return seconds

        for scene in scenes:
            progress.begin(f"{name}, {scene}")
            with loops(SCENES[scene]) as ready:
                if not ready:
                    notes.append(f"{name}: {scene}: no such priority is allowed")
                    continue
                row = Row(name, scene)
                rows.append(row)
                for turn in range(settings.rounds):
                    for team_name in order(list(workers), turn):
                        chosen = workers[team_name][: SCENES[scene].copies]
                        slower = max(callers.map(visit, chosen))
                        row.rounds.setdefault(team_name, []).append(slower)
    return rows, notes


def table(rows: Sequence[Row], teams: Sequence[Team]) -> Table:
    """Make the table: a row for each network and scene."""
    ours = [team for team in teams if team.engine.ours]
    peers = [team for team in teams if not team.engine.ours]
    largest = max(ours, key=lambda team: team.threads, default=None)
    smaller = [team for team in ours if team != largest]
    made = Table(
        "Networks beside other programs, ms",
        ["network", "beside", *map(str, teams), "/ best peer", "/ fewer threads"],
    )
    for row in rows:
        times = [row.best(team) for team in teams]
        parts = [row.against(largest, who) for who in (peers, smaller)] if largest else [None] * 2
        made.add(
            [
                row.network,
                row.scene,
                *(NONE if one is None else f"{1e3 * one:.2f}" for one in times),
                *(NONE if one is None else f"{one:.2f}" for one in parts),
            ]
        )
    return made


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.networks.beside", __doc__)
    parser.add_argument("--models", type=options.words, default=[], help="names; default: all")
    options.add_engines(parser, engines.ENGINES, ["pplconv", "onnxruntime"])
    options.add_threads(parser, [2, 1])
    parser.add_argument(
        "--scenes", type=options.some_of(SCENES), default=list(SCENES), help="some of them"
    )
    options.add_timing(parser, rounds=3, min_seconds=0.5)
    options.add_cache(parser)
    options.add_output(parser)
    return parser


@command(_parser)
def main(this: Run) -> int:
    """Measure, and give the exit status."""
    chosen = this.chosen
    with this.refusing():
        networks = models.select(chosen.models)
        wanted = engines.select(chosen.engines)
    present, absent = run.usable(wanted)
    run.want(run.REFERENCE, this.parser)
    paths = models.obtain(
        list(networks.values()), run.cache_folder(chosen.cache), Steps(sys.stderr)
    )
    teams = [Team(engine, threads) for engine in present for threads in chosen.threads]
    settings = Settings(chosen.rounds, chosen.min_ms, settle_seconds=options.SETTLE_SECONDS)
    rows: list[Row] = []
    with this.steps(len(networks) * len(chosen.scenes)) as progress:
        for (name, network), path in zip(networks.items(), paths, strict=True):
            found, notes = measure(name, network, path, teams, chosen.scenes, settings, progress)
            rows += found
            this.notes += notes
    head = this.head(
        f"a process or two for each team, in turn, {settings.rounds} rounds in changing "
        f"order; a round is the median of runs that last {settings.min_seconds * 1e3:g} ms or "
        "more together, of two copies the slower one's; the best round counts",
        more=run.described(wanted, absent),
    )
    figures = {"notes": this.notes, "rows": [vars(row) for row in rows]}
    return this.publish(head, [table(rows, teams)], figures)


if __name__ == "__main__":
    sys.exit(main())
