"""Options that the tools share: what to run, on how many threads, for how long, to which file."""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from benchmarks.candidates import silenced
from benchmarks.engines import choose
from benchmarks.engines.base import Availability, Engine
from benchmarks.timing import Settings

Number = TypeVar("Number", int, float)

# Longer than any engine's workers were seen to spin after a call (OpenBLAS: some 130 ms).
SETTLE_SECONDS = 0.5

# How to get what is missing.
HOW = (
    "`make bench BENCH_EXTRAS=peers`, or `pip install '.[peers]'` in a clone, installs the peers:\n"
    "some gigabytes, most of them PyTorch's."
)

# Values of ``search=`` of `pplconv.Conv2d`, by rising cost.
SEARCHES = ("estimate", "measure", "exhaustive")
# Ways to prepare it; those that end in "-cold" go with ``search_context="cold"``.
WAYS = ("estimate", "measure", "measure-cold", "exhaustive", "exhaustive-cold")


def words(text: str) -> list[str]:
    """Split ``a,b``."""
    return [word.strip() for word in text.split(",") if word.strip()]


def some_of(known: Collection[str]) -> Callable[[str], list[str]]:
    """Make the reader of a list of `known` words."""

    def read(text: str) -> list[str]:
        found = words(text)
        if not found or not set(found) <= set(known):
            raise argparse.ArgumentTypeError(f"{text!r}: expected some of {','.join(known)}")
        return found

    return read


def integers(what: str) -> Callable[[str], list[int]]:
    """Make the reader of a list of positive integers, as `numbers` does."""
    return numbers(int, lambda number: number >= 1, what)


def numbers(
    kind: Callable[[str], Number], fits: Callable[[Number], bool], what: str
) -> Callable[[str], list[Number]]:
    """Make the reader of a list of numbers that fit; complaints say `what` is expected."""

    def read(text: str) -> list[Number]:
        try:
            found = [kind(word) for word in words(text)]
        except ValueError:
            found = []
        if not found or not all(map(fits, found)):
            raise argparse.ArgumentTypeError(f"{text!r}: expected {what}")
        return found

    return read


counts = integers("numbers of threads, such as 1,2")
batches = integers("sizes of batches, such as 1,8")
# Beyond a hundredth, the check of a result would let anything pass.
_tolerances = numbers(float, lambda x: 0.0 <= x <= 0.01, "numbers from 0 to 0.01, such as 1e-5")


def tolerances(text: str) -> list[float]:
    """Split ``1e-5,1e-4``; the smallest first."""
    return sorted(set(_tolerances(text)))


def searches(text: str) -> list[str]:
    """Split ``estimate,measure``."""
    # The estimate first: it cannot take a plan that is measured later.
    return sorted(set(some_of(WAYS)(text)), key=WAYS.index)


def positive(text: str) -> int:
    """Read an integer of at least 1."""
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected an integer of at least 1")
    return number


def milliseconds(text: str) -> float:
    """Read a time in ms (gives seconds)."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r}: expected milliseconds, more than 0")
    return value / 1e3


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add ``--nets`` and ``--layers``."""
    parser.add_argument("--nets", type=words, default=[], help="networks, such as resnet_50,vgg_19")
    parser.add_argument(
        "--layers", default="", metavar="REGEX", help="searched in net:layer and in the class"
    )


def add_engines(
    parser: argparse.ArgumentParser, known: Iterable[str], default: Sequence[str] = ()
) -> None:
    """Add ``--engines``."""
    parser.add_argument(
        "--engines", type=words, default=list(default), help=f"some of {','.join(known)}"
    )


def add_threads(parser: argparse.ArgumentParser, default: Sequence[int] = (1,)) -> None:
    """Add ``--threads``, sizes of teams."""
    parser.add_argument(
        "--threads",
        type=counts,
        default=list(default),
        metavar="N,N",
        help=f"sizes of the team, default {','.join(map(str, default))}",
    )


def add_batch(parser: argparse.ArgumentParser, default: Sequence[int] = (1,)) -> None:
    """Add ``--batch``."""
    parser.add_argument(
        "--batch", type=batches, default=list(default), help="sizes of batches, such as 1,8"
    )


def add_search(parser: argparse.ArgumentParser) -> None:
    """Add ``--search``."""
    parser.add_argument(
        "--search",
        type=searches,
        default=[],
        help=f"pplconv once with each of {','.join(WAYS)}, in the same run",
    )


def add_variants(parser: argparse.ArgumentParser) -> None:
    """Add ``--search`` and ``--tolerance``."""
    add_search(parser)
    parser.add_argument(
        "--tolerance",
        type=tolerances,
        default=[],
        help="pplconv once with each of them, such as 1e-5,1e-4",
    )


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Add ``--cache``."""
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="DIR",
        help="folder that keeps the models (default: the user's cache folder)",
    )


def add_timing(parser: argparse.ArgumentParser, rounds: int = 5, min_seconds: float = 0.02) -> None:
    """Add ``--rounds`` and ``--min-ms``."""
    parser.add_argument("--rounds", type=positive, default=rounds, help="visits of each engine")
    parser.add_argument(
        "--min-ms",
        type=milliseconds,
        default=min_seconds,
        metavar="MS",
        help=f"what the calls of one visit last together, at least (default {1e3 * min_seconds:g})",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add ``--markdown`` and ``--json``."""
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the report there too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")


def settings_of(options: argparse.Namespace, threads: int) -> Settings:
    """Make the settings of the timing core."""
    return Settings(
        rounds=options.rounds,
        min_seconds=options.min_ms,
        settle_seconds=SETTLE_SECONDS if threads > 1 else 0.0,
    )


def find_engines(
    names: Sequence[str], searches: Sequence[str] = (), tolerances: Sequence[float] = ()
) -> list[tuple[Engine, Availability]]:
    """Look for the named engines (none: all) and tell which ones are there.

    pplconv comes once for each of `searches` and `tolerances`, as `benchmarks.engines.choose` says.

    Raises
    ------
    ValueError
        If a name is unknown.
    """
    return availability(choose(names, searches, tolerances))


def availability(engines: Iterable[Engine]) -> list[tuple[Engine, Availability]]:
    """Tell which engines are there; libraries that are loaded for it print nothing."""
    with silenced():
        return [(engine, engine.available()) for engine in engines]


def installed(
    parser: argparse.ArgumentParser, found: Sequence[tuple[Engine, Availability]]
) -> list[Engine]:
    """Give the engines that are installed, and say first which peers are missing.

    With none the parser says why, and ends the process.
    """
    engines = [engine for engine, availability in found if availability.ok]
    if not engines:
        reasons = "; ".join(f"{engine.name}: {absent.reason}" for engine, absent in found)
        parser.error(f"none of the engines is installed: {reasons}")
    missing = [engine.name for engine, availability in found if not availability.ok]
    if missing:
        print(f"not installed, so not compared with: {', '.join(missing)}.\n{HOW}", file=sys.stderr)
    return engines


def command_line(module: str, arguments: Sequence[str] | None) -> str:
    """Give the command that repeats this run, whose arguments are the process's own if None."""
    return shlex.join(["python", "-m", module, *(sys.argv[1:] if arguments is None else arguments)])


def now() -> str:
    """Give date and time, with the time zone."""
    return datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")


def method(settings: Settings, counts: str = "the best round counts") -> str:
    """Describe the method, for a reader; `counts` says how rounds become one figure."""
    return (
        f"engines in turn, {settings.rounds} rounds; a round is the median of calls that last "
        f"{settings.min_seconds * 1e3:g} ms or more together; {counts}; with several "
        "threads, an engine's turn begins when the workers of the one before have stopped spinning"
    )
