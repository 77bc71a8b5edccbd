"""``python -m pplconv bench-instances``: instances and teams of a model, measured side by side."""

from __future__ import annotations

import argparse
import functools
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..api.conv import Conv2d
from ..drawing.progress_bar import Progress
from ..instances import InstancePool
from ..instances.splitting import cores_by_node
from ..instances.statistics import percentile
from ..machine import current as current_machine
from ..memory.dtypes import DTYPES, NAMES
from ..problem import ConvProblem
from ..prune import magnitude
from .ending import complain
from .inputs import add_shapes, random_feed
from .layer_texts import read_convolutions

DESCRIPTION = """\
Measure how many requests a second instances of a model answer, and how long one takes: as one
instance of one thread, then as each split of the usable cores into instances of equal teams.
Instances are bound to cores of their own, unless there are fewer cores than threads or --no-pin
says otherwise.

A model is its layers, one after the other, each on data of its own. A layer is written as oneDNN's
benchdnn writes it: mb1ic64ih56oc64oh56kh3ph1, maybe with a name behind it, n"net:layer*4", which
here counts four times. Give such layers, files with one in each line, or one ONNX network, whose
name ends in .onnx. It is asked with numbers at random; --shape says open sizes."""

MODES = ("thread", "process")
_COUNT = re.compile(r"\*([1-9][0-9]{0,3})$")


@dataclass(frozen=True)
class Measured:
    """Measurements of one split.

    Attributes
    ----------
    mode : str
        Mode of the pool.
    instances, threads : int
        The split.
    throughput : float
        Requests a second.
    p50, p95 : float
        Seconds from a request to its answer, each instance with one at a time.
    """

    mode: str
    instances: int
    threads: int
    throughput: float
    p50: float
    p95: float


class Layers:
    """A model: layers one after the other, each with an input of its own.

    Parameters
    ----------
    problems : list of (ConvProblem, int)
        Layers, and the number of times that each occurs.
    """

    def __init__(self, problems: list[tuple[ConvProblem, int]]) -> None:
        random = np.random.default_rng(0)
        self._calls = []
        for p, count in problems:
            dtype = DTYPES[p.dtype]
            weight = random.standard_normal((p.oc, p.ic // p.groups, p.kh, p.kw)).astype(dtype)
            layout: Any = p.layout  # one of those that Conv2d names
            block = None
            if p.sparsity is not None:
                block = (1, p.sparsity.block)
                weight = magnitude(weight, p.sparsity.share, block, groups=p.groups)
            conv = Conv2d(
                weight, None, p.stride, p.padding, p.dilation, p.groups, layout=layout, block=block
            )
            data = random.standard_normal(p.input_shape).astype(dtype)
            self._calls += [(conv, data)] * count

    def __call__(self, image: Any) -> Any:
        """Compute the first layer from `image` and the others from their own; give the last."""
        (conv, _), *rest = self._calls
        result = conv(image)
        for conv, data in rest:
            result = conv(data)
        return result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line to `parser`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = DESCRIPTION
    parser.add_argument(
        "shapes", nargs="+", metavar="MODEL", help="a network, or layers, or files of layers"
    )
    add_shapes(parser)
    parser.add_argument("--dtype", choices=tuple(NAMES.values()), default="f32", help="default f32")
    parser.add_argument("--layout", choices=("NCHW", "NHWC"), default="NCHW", help="default NCHW")
    parser.add_argument(
        "--mode", choices=(*MODES, "both"), default="both", help="of the pools (default both)"
    )
    parser.add_argument(
        "--splits", type=_splits, metavar="KxT,..", help="instances x threads (default: all)"
    )
    parser.add_argument(
        "--seconds", type=_positive, default=2.0, metavar="S", help="for each split (default 2)"
    )
    parser.add_argument("--no-pin", action="store_true", help="bind no instance to its cores")


def run(options: argparse.Namespace) -> int:
    """Measure the splits of the command line.

    Parameters
    ----------
    options : Namespace
        As `add_arguments` describes them.

    Returns
    -------
    int
        Exit status: 0, 2 if something could not be read or computed, 130 if interrupted.
    """
    try:
        make_model, request = _model(options)
    except (ImportError, OSError, TypeError, ValueError) as error:
        complain("bench-instances", error)
        return 2
    cores = sum(len(own) for _, own in cores_by_node(current_machine()))
    jobs = [
        (mode, *split)
        for mode in (MODES if options.mode == "both" else (options.mode,))
        for split in options.splits or all_splits(cores)
    ]
    progress = Progress(sys.stderr)
    found: list[Measured] = []
    status = 0
    try:
        for done, (mode, instances, threads) in enumerate(jobs):
            text = f"{done + 1}/{len(jobs)} {mode} mode, {instances} x {threads}"
            progress.step(done / len(jobs), text)
            with _pool(make_model, mode, instances, threads, not options.no_pin) as pool:
                found.append(_measure(pool, request, options.seconds))
    except KeyboardInterrupt:
        progress.clear()
        complain(
            "bench-instances", f"interrupted: {len(found)} of {len(jobs)} splits were measured"
        )
        status = 130
    except (ImportError, MemoryError, OSError, ValueError) as error:
        progress.clear()
        complain("bench-instances", str(error) or "not enough memory")
        status = 2
    progress.clear()
    if found:
        print(table(found))
    return status


def all_splits(cores: int) -> list[tuple[int, int]]:
    """One instance of one thread, then the splits of `cores`: instances and threads.

    A split is left out if its idle cores suffice for one more thread in each team, or for one more
    instance.
    """
    splits = {cores // threads: cores // (cores // threads) for threads in range(1, cores + 1)}
    return list(dict.fromkeys([(1, 1), *sorted(splits.items(), reverse=True)]))


def table(found: list[Measured]) -> str:
    """Table of the splits, best first, each compared with the first one measured."""
    base = found[0]
    lines = [
        "mode     instances  threads  requests/s  "
        f"{f'vs {base.instances}x{base.threads}':>7}   p50 ms   p95 ms"
    ]
    lines += [
        f"{m.mode:<7}  {m.instances:>9}  {m.threads:>7}  {m.throughput:>10.4g}  "
        f"{m.throughput / base.throughput:>6.2f}x  {1e3 * m.p50:>7.4g}  {1e3 * m.p95:>7.4g}"
        for m in sorted(found, key=lambda m: m.throughput, reverse=True)
    ]
    return "\n".join(lines)


def _pool(
    make_model: Callable[[], Any], mode: Any, instances: int, threads: int, pin: bool
) -> InstancePool[Any]:
    """Make a pool; a split with more threads than cores can only be measured unbound."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "InstancePool: pin=True", RuntimeWarning)
        return InstancePool(
            make_model, instances, threads, mode, pin=pin, shutdown_timeout=10.0
        )  # fmt: skip


def _measure(pool: InstancePool[Any], request: Any, seconds: float) -> Measured:
    """Keep every instance busy with one request after another."""
    for future in [pool.submit(request) for _ in range(2 * len(pool))]:
        future.result()  # plans are made, weights packed, pages written
    latencies: list[float] = []
    failures: list[BaseException] = []
    over = threading.Event()
    running = threading.Semaphore(0)
    begin = time.perf_counter()
    end = begin + seconds

    def ask() -> None:
        submitted = time.perf_counter()
        pool.submit(request).add_done_callback(functools.partial(answered, submitted))

    def answered(submitted: float, future: Future[Any]) -> None:
        now = time.perf_counter()
        error = None if future.cancelled() else future.exception()
        if error is not None:
            failures.append(error)
        elif not future.cancelled():
            latencies.append(now - submitted)
            if now < end and not over.is_set():
                ask()
                return
        running.release()

    try:
        for _ in range(len(pool)):
            ask()
        for _ in range(len(pool)):
            running.acquire()
    finally:
        over.set()  # an interrupt ends the chains, too
    spent = time.perf_counter() - begin
    if failures:
        raise failures[0]
    latencies.sort()
    p50, p95 = percentile(latencies, 50), percentile(latencies, 95)
    assert p50 is not None and p95 is not None  # each chain had one answer at least
    return Measured(pool.mode, len(pool), pool.threads, len(latencies) / spent, p50, p95)


def _model(options: argparse.Namespace) -> tuple[Callable[[], Any], Any]:
    """Give a maker of the model, and a request to it."""
    networks = [text for text in options.shapes if text.endswith(".onnx")]
    if not networks:
        if options.shape:
            raise ValueError("--shape belongs to a network, and layers have their sizes")
        problems = _problems(options)
        first = problems[0][0]
        image = np.ones(first.input_shape, DTYPES[first.dtype])
        return functools.partial(Layers, problems), image
    if len(options.shapes) > 1:
        raise ValueError(f"a network, {networks[0]}, is measured by itself")
    from ..network.session import InferenceSession

    session = InferenceSession(networks[0])
    feed = random_feed(session.get_inputs(), dict(options.shape))
    session.plan_for(feed)  # refuses wrong shapes
    return functools.partial(InferenceSession, networks[0]), feed


def _problems(options: argparse.Namespace) -> list[tuple[ConvProblem, int]]:
    problems = []
    for name, problem in read_convolutions(options.shapes, options.dtype):
        count = _COUNT.search(name)
        placed = ConvProblem.parse(str(problem), options.dtype, options.layout)
        problems.append((placed, int(count[1]) if count else 1))
    if not problems:
        raise ValueError("no layer in any of the files")
    return problems


def _splits(text: str) -> list[tuple[int, int]]:
    matches = [re.fullmatch(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", w) for w in text.split(",")]
    if not all(matches):
        raise argparse.ArgumentTypeError(f"{text!r}: expected splits such as 4x1,2x2")
    return list(dict.fromkeys((int(m[1]), int(m[2])) for m in matches if m))


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 86400:
        raise argparse.ArgumentTypeError(f"{text!r}: expected seconds, more than 0")
    return number
