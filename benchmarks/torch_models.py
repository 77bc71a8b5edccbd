"""What `pplconv.integrations.torch.accelerate` gains on whole modules.

``python -m benchmarks.torch_models --help``. PyTorch eager, in both memory formats, compiled where
it can be, and accelerated, with and without fusing, are timed in turns in one process, with as many
threads each; every output is checked against the session of the file that the weights are from.
"""

from __future__ import annotations

import argparse
import copy
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import pplconv
from benchmarks import options
from benchmarks.networks.models import NETWORKS, Network, fixed, obtain
from benchmarks.networks.run import cache_folder
from benchmarks.report import conditions
from benchmarks.tables import Table, milli, ratio
from benchmarks.timing import Timing, interleave
from benchmarks.tool import Run, command, new_parser
from benchmarks.torch_networks import MODULES, with_weights_of
from examples.models.progress import Progress as Steps
from pplconv.integrations.torch import accelerate

EAGER = ("torch", "torch, channels_last")
Call = Callable[[], Any]
# Of probabilities, whose largest is 1: Winograd's 1e-5 a layer grows from layer to layer.
TOLERANCE = 1e-3


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.torch_models", __doc__)
    parser.add_argument("--models", type=options.some_of(MODULES), default=list(MODULES))
    options.add_threads(parser, [1, 2])
    options.add_batch(parser, [1, 8])
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    options.add_cache(parser)
    options.add_timing(parser, rounds=7, min_seconds=0.2)
    options.add_output(parser)
    return parser


def variants(
    module: torch.nn.Module, x: torch.Tensor, threads: int, compiled: bool
) -> dict[str, Call]:
    """Make a call of each variant of a module.

    Parameters
    ----------
    module : torch.nn.Module
        Copied for each.
    x : torch.Tensor
        The input.
    threads : int
        Of each team.
    compiled : bool
        Whether torch.compile is among them.

    Returns
    -------
    dict of str to callable
    """

    def call(each: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Call:
        def run() -> Any:
            with torch.inference_mode():
                return each(x)

        return run

    last = x.contiguous(memory_format=torch.channels_last)
    made = {"torch": call(module, x)}
    if compiled:
        made["torch.compile"] = call(torch.compile(copy.deepcopy(module)), x)
    in_last = copy.deepcopy(module).to(memory_format=torch.channels_last)
    made["torch, channels_last"] = call(in_last, last)
    for fuse in (False, True):
        for name, given, each in (("", x, module), (", channels_last", last, in_last)):
            ours = accelerate(copy.deepcopy(each), fuse=fuse, threads=threads)
            made[f"accelerate{', fuse' if fuse else ''}{name}"] = call(ours, given)
    return made


def checked(
    calls: Mapping[str, Call], want: np.ndarray[Any, Any]
) -> tuple[dict[str, Call], list[str]]:
    """Leave out variants that fail or are wrong, and say so."""
    right, notes = {}, []
    for name, call in calls.items():
        try:
            error = float(np.abs(call().numpy() - want).max() / np.abs(want).max())
        except Exception as why:  # a compiler that is not there, for one
            notes.append(f"{name} is left out: {type(why).__name__}: {str(why).splitlines()[0]}")
            continue
        if error <= TOLERANCE:
            right[name] = call
        else:
            notes.append(f"{name} is left out: it is {error:.1e} from the file's session")
    return right, notes


def measured(
    name: str, network: Network, path: Path, batch: int, threads: int, chosen: argparse.Namespace
) -> tuple[dict[str, Timing], list[str]]:
    """Time all variants of one module, and the session of its file."""
    import onnx

    torch.set_num_threads(threads)
    module = with_weights_of(MODULES[name](), onnx.load(str(path)))
    feed = network.feed(batch)
    (array,) = feed.values()
    with tempfile.TemporaryDirectory() as folder:
        file = fixed(path, network.shapes(batch), Path(folder))
        session = pplconv.InferenceSession(file, threads=threads)
    (want,) = session.run(None, feed)
    calls, notes = checked(
        variants(module, torch.from_numpy(array), threads, not chosen.no_compile), want
    )
    calls["pplconv.InferenceSession"] = lambda: session.run(None, feed)
    return interleave(calls, options.settings_of(chosen, threads)), notes


def table_of(title: str, timings: Mapping[str, Timing]) -> Table:
    """Times of all variants, and how many times as fast as PyTorch's faster format each is."""
    table = Table(title, ["variant", "ms", "worst round", "gain over torch"])
    eager = min(timings[name].best for name in EAGER if name in timings)
    for name, timing in timings.items():
        table.add([
            name, milli(timing.best), milli(max(timing.rounds)), ratio(eager, timing.best),
        ])  # fmt: skip
    return table


@command(_parser)
def main(run: Run) -> int:
    """Measure, and give the exit status."""
    chosen = run.chosen
    cases = [(n, b, t) for t in chosen.threads for n in chosen.models for b in chosen.batch]
    found: dict[str, dict[str, Timing]] = {}
    with run.steps(len(cases)) as progress:
        for name, batch, threads in cases:
            title = f"{name}, batch {batch}, {conditions(1, threads)}"
            progress.begin(title)
            network = NETWORKS[name]
            (path,) = obtain([network], cache_folder(chosen.cache), Steps(sys.stderr))
            found[title], left_out = measured(name, network, path, batch, threads, chosen)
            run.notes += [f"{title}: {note}" for note in left_out]
    made = [table_of(title, timings) for title, timings in found.items()]
    plain = {
        title: {each: timing.rounds for each, timing in timings.items()}
        for title, timings in found.items()
    }
    head = run.head(more={"PyTorch": torch.__version__})
    return run.publish(head, made, {"seconds": plain})


if __name__ == "__main__":
    sys.exit(main())
