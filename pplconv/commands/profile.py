"""``python -m pplconv profile``: what each step of a network takes, as a table and as a page."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _version, planner
from ..machine import current as current_machine
from ..wisdom import files
from .progress import Progress

if TYPE_CHECKING:
    from ..network.interface import NodeArg
    from ..network.session import InferenceSession

DESCRIPTION = """\
Time each step of an ONNX network by itself, on random inputs, and print a table of them.
Sizes that the model leaves open are said with --shape. --html draws a page: steps and memory over
time, a roofline with the peak and the bandwidths of this machine, kinds of steps and layouts."""

_DTYPES = {"tensor(float)": "float32", "tensor(double)": "float64"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line to `parser`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = DESCRIPTION
    parser.add_argument("model", metavar="MODEL", help="an ONNX file")
    parser.add_argument(
        "--shape", type=_shape, action="append", default=[], metavar="NAME=1,3,640,640",
        help="shape of an input; once for each that has open sizes",
    )  # fmt: skip
    parser.add_argument("--threads", type=_positive, metavar="N", help="size of the team")
    parser.add_argument(
        "--repeats", type=_positive, default=10, metavar="N",
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
    progress = Progress(sys.stderr)
    try:
        _profile(options, progress)
    except ImportError as error:  # the extra onnx
        return _complain(progress, error)
    except (OSError, TypeError, ValueError) as error:
        return _complain(progress, error)
    except MemoryError as error:
        return _complain(progress, str(error) or "not enough memory")
    except KeyboardInterrupt:
        _complain(progress, "interrupted")
        return 130
    return 0


def _profile(options: argparse.Namespace, progress: Progress) -> None:
    from ..network.session import InferenceSession

    # Before minutes are spent.
    for path in (options.html, options.json):
        _check_writable(path)
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


def random_feed(
    inputs: Sequence[NodeArg], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, np.ndarray[Any, Any]]:
    """Make an array for each input: normal numbers, or zeros of types that are no floats.

    Parameters
    ----------
    inputs : sequence of NodeArg
        As the session lists them.
    shapes : mapping of str to tuple of int
        Shapes of those that have open sizes, and of any others.

    Returns
    -------
    dict of str to ndarray

    Raises
    ------
    ValueError
        If a size is not known, or a shape is of no input.
    """
    names = [value.name for value in inputs]
    for name in shapes:
        if name not in names:
            raise ValueError(f"--shape: the network has no input {name!r}, only {names}")
    random = np.random.default_rng(0)
    feed: dict[str, np.ndarray[Any, Any]] = {}
    for value in inputs:
        shape = shapes.get(value.name)
        if shape is None:
            known = tuple(size for size in value.shape if isinstance(size, int))
            if len(known) != len(value.shape):
                sizes = ",".join(
                    str(size) if isinstance(size, int) else "?" for size in value.shape
                )
                raise ValueError(
                    f"input {value.name!r} has open sizes: say --shape {value.name}={sizes} "
                    "with a number for each ?"
                )
            shape = known
        kind = value.type.removeprefix("tensor(").removesuffix(")")
        dtype = np.dtype(_DTYPES.get(value.type, kind))
        if dtype.kind == "f":
            feed[value.name] = random.standard_normal(shape, np.float32).astype(dtype, copy=False)
        else:
            feed[value.name] = np.zeros(shape, dtype)
    return feed


def _whole_run(session: InferenceSession, feed: Mapping[str, Any], repeats: int) -> float:
    out = session.run(None, feed)
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        session.run(None, feed, out=out)
        best = min(best, time.perf_counter() - begin)
    return best


def _check_writable(path: Path | None) -> None:
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"cannot write {path}: it is a folder")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"cannot write {path}: there is no folder {path.absolute().parent}")


def _shape(words: str) -> tuple[str, tuple[int, ...]]:
    # Names may hold "=", sizes do not.
    name, equals, sizes = words.rpartition("=")
    parts = [part.strip() for part in sizes.split(",")] if sizes.strip() else []
    if not equals or not name or not all(p.isascii() and p.isdigit() for p in parts):
        raise argparse.ArgumentTypeError(f"{words!r}: expected a name and sizes, x=1,3,640,640")
    shape = tuple(map(int, parts))
    if any(size >= 1 << 31 for size in shape):
        raise argparse.ArgumentTypeError(f"{words!r}: a size is beyond 2147483647")
    return name, shape


def _positive(words: str) -> int:
    value = int(words) if words.isascii() and words.isdigit() else 0
    if not 1 <= value <= 65536:
        raise argparse.ArgumentTypeError(f"{words!r}: expected an integer from 1 to 65536")
    return value


def _complain(progress: Progress, message: object) -> int:
    progress.clear()
    print(f"pplconv profile: {message}", file=sys.stderr, flush=True)
    return 2
