"""One network at one batch size and number of threads: its engines checked, then timed in turn."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.networks.engines import Array, Engine
from benchmarks.networks.models import Network, fixed
from benchmarks.networks.process import Client, WorkerError
from benchmarks.timing import Settings

TOLERANCE = 1e-3
"""Largest error of an output, as a part of its largest value."""

Say = Callable[[str], None]
# Takes outputs and the reference's; gives an error, as `Entry.error` is, and a complaint or "".
Judge = Callable[[Sequence[Array], Sequence[Array]], tuple[float | None, str]]


@dataclass
class Entry:
    """The results of one engine.

    Attributes
    ----------
    status : str
        ``"ok"``, ``"wrong"`` (its answer) or ``"failed"``; empty while nothing is known.
    detail : str
        Why it is not ``"ok"``.
    error : float or None
        The largest one among its outputs, each as a part of the output's largest value.
    rounds : list of float
        Median time of a run in each round (seconds).
    first_seconds : float or None
        Imports and the first session of the process.
    answer_seconds : float or None
        Imports, the first session and the first run.
    second_seconds : float or None
        Another session in the same process.
    peak_bytes : int or None
        Most memory of the process until it had answered once.
    """

    status: str = ""
    detail: str = ""
    error: float | None = None
    rounds: list[float] = field(default_factory=list)
    first_seconds: float | None = None
    answer_seconds: float | None = None
    second_seconds: float | None = None
    peak_bytes: int | None = None

    @property
    def median(self) -> float | None:
        """Time of a run in the middle round (seconds)."""
        return statistics.median(self.rounds) if self.rounds else None

    @property
    def best(self) -> float | None:
        """Time of a run in the best round (seconds)."""
        return min(self.rounds, default=None)

    def fail(self, status: str, detail: str) -> None:
        """Note a failure or a wrong answer, and drop the times."""
        self.status, self.detail = status, detail
        self.rounds.clear()


@dataclass
class Case:
    """A network under some conditions, and the results.

    Attributes
    ----------
    name : str
        Of the network.
    network : Network
    sha256 : str
        Of the model's file.
    batch, threads : int
    entries : dict of str to Entry
        By the name of the engine.
    detail : str
        Why there is no figure at all.
    """

    name: str
    network: Network
    sha256: str
    batch: int
    threads: int
    entries: dict[str, Entry] = field(default_factory=dict)
    detail: str = ""

    def best_peer(self, peers: Sequence[str]) -> str | None:
        """Name the peer with the least median."""
        timed = [name for name in peers if name in self.entries and self.entries[name].rounds]
        return min(
            timed, key=lambda name: statistics.median(self.entries[name].rounds), default=None
        )

    def ratios(self, ours: str, peers: Sequence[str]) -> list[float]:
        """Give how many times faster `ours` is than the best peer, round by round."""
        peer = self.best_peer(peers)
        if peer is None or ours not in self.entries:
            return []
        pairs = zip(self.entries[peer].rounds, self.entries[ours].rounds, strict=False)
        return [theirs / own for theirs, own in pairs]

    def plain(self) -> dict[str, object]:
        """Give it as plain values, for a JSON file."""
        return {
            "model": self.name,
            "batch": self.batch,
            "threads": self.threads,
            "shapes": {
                name: list(shape) for name, shape in self.network.shapes(self.batch).items()
            },
            "sha256": self.sha256,
            "tuned": self.network.tuned,
            "detail": self.detail,
            "engines": {
                name: {**asdict(entry), "median": entry.median, "best": entry.best}
                for name, entry in self.entries.items()
            },
        }


def order(names: Sequence[str], turn: int) -> list[str]:
    """Give the order of a round: each begins with another engine, every second runs backwards."""
    shift = turn % len(names) if names else 0
    turned = [*names[shift:], *names[:shift]]
    return turned[::-1] if turn % 2 else turned


def difference(outputs: Sequence[Array], expected: Sequence[Array]) -> tuple[float | None, str]:
    """Compare outputs with those of the reference.

    Returns
    -------
    float or None
        The largest error among the outputs, as `Entry.error` has it.
    str
        What is wrong with them; empty if they are right.
    """
    if len(outputs) != len(expected):
        return None, f"{len(outputs)} outputs, expected {len(expected)}"
    worst = 0.0
    for index, (got, wanted) in enumerate(zip(outputs, expected, strict=True)):
        if got.shape != wanted.shape:
            return None, f"output {index} is {got.shape}, expected {wanted.shape}"
        if not np.isfinite(got).all():
            return None, f"output {index} is not finite"
        if got.size:
            scale = float(np.abs(wanted).max()) or 1.0
            error = np.abs(got.astype(np.float64) - wanted.astype(np.float64)).max()
            worst = max(worst, float(error) / scale)
    return worst, f"off by {worst:.2g} of the largest value" if worst > TOLERANCE else ""


class Bench:
    """The settings that all cases of a run share.

    Parameters
    ----------
    engines : sequence of type of Engine
        To be timed.
    reference : type of Engine
        The engine whose outputs theirs are compared with.
    settings : Settings
    judge : callable, optional
        Compares outputs with the reference's.
    """

    def __init__(
        self,
        engines: Sequence[type[Engine]],
        reference: type[Engine],
        settings: Settings,
        judge: Judge = difference,
    ) -> None:
        self.engines = engines
        self.reference = reference
        self.settings = settings
        self.judge = judge

    def measure(self, case: Case, path: Path, cpus: Sequence[int], folder: Path, say: Say) -> None:
        """Measure a case; each result is written into it at once.

        Parameters
        ----------
        case : Case
            Filled.
        path : Path
            The model.
        cpus : sequence of int
            Those that workers may run on.
        folder : Path
            For files that nobody needs afterwards.
        say : callable
            Told what is being done.
        """
        if case.batch > 1 and not case.network.batched:
            case.detail = "its graph is written for a batch of 1"
            return
        shapes = case.network.shapes(case.batch)
        feed = folder / "feed.npz"
        inputs = case.network.feed(case.batch)
        np.savez(feed, *(inputs[name] for name in shapes))
        say("reference")
        path = fixed(path, shapes, folder)
        common = {"shapes": shapes, "threads": case.threads, "feed": str(feed)}
        try:
            with Client(self.reference, cpus) as worker:
                file = self.reference.convert(path, folder)
                worker.ask("load", path=str(file), **common)
                expected = outputs(worker, folder)
        except WorkerError as error:
            case.detail = f"the reference failed: {error}"
            return
        with ExitStack() as stack:
            workers: dict[str, Client] = {}
            for engine in self.engines:
                say(f"{engine.name}: session")
                entry = case.entries[engine.name] = Entry()
                try:
                    file = engine.convert(path, folder)
                except (RuntimeError, OSError) as error:
                    entry.fail("failed", f"{error}")
                    continue
                worker = stack.enter_context(Client(engine, cpus))
                with _noted(entry):
                    answer = worker.ask("load", path=str(file), **common)
                    for name, value in answer.items():
                        setattr(entry, name, value)
                    self._check(entry, worker, expected, folder)
                if entry.status == "ok":
                    workers[engine.name] = worker
            self._rounds(case, workers, say)
            for name, worker in workers.items():
                entry = case.entries[name]
                if entry.status != "ok":
                    continue
                say(f"{name}: checked again")
                with _noted(entry):
                    self._check(entry, worker, expected, folder)
                    entry.second_seconds = worker.ask("second")["second_seconds"]

    def _check(self, entry: Entry, worker: Client, expected: Sequence[Array], folder: Path) -> None:
        error, wrong = self.judge(outputs(worker, folder), expected)
        if error is not None:
            entry.error = max(error, entry.error or 0.0)
        if wrong:
            entry.fail("wrong", wrong)
        else:
            entry.status = "ok"

    def _rounds(self, case: Case, workers: Mapping[str, Client], say: Say) -> None:
        settings = self.settings
        for turn in range(settings.rounds):
            for name in order(list(workers), turn):
                entry = case.entries[name]
                if entry.status != "ok":
                    continue
                say(f"round {turn + 1}/{settings.rounds}: {name}")
                with _noted(entry):
                    answer = workers[name].ask(
                        "visit",
                        min_seconds=settings.min_seconds,
                        settle_seconds=settings.settle_seconds,
                    )
                    entry.rounds.append(answer["seconds"])


@contextmanager
def _noted(entry: Entry) -> Iterator[None]:
    """Turn a worker's failure into the entry's status."""
    try:
        yield
    except WorkerError as error:
        entry.fail("failed", str(error))


def outputs(worker: Client, folder: Path) -> list[Array]:
    """Have a worker run its network once more; give the outputs, through a file in `folder`."""
    path = folder / "outputs.npz"
    worker.ask("outputs", path=str(path))
    with np.load(path) as arrays:
        return [arrays[f"arr_{index}"] for index in range(len(arrays.files))]
