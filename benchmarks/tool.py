"""The frame of every benchmark: its command line, its steps, its report.

A benchmark says what its cases, engines and columns are. It makes a parser by `new_parser` and the
options of `benchmarks.options`, and decorates the function that measures with `command`, which
hands it a `Run`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import Protocol

from benchmarks import machine, options, wisdom
from benchmarks.engines.base import Availability, Engine
from benchmarks.report import Head, publish
from benchmarks.runner import Progress
from benchmarks.tables import Table

# The status that a shell reports for a command that Ctrl-C ended.
INTERRUPTED = 130

_PREFIX = "python -m "


def new_parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """Make the parser of ``python -m module``; its description keeps its line breaks."""
    return argparse.ArgumentParser(
        prog=_PREFIX + module,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def versions(*modules: str) -> list[str]:
    """Name the versions of the peers among `modules` that this process has imported."""
    found = [
        f"{name} {getattr(sys.modules[name], '__version__', None) or metadata.version(name)}"
        for name in modules
        if name in sys.modules
    ]
    return found or ["no peer is installed"]


class Run:
    """One run of a benchmark.

    Parameters
    ----------
    parser : ArgumentParser
    arguments : sequence of str or None
        The process's own if None.

    Attributes
    ----------
    chosen : Namespace
        The options.
    notes : list of str
        What a reader of the report must know.
    interrupted : bool
        Whether Ctrl-C ended the steps.
    """

    def __init__(self, parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> None:
        self.parser = parser
        self.chosen = parser.parse_args(arguments)
        self.notes: list[str] = []
        self.interrupted = False
        self.command = options.command_line(parser.prog.removeprefix(_PREFIX), arguments)

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """End the process with the text of a `ValueError`, as the parser does at a wrong option."""
        try:
            yield
        except ValueError as error:
            self.parser.error(str(error))

    @contextmanager
    def steps(self, total: int, otherwise: str = "figures are partial") -> Iterator[Progress]:
        """Show the progress of `total` steps; after Ctrl-C go on with what was measured.

        Parameters
        ----------
        total : int
        otherwise : str
            Consequence of an interrupt for the figures.
        """
        progress = Progress(total)
        try:
            yield progress
        except KeyboardInterrupt:
            self.interrupted = True
            self.notes.append(f"interrupted in step {progress.step} of {total}: {otherwise}")
        finally:
            progress.end()

    def head(
        self,
        method: str = "",
        engines: Sequence[tuple[Engine, Availability]] = (),
        notes: Sequence[str] = (),
        more: Mapping[str, str] | None = None,
    ) -> Head:
        """Make the head of the report.

        Parameters
        ----------
        method : str, optional
            How times were measured; by default the text of `benchmarks.options.method`.
        engines : sequence of (Engine, Availability), optional
        notes : sequence of str, optional
            They follow the notes of the run.
        more : mapping of str to str, optional
            Lines that follow those about the machine.
        """
        return Head(
            date=options.now(),
            command=self.command,
            machine={**machine.describe(), **(more or {})},
            engines=engines,
            method=method or options.method(options.settings_of(self.chosen, 1)),
            notes=[*self.notes, *notes],
        )

    def publish(self, head: Head, made: Sequence[Table], figures: Mapping[str, object]) -> int:
        """Print the report, write the files that were asked for, and give the exit status."""
        plain = {"command": head.command, **figures}
        publish(head, made, plain, self.chosen.markdown, self.chosen.json)
        return INTERRUPTED if self.interrupted else 0


class Main(Protocol):
    """The `main` of a benchmark."""

    def __call__(self, arguments: Sequence[str] | None = None) -> int:
        """Run the command line, the process's own by default; give the exit status."""


def command(
    parser: Callable[[], argparse.ArgumentParser],
) -> Callable[[Callable[[Run], int]], Main]:
    """Turn the function that measures into the `main` of its module; its run has no wisdom.

    Parameters
    ----------
    parser : callable
        Makes the parser.
    """

    def decorate(measure: Callable[[Run], int]) -> Main:
        def main(arguments: Sequence[str] | None = None) -> int:
            with wisdom.private():
                return measure(Run(parser(), arguments))

        return main

    return decorate
