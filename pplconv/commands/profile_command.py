"""``python -m pplconv profile``: what each step of a network takes, as a table and as a page."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..wisdom import wisdom_files
from .ending import carry_out
from .inputs import add_shapes, check_writable, positive, random_feed

if TYPE_CHECKING:
    from ..drawing.progress_bar import Progress

DESCRIPTION = """\
Time each step of an ONNX network by itself, on random inputs, and print a table of them.
Sizes that the model leaves open are said with --shape. --html draws a page: steps and memory over
time, a roofline with the peak and the bandwidths of this machine, kinds of steps and layouts."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line to `parser`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = DESCRIPTION
    parser.add_argument("model", metavar="MODEL", help="an ONNX file")
    add_shapes(parser)
    parser.add_argument("--threads", type=positive, metavar="N", help="size of the team")
    parser.add_argument(
        "--repeats", type=positive, default=10, metavar="N",
        help="runs, of which the shortest counts (default 10)",
    )  # fmt: skip
    parser.add_argument("--html", type=Path, metavar="FILE", help="draw a page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")


def run(options: argparse.Namespace) -> int:
    """Profile the network of the command line.

    Parameters
    ----------
    options : Namespace
        As `add_arguments` describes them.

    Returns
    -------
    int
        Exit status: 0; 2 if the model cannot run, an argument is at fault or a file cannot be
        written; 130 if interrupted.
    """
    return carry_out("profile", lambda progress: _profile(options, progress))


def _profile(options: argparse.Namespace, progress: Progress) -> None:
    from ..network.session import InferenceSession

    # Before minutes are spent.
    for path in (options.html, options.json):
        check_writable(path)
    if options.html and options.json and options.html.absolute() == options.json.absolute():
        raise ValueError(f"--html and --json name the same file, {options.html}")
    progress.step(0.0, f"reading {options.model}")
    session = InferenceSession(options.model, threads=options.threads)
    feed = random_feed(session.get_inputs(), dict(options.shape))
    progress.step(0.2, "compiling")
    session.plan_for(feed)
    progress.step(0.5, "timing the steps and whole runs")
    plan = session.profile(feed, repeats=options.repeats)
    written: list[tuple[Path, str]] = []
    if options.html or options.json:
        progress.step(0.8, "measuring peak and bandwidths")
        if options.html:
            written.append((options.html, plan.html()))
        if options.json:
            written.append((options.json, json.dumps(plan.record(), indent=1) + "\n"))
    for path, content in written:
        wisdom_files.replace(os.path.realpath(path), content.encode(), 0o666)
    progress.clear()
    print(plan)
    for path, _ in written:
        print(f"written: {path}")
