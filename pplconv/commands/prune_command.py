"""``python -m pplconv prune``: what the layers of a network would gain if they were pruned."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..sparsity import BLOCKS
from ..wisdom import wisdom_files
from .ending import carry_out
from .inputs import add_shapes, check_writable, positive, random_feed

if TYPE_CHECKING:
    from ..drawing.progress_bar import Progress
    from ..network.pruning import PrunedLayer
    from ..network.report import NetworkPlan, StepPlan
    from ..network.session import InferenceSession

DESCRIPTION = """\
Prune the weights of an ONNX network by magnitude, and print what each layer would gain.
Convolutions and products by known matrices keep a share of their weights, in blocks of neighbouring
output channels; depthwise convolutions stay dense. This is for trying: a network that is to be used
is pruned while it is trained. Sizes that the model leaves open are said with --shape."""


@dataclass(frozen=True)
class _Measured:
    """Seconds of each layer, and of whole runs, in that order with all weights and without zeros.

    Parameters
    ----------
    layers : list of (float or None, float or None)
        None where a layer has no step of its own.
    runs : (float, float)
        Of the network.
    """

    layers: list[tuple[float | None, ...]]
    runs: tuple[float, float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line to `parser`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = DESCRIPTION
    parser.add_argument("model", metavar="MODEL", help="an ONNX file")
    parser.add_argument(
        "--density", type=_density, required=True, metavar="D",
        help="share of each layer's weights that stays, such as 0.25",
    )  # fmt: skip
    parser.add_argument(
        "--block", type=int, choices=BLOCKS, default=4,
        help="output channels that are pruned together (default 4)",
    )  # fmt: skip
    add_shapes(parser)
    parser.add_argument("--threads", type=positive, metavar="N", help="size of the team")
    parser.add_argument(
        "--measure", action="store_true",
        help="time each layer, with all weights and without zeros, instead of estimating alone",
    )  # fmt: skip
    parser.add_argument(
        "--repeats", type=positive, default=10, metavar="N",
        help="runs of each, of which the shortest counts (default 10)",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write the pruned network"
    )


def run(options: argparse.Namespace) -> int:
    """Prune the network of the command line.

    Parameters
    ----------
    options : Namespace
        As `add_arguments` describes them.

    Returns
    -------
    int
        Exit status: 0; 2 if the model cannot run, an argument is at fault or the file cannot be
        written; 130 if interrupted.
    """
    return carry_out("prune", lambda progress: _prune(options, progress))


def _prune(options: argparse.Namespace, progress: Progress) -> None:
    from ..network.opening import require_onnx
    from ..network.session import InferenceSession

    require_onnx()
    # Before minutes are spent.
    check_writable(options.output)
    import onnx

    from ..network.loading import load
    from ..network.pruning import prune_model, steps_of

    progress.step(0.0, f"reading {options.model}")
    load(options.model)  # raises with a clear message if something is wrong
    model = onnx.load(options.model)
    progress.step(0.1, "pruning")
    layers = prune_model(
        model, options.density, options.block,
        lambda share, text: progress.update(0.1 + 0.3 * share, f"pruning {text}"),
    )  # fmt: skip
    content = _written(model) if options.output else b""
    progress.step(0.4, "planning")
    session = InferenceSession(model, threads=options.threads)
    feed = random_feed(session.get_inputs(), dict(options.shape))
    steps = steps_of(layers, session.plan_for(feed))
    measured = None
    if options.measure:
        progress.step(0.6, "timing the layers")
        dense = InferenceSession(model, threads=options.threads, sparse=False)
        profiles, runs = _measure((dense, session), feed, options.repeats, progress)
        seconds = [[s.seconds if s else None for s in steps_of(layers, p)] for p in profiles]
        measured = _Measured(list(zip(*seconds, strict=True)), runs)
    if options.output:
        wisdom_files.replace(os.path.realpath(options.output), content, 0o666)
    progress.clear()
    _print_table(layers, steps, measured)
    if options.output:
        print(f"written: {options.output}")


def _written(model: Any) -> bytes:
    try:
        content: bytes = model.SerializeToString()
    except Exception as error:  # protobuf's errors have no class of their own
        raise ValueError(f"the pruned network cannot be written in one file: {error}") from error
    return content


def _measure(
    sessions: tuple[InferenceSession, InferenceSession],
    feed: Mapping[str, Any],
    repeats: int,
    progress: Progress,
) -> tuple[list[NetworkPlan], tuple[float, float]]:
    """Time both networks in turns, so that a slow moment of the machine meets both.

    Gives their steps with the shortest times, and the shortest whole runs.
    """
    best: list[NetworkPlan | None] = [None, None]
    runs = [float("inf"), float("inf")]
    for repeat in range(repeats):
        progress.update(0.6 + 0.4 * repeat / repeats, f"timing the layers, {repeat + 1}/{repeats}")
        for which, session in enumerate(sessions):
            best[which] = _shortest(best[which], session.profile(feed, repeats=1))
            begin = time.perf_counter()
            session.run(None, feed)
            runs[which] = min(runs[which], time.perf_counter() - begin)
    return [plan for plan in best if plan is not None], (runs[0], runs[1])


def _shortest(before: NetworkPlan | None, now: NetworkPlan) -> NetworkPlan:
    """Give a profile with the shorter of two times for each step."""
    if before is None:
        return now
    steps = (
        min(pair, key=lambda step: step.seconds or 0.0)
        for pair in zip(before.steps, now.steps, strict=True)
    )
    return replace(now, steps=tuple(steps))


def _print_table(
    layers: list[PrunedLayer], steps: list[StepPlan | None], measured: _Measured | None
) -> None:
    header = ["layer", "weights", "block", "density", "norm", "predicted", "computed by"]
    if measured is not None:
        header += ["dense ms", "pruned ms", "measured"]
    rows = [header]
    for number, (layer, step) in enumerate(zip(layers, steps, strict=True)):
        plan = None if step is None else step.plan
        gain = None if plan is None else plan.predicted_gain
        row = [
            layer.name, "x".join(map(str, layer.shape)), f"1x{layer.sparsity.block}",
            f"{layer.sparsity.share:.3f}", f"{layer.norm:.3f}",
            "" if gain is None else f"{gain:.2f}x",
            "no step of its own" if plan is None else plan.algorithm,
        ]  # fmt: skip
        if measured is not None:
            before, after = measured.layers[number]
            row += [
                "" if seconds is None else f"{1e3 * seconds:.4g}" for seconds in (before, after)
            ]
            row.append(f"{before / after:.2f}x" if before and after else "")
        rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    left = {0, 1, 6}
    for row in rows:
        cells = (
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join(cells).rstrip())
    sparse = sum(step is not None and step.leaves_zeros_out for step in steps)
    print(f"\nlayers pruned: {len(layers)}, {sparse} of which leave zeros out")
    if measured is not None:
        before, after = measured.runs
        print(
            f"whole run: {1e3 * before:.4g} ms with all weights, {1e3 * after:.4g} ms without "
            f"zeros, {before / after:.2f}x"
        )


def _density(words: str) -> float:
    try:
        value = float(words)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{words!r}: expected a number from 0 to 1")
    return value
