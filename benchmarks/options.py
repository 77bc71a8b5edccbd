"""Options that the tools share: what to run, on how many threads, for how long, to which file."""

from __future__ import annotations

import argparse
import datetime
import shlex
from collections.abc import Sequence
from pathlib import Path

from benchmarks.candidates import silenced
from benchmarks.engines import choose
from benchmarks.engines.base import Availability, Engine
from benchmarks.timing import Settings

# Longer than any engine's workers were seen to spin after a call (OpenBLAS: some 130 ms).
SETTLE_SECONDS = 0.5


def words(text: str) -> list[str]:
    """Split ``a,b``."""
    return [word.strip() for word in text.split(",") if word.strip()]


def counts(text: str) -> list[int]:
    """Split ``1,2`` into positive integers."""
    try:
        numbers = [int(word) for word in words(text)]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected numbers of threads, such as 1,2")
    return numbers


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


def add_timing(parser: argparse.ArgumentParser, rounds: int = 5) -> None:
    """Add ``--rounds`` and ``--min-ms``."""
    parser.add_argument("--rounds", type=positive, default=rounds, help="visits of each engine")
    parser.add_argument(
        "--min-ms",
        type=milliseconds,
        default=0.02,
        metavar="MS",
        help="what the calls of one visit last together, at least (default 20)",
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


def find_engines(names: Sequence[str]) -> list[tuple[Engine, Availability]]:
    """Look for the named engines (none: all) and tell which ones are there.

    Raises
    ------
    ValueError
        If a name is unknown.
    """
    chosen = choose(names)
    with silenced():
        return [(engine, engine.available()) for engine in chosen]


def command_line(module: str, arguments: Sequence[str]) -> str:
    """Give the command that repeats this run."""
    return shlex.join(["python", "-m", module, *arguments])


def now() -> str:
    """Give date and time, with the time zone."""
    return datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")


def method(settings: Settings) -> str:
    """Describe how was measured, for a reader of the report."""
    return (
        f"engines in turn, {settings.rounds} rounds; a round is the median of calls that last "
        f"{settings.min_seconds * 1e3:g} ms or more together; the best round counts; with several "
        "threads, an engine's turn begins when the workers of the one before have stopped spinning"
    )
