"""``python -m pplconv profile``: what each step of a network takes, as a table and as a page."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _version, planner
from ..machine import current as current_machine
from ..wisdom import files
from .ending import carry_out
from .inputs import add_shapes, check_writable, positive, random_feed

if TYPE_CHECKING:
    from ..network.session import InferenceSession
    from .progress import Progress

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
    """Profile what the command line names.

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
    progress.step(0.5, "timing the steps")
    plan = session.profile(feed, repeats=options.repeats)
    progress.step(0.7, "timing whole runs")
    seconds = _whole_run(session, feed, options.repeats)
    written: list[tuple[Path, str]] = []
    if options.html or options.json:
        from .profiling.ceilings import measure
        from .profiling.measured import Profile, record
        from .profiling.page import page

        progress.step(0.8, "measuring peak and bandwidths")
        machine = current_machine()
        ceilings = measure(
            planner.default_context("f32").isa, planner.share(options.threads), machine
        )
        profile = Profile(
            Path(options.model).name, plan, seconds, ceilings, machine.cpu_name or machine.arch,
            _version.__version__,
        )  # fmt: skip
        if options.html:
            written.append((options.html, page(profile)))
        if options.json:
            written.append((options.json, json.dumps(record(profile), indent=1) + "\n"))
    for path, content in written:
        files.replace(os.path.realpath(path), content.encode(), 0o666)
    progress.clear()
    print(plan)
    print(f"whole run: {seconds * 1e3:.3f} ms")
    for path, _ in written:
        print(f"written: {path}")


def _whole_run(session: InferenceSession, feed: Mapping[str, Any], repeats: int) -> float:
    out = session.run(None, feed)
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        session.run(None, feed, out=out)
        best = min(best, time.perf_counter() - begin)
    return best
