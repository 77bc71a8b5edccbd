"""``python -m pplconv compile``: a network with its plans and packed weights in one file."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from .. import config, planner
from ..arguments.checks import PRECISIONS
from ..machine import current as current_machine
from .ending import carry_out
from .inputs import add_shapes, check_writable, positive, random_feed

if TYPE_CHECKING:
    from ..drawing.progress_bar import Progress

DESCRIPTION = """\
Compile an ONNX network, and keep it in a file that opens in milliseconds, without ONNX: programs
for the shapes that are said, plans and packed weights. InferenceSession, serve and pools take it
like a model. --shape with the name of an input a second time begins another program. The file is
for this version of pplconv, and for CPUs with the instruction set that --for names."""

# The levels of the x86-64 ABI, by our names of their vectors.
_LEVELS = {"x86-64": "portable", "x86-64-v2": "portable", "x86-64-v3": "avx2",
           "x86-64-v4": "avx512"}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line to `parser`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = DESCRIPTION
    parser.add_argument("model", metavar="MODEL", help="an ONNX file")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE",
        help="where to write; by default beside the model, as *.pplconv",
    )  # fmt: skip
    add_shapes(parser)
    parser.add_argument(
        "--precision", choices=[word for word in PRECISIONS if word], default="auto",
        help="as of InferenceSession (default auto)",
    )  # fmt: skip
    parser.add_argument(
        "--search", choices=planner.SEARCHES, default="estimate",
        help="how plans are made (default estimate)",
    )  # fmt: skip
    parser.add_argument("--threads", type=positive, metavar="N", help="size of the team")
    parser.add_argument(
        "--for", dest="level", default="host", metavar="LEVEL",
        help=f"highest instruction set: host, {', '.join(_LEVELS)}, or a name that "
        "PPLCONV_MAX_ISA takes (default host)",
    )  # fmt: skip
    parser.add_argument(
        "--portable", action="store_true",
        help="keep the network itself, too, for other shapes and CPUs",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Compile the network of the command line.

    Parameters
    ----------
    options : Namespace
        As `add_arguments` describes them.

    Returns
    -------
    int
        Exit status: 0; 2 if the model cannot be compiled or kept, an argument is at fault or the
        file cannot be written; 130 if interrupted.
    """
    return carry_out("compile", lambda progress: _compile(options, progress))


def _compile(options: argparse.Namespace, progress: Progress) -> None:
    output = options.output or Path(options.model).with_suffix(".pplconv")
    # Before seconds are spent.
    check_writable(output)
    _limit(options.level)
    from ..network.session import InferenceSession

    progress.step(0.0, f"reading {options.model}")
    session = InferenceSession(
        options.model, threads=options.threads, precision=options.precision,
        search=options.search, progress=progress.update,
    )  # fmt: skip
    inputs = session.get_inputs()
    feeds = [random_feed(inputs, shapes) for shapes in _programs(options.shape)]
    for number, feed in enumerate(feeds):
        progress.step(number / len(feeds), "planning and packing")
        session.plan_for(feed)
    progress.step(1.0, f"writing {output}")
    session.save(output, feeds, portable=options.portable)
    progress.clear()
    size = os.path.getsize(output)
    programs = "one program" if len(feeds) == 1 else f"{len(feeds)} programs"
    print(f"written: {output}, {size / 1e6:.1f} MB, {programs}")
    print(f'open it: pplconv.InferenceSession("{output}")')


def _limit(level: str) -> None:
    """Plan for a level of the ladder, which this machine must have: packing runs its kernels.

    Raises
    ------
    ValueError
        If there is no such level, or this machine lacks it.
    """
    if level == "host":
        return
    wanted = _LEVELS.get(level, level)
    own = current_machine().isas
    if wanted not in own:
        names = ", ".join(("host", *_LEVELS, *own))
        raise ValueError(f"--for {level}: this machine packs for {names}")
    config.ask_for_isa(wanted)


def _programs(pairs: list[tuple[str, tuple[int, ...]]]) -> list[dict[str, tuple[int, ...]]]:
    """Divide shapes into those of several programs."""
    programs: list[dict[str, tuple[int, ...]]] = [{}]
    for name, shape in pairs:
        if name in programs[-1]:
            # Inputs that are not said again keep their shapes.
            programs.append(dict(programs[-1]))
        programs[-1][name] = shape
    return programs
