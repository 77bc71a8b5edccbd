"""Arguments of the demo, and its steps in turn."""

from __future__ import annotations

import argparse
import contextlib
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import platformdirs
import threadpoolctl
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_conv import Conv as OwnConv

import pplconv
from pplconv.demo.errors import DemoError
from pplconv.demo.measure import ROUNDS, Run, count_convolutions, plan_of, run_network
from pplconv.demo.model import ensure_model, load_model
from pplconv.demo.picture import MULTIPLE, draw, load, network_input
from pplconv.demo.progress import Progress
from pplconv.demo.regions import find_regions
from pplconv.demo.report import layers_of, table
from pplconv.integrations.onnx_reference import make_conv

__all__ = ["LARGEST_DIFFERENCE", "difference", "main"]

LARGEST_DIFFERENCE = 1e-3
"""How far the two outputs, probabilities from 0 to 1, may be apart."""

DEFAULT_SIDE = 480


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; see `pplconv.demo.main`.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; none by default.

    Returns
    -------
    int
        Exit status.
    """
    arguments = _parser().parse_args(list(argv or ()))
    progress = Progress(sys.stderr)
    try:
        return _run(arguments, progress)
    except DemoError as error:
        progress.close()
        print(f"pplconv demo: {error}", file=sys.stderr)
        return 1
    except MemoryError as error:
        progress.close()
        print(
            f"pplconv demo: {str(error) or 'out of memory'}; try a smaller --side", file=sys.stderr
        )
        return 1
    except KeyboardInterrupt:
        progress.close()
        print("pplconv demo: interrupted", file=sys.stderr)
        return 130
    finally:
        progress.close()


def difference(first: np.ndarray, second: np.ndarray) -> float:
    """Largest absolute difference of two outputs.

    Parameters
    ----------
    first, second : ndarray
        Arrays of the same shape.

    Returns
    -------
    float
        NaN if any of their elements is.
    """
    return float(np.max(np.abs(first - second)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pplconv demo",
        description=(
            "Detect text in a picture with a pretrained network (PP-OCRv4) in the ONNX project's "
            "NumPy evaluator, with the evaluator's own Conv and with pplconv.conv2d in its place."
        ),
    )
    parser.add_argument(
        "--image", type=Path, help="picture to read (default: the page that scikit-image ships)"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("pplconv-demo.png"),
        help="PNG to write the regions to (default: %(default)s)",
    )
    parser.add_argument(
        "--cache", type=Path, help="folder that keeps the model (default: the user's cache folder)"
    )
    parser.add_argument(
        "--threads",
        type=_at_least(1),
        help="team size, for pplconv and for the BLAS of the evaluator's own Conv alike",
    )
    parser.add_argument(
        "--side",
        type=_at_least(MULTIPLE),
        default=DEFAULT_SIDE,
        help="pixels that the picture's short side is scaled to (default: %(default)s)",
    )
    parser.add_argument(
        "--skip-reference", action="store_true", help="run with pplconv only, and compare nothing"
    )
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is less than {least}")
        return value

    parse.__name__ = "integer"  # argparse names the type in its message
    return parse


def _run(arguments: argparse.Namespace, progress: Progress) -> int:
    output = arguments.output
    if output.is_dir():
        raise DemoError(f"cannot write {output}: it is a folder")
    if not output.absolute().parent.is_dir():
        raise DemoError(f"cannot write {output}: there is no folder {output.absolute().parent}")
    image = load(arguments.image)
    cache = arguments.cache or platformdirs.user_cache_path("pplconv")
    try:
        model_path = ensure_model(cache, progress)
    except OSError as error:
        raise DemoError(f"cannot keep the model in {cache}: {error}") from error
    model = load_model(model_path)
    x = network_input(image, arguments.side)

    with _blas(arguments.threads):
        blas = _describe_blas()
        own = None
        if not arguments.skip_reference:
            own = _network(model, OwnConv, x, "the evaluator's own Conv", progress)
        ours = _network(model, make_conv(threads=arguments.threads), x, "pplconv", progress)
    plans = [plan_of(call, arguments.threads) for call in ours.calls]

    regions = find_regions(ours.output[0, 0], image.size)
    draw(image, regions, output)
    progress.step(f"picture: {output}")
    progress.close()

    height, width = x.shape[2:]
    facts = [
        ("picture", f"{arguments.image or 'scikit-image page.png'}, {_size(*image.size)}"),
        ("network", f"PP-OCRv4 text detector, input {_size(width, height)}"),
        ("text regions", f"{len(regions)}, drawn in {output}"),
        ("pplconv", f"{pplconv.__version__}, {_isas(plans)}, threads {_teams(plans)}"),
        ("evaluator", f"onnx.reference {onnx.__version__}, NumPy {np.__version__}, {blas}"),
        ("machine", f"{platform.machine()}, Python {platform.python_version()}"),
        ("seconds", f"in Conv alone, the best of {ROUNDS} after a warm-up"),
    ]
    apart = None
    if own is not None:
        apart = difference(own.output, ours.output)
        facts.insert(
            0,
            ("largest difference", f"{apart:.2e} (limit {LARGEST_DIFFERENCE:.0e}) of the outputs"),
        )
    layers = layers_of(plans, ours.calls, own.calls if own else None)
    print(table(layers, facts, compared=own is not None))
    if apart is not None and not apart <= LARGEST_DIFFERENCE:  # NaN is beyond the limit too
        raise DemoError(
            f"the two outputs differ by {apart:.3g}, more than {LARGEST_DIFFERENCE:.0e}"
        )
    return 0


def _network(
    model: onnx.ModelProto, conv: type[OpRun], x: np.ndarray, name: str, progress: Progress
) -> Run:
    count = count_convolutions(model)

    def tick(done: int) -> None:
        text = f"{name}: Conv {done} of {count}"
        if done == count:
            # A good part of the evaluator's time comes here, in ConvTranspose.
            text += ", now the rest of the network"
        progress.update(text, last=done == count)

    progress.step(f"{name}: Conv 0 of {count}")
    run = run_network(model, conv, x, tick)
    progress.update(f"{name}: {count} Conv in {run.seconds:.3f} s", last=True)
    return run


def _blas(threads: int | None) -> contextlib.AbstractContextManager[Any]:
    if threads is None:
        return contextlib.nullcontext()
    limits: contextlib.AbstractContextManager[Any] = threadpoolctl.threadpool_limits(
        threads, user_api="blas"
    )
    return limits


def _describe_blas() -> str:
    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    names = {f"{pool['internal_api']} with {pool['num_threads']} threads" for pool in pools}
    return ", ".join(sorted(names)) or "BLAS unknown"


def _size(width: int, height: int) -> str:
    return f"{width} x {height}"


def _isas(plans: Sequence[pplconv.Plan]) -> str:
    return ", ".join(sorted({plan.isa for plan in plans}))


def _teams(plans: Sequence[pplconv.Plan]) -> str:
    teams = sorted({plan.threads for plan in plans})
    return str(teams[0]) if len(teams) == 1 else f"{teams[0]} to {teams[-1]}"
