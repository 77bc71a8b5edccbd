"""Arguments of the demo, and its two parts: the page, then the detector in `onnx.reference`."""

from __future__ import annotations

import argparse
import contextlib
import platform
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import platformdirs
import threadpoolctl
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_conv import Conv as OwnConv

import pplconv
from examples.demo.comparison import differences, largest_shift
from examples.demo.decoding import alphabet_of
from examples.demo.drawing import draw, find_font
from examples.demo.engines import open_onnxruntime, open_pplconv
from examples.demo.errors import DemoError
from examples.demo.measure import (
    ROUNDS,
    Run,
    count_convolutions,
    load_model,
    plan_of,
    run_network,
)
from examples.demo.picture import MULTIPLE, input_size, load, network_input
from examples.demo.reading import read_best, read_page
from examples.demo.report import layers_of, page_table, table, text_table
from examples.models.ppocr import ensure_models
from examples.models.progress import Progress
from examples.models.published import ModelError
from pplconv.integrations.onnx_reference import make_conv

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["LARGEST_DIFFERENCE", "difference", "main"]

LARGEST_DIFFERENCE = 1e-3
"""Largest difference of the two outputs, probabilities from 0 to 1, that is no error."""

DEFAULT_SIDE = 480


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; see `examples.demo.main`.

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
    except (DemoError, ModelError) as error:
        progress.close()
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except MemoryError as error:
        progress.close()
        print(f"demo: {str(error) or 'out of memory'}; try a smaller --side", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        progress.close()
        print("demo: interrupted", file=sys.stderr)
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
        prog="python examples/demo",
        description=(
            "Read the text in a picture with three pretrained networks (PP-OCRv4): by "
            "pplconv.InferenceSession, and by onnxruntime where it is installed. Then run the "
            "detector in the ONNX project's NumPy evaluator, with the evaluator's own Conv and "
            "with pplconv.conv2d in its place."
        ),
    )
    parser.add_argument(
        "--image", type=Path, help="picture to read (default: the page that scikit-image ships)"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("pplconv-demo.png"),
        help="PNG to draw boxes and text in (default: %(default)s)",
    )
    parser.add_argument(
        "--cache", type=Path, help="folder that keeps the models (default: the user's cache folder)"
    )
    parser.add_argument(
        "--threads",
        type=_at_least(1),
        help="team size, for pplconv, for onnxruntime and for the BLAS of the evaluator's own Conv",
    )
    parser.add_argument(
        "--side",
        type=_at_least(MULTIPLE),
        default=DEFAULT_SIDE,
        help="pixels that the picture's short side is scaled to (default: %(default)s)",
    )
    parser.add_argument(
        "--font", type=Path, help="font of the drawn text (default: one of the system's)"
    )
    parser.add_argument(
        "--skip-onnxruntime", action="store_true", help="read the page with pplconv only"
    )
    parser.add_argument(
        "--skip-reference",
        action="store_true",
        help="leave out the detector in NumPy's evaluator, which takes most of a minute",
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
    font = find_font(arguments.font)
    image = load(arguments.image)
    cache = arguments.cache or platformdirs.user_cache_path("pplconv")
    try:
        paths = ensure_models(cache, progress)
    except OSError as error:
        raise DemoError(f"cannot keep the models in {cache}: {error}") from error
    _read(arguments, image, paths, font, progress)
    if not arguments.skip_reference:
        _compare(arguments, network_input(image, arguments.side), paths[0], progress)
    return 0


def _read(
    arguments: argparse.Namespace,
    image: Image.Image,
    paths: tuple[Path, Path, Path],
    font: Any,
    progress: Progress,
) -> None:
    """Read the page with each engine, draw it, and print it."""
    alphabet = alphabet_of(paths[2])
    names, pages, made = [], [], []
    # One engine after the other: waiting threads of one would slow the other.
    for engine in ("pplconv", *(() if arguments.skip_onnxruntime else ("onnxruntime",))):
        progress.step(f"{engine}: opening the three networks")
        begin = time.perf_counter()
        networks = (open_pplconv if engine == "pplconv" else open_onnxruntime)(
            paths, arguments.threads
        )
        if networks is None:
            progress.update(f"{engine} is not installed: nothing to compare with", last=True)
            continue
        made.append(time.perf_counter() - begin)
        progress.step(f"{engine}: reading the page")
        page = read_best(partial(read_page, image, arguments.side, networks, alphabet), ROUNDS)
        progress.update(f"{engine}: {len(page.lines)} lines", last=True)
        names.append(networks.engine)
        pages.append(page)
    ours = pages[0]
    lacking = draw(image, ours.lines, arguments.output, font)
    progress.step(f"picture: {arguments.output}")
    progress.close()

    width, height = input_size(image.width, image.height, arguments.side)
    facts = [
        ("picture", f"{arguments.image or 'scikit-image page.png'}, {_size(*image.size)}"),
        ("networks", f"PP-OCRv4 detector at {_size(width, height)}, classifier, recogniser"),
        ("found", f"{len(ours.lines)} lines, drawn in {arguments.output}"),
        ("opened in", ", ".join(f"{name} {s:.2f} s" for name, s in zip(names, made, strict=True))),
        ("threads", str(arguments.threads or "as many as each engine takes by itself")),
        ("machine", f"{platform.machine()}, Python {platform.python_version()}"),
        ("times", f"the best of {ROUNDS} pages after a warm-up; all but the networks is shared"),
    ]
    if lacking:
        facts.append(
            ("letters", f"{lacking} that the font lacks are dots in the picture; see --font")
        )
    found = []
    if len(pages) > 1:
        found = differences(ours.lines, pages[1].lines)
        same = f"same texts, boxes {largest_shift(ours.lines, pages[1].lines):.2g} pixels apart"
        facts.append(("compared", "; ".join(found) if found else same))
    if ours.lines:
        print(text_table(names, [page.lines for page in pages]), end="\n\n")
    print(page_table(names, pages, facts), flush=True)
    if found:
        raise DemoError(f"the two engines read the page differently: {'; '.join(found)}")


def _compare(arguments: argparse.Namespace, x: np.ndarray, path: Path, progress: Progress) -> None:
    """Run the detector in the ONNX project's evaluator, with both operators for its Conv."""
    model = load_model(path)
    with _blas(arguments.threads):
        blas = _describe_blas()
        own = _network(model, OwnConv, x, "the evaluator's own Conv", progress)
        ours = _network(model, make_conv(threads=arguments.threads), x, "pplconv", progress)
    plans = [plan_of(call, arguments.threads) for call in ours.calls]
    progress.close()

    apart = difference(own.output, ours.output)
    height, width = x.shape[2:]
    facts = [
        ("largest difference", f"{apart:.2e} (limit {LARGEST_DIFFERENCE:.0e}) of the outputs"),
        ("network", f"PP-OCRv4 detector, input {_size(width, height)}"),
        ("pplconv", f"{pplconv.__version__}, {_isas(plans)}, threads {_teams(plans)}"),
        ("evaluator", f"onnx.reference {onnx.__version__}, NumPy {np.__version__}, {blas}"),
        ("seconds", f"in Conv alone, the best of {ROUNDS} after a warm-up"),
    ]
    print()
    print(table(layers_of(plans, ours.calls, own.calls), facts))
    if not apart <= LARGEST_DIFFERENCE:  # NaN is beyond the limit too
        raise DemoError(
            f"the two outputs differ by {apart:.3g}, more than {LARGEST_DIFFERENCE:.0e}"
        )


def _network(
    model: onnx.ModelProto, conv: type[OpRun], x: np.ndarray, name: str, progress: Progress
) -> Run:
    count = count_convolutions(model)

    def tick(done: int) -> None:
        text = f"{name}: Conv {done} of {count}"
        if done == count:
            # A large part of the evaluator's time follows, in ConvTranspose.
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
