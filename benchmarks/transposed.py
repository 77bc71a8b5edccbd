"""Transposed convolutions: `ConvTranspose2d` against PyTorch and onnxruntime, in one run.

The layers are those of PP-OCR's detector and of common decoders. Every result is checked before it
is timed.

``python -m benchmarks.transposed --help``.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import pplconv
from benchmarks import options
from benchmarks.report import conditions
from benchmarks.runner import Progress
from benchmarks.tables import Table
from benchmarks.timing import interleave
from benchmarks.tool import Run, command, new_parser, versions

Call = Callable[[], Any]
Array = NDArray[Any]
OURS = ("pplconv, NCHW", "pplconv, NHWC")


@dataclass(frozen=True)
class Layer:
    """One layer on square images: channels, size, kernel, stride, padding, output padding."""

    name: str
    ic: int
    oc: int
    size: int
    kernel: int
    stride: int = 2
    padding: int = 0
    more: int = 0

    @property
    def flops(self) -> int:
        """Floating-point operations, an FMA counted as two."""
        return 2 * self.ic * self.oc * self.size**2 * self.kernel**2


LAYERS = (
    Layer("PP-OCR, first", 24, 24, 160, 2),
    Layer("PP-OCR, second", 24, 1, 320, 2),
    Layer("decoder, 4x4", 256, 128, 32, 4, padding=1),
    Layer("decoder, 4x4, wide", 128, 64, 64, 4, padding=1),
    Layer("U-Net, 2x2", 256, 128, 32, 2),
    Layer("U-Net, 3x3", 64, 64, 64, 3, padding=1, more=1),
    Layer("U-Net, 3x3, deep", 128, 64, 56, 3, padding=1, more=1),
)


@contextmanager
def team(threads: int) -> Iterator[None]:
    """Give PyTorch, if it is there, as many threads as pplconv."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    yield


def arrays_of(layer: Layer) -> tuple[Array, Array, Array]:
    """Input, weights and bias."""
    rng = np.random.default_rng(layer.ic + layer.oc)
    x = pplconv.empty_aligned((1, layer.ic, layer.size, layer.size))
    x[...] = rng.standard_normal(x.shape)
    w = rng.standard_normal((layer.ic, layer.oc, layer.kernel, layer.kernel)).astype(np.float32)
    return x, w, rng.standard_normal(layer.oc).astype(np.float32)


def calls_of(layer: Layer, threads: int, search: Any) -> dict[str, Call]:
    """The calls to time, by engine; each gives its result in NCHW or, if it says so, NHWC."""
    x, w, bias = arrays_of(layer)
    calls: dict[str, Call] = {}
    layouts: tuple[Literal["NCHW"], Literal["NHWC"]] = ("NCHW", "NHWC")
    for layout in layouts:
        own = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        up = pplconv.ConvTranspose2d(
            w, bias, layer.stride, layer.padding, layer.more, layout=layout, threads=threads,
            search=search,
        )  # fmt: skip
        out = pplconv.empty_aligned(up(own).shape)
        calls[f"pplconv, {layout}"] = partial(up, own, out=out)
    calls.update(_torch_call(layer, x, w, bias))
    calls.update(_onnxruntime_call(layer, x, w, bias, threads))
    return calls


def _torch_call(layer: Layer, x: Array, w: Array, bias: Array) -> dict[str, Call]:
    try:
        import torch
    except ImportError:
        return {}
    tensors = [torch.from_numpy(array) for array in (x, w, bias)]

    def call() -> Any:
        with torch.inference_mode():
            return torch.nn.functional.conv_transpose2d(
                *tensors, layer.stride, layer.padding, layer.more
            )

    return {"PyTorch": call}


def _onnxruntime_call(
    layer: Layer, x: Array, w: Array, bias: Array, threads: int
) -> dict[str, Call]:
    try:
        import onnx
        import onnxruntime
    except ImportError:
        return {}
    helper, tensor = onnx.helper, onnx.numpy_helper.from_array
    node = helper.make_node(
        "ConvTranspose", ["x", "w", "b"], ["y"], strides=[layer.stride] * 2,
        pads=[layer.padding] * 4, output_padding=[layer.more] * 2,
    )  # fmt: skip
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [node], "layer", [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", kind, None)], [tensor(w, "w"), tensor(bias, "b")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    chosen = onnxruntime.SessionOptions()
    chosen.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), chosen, providers=["CPUExecutionProvider"]
    )
    return {"onnxruntime": lambda: session.run(None, {"x": x})[0]}


def check(layer: Layer, calls: dict[str, Call]) -> None:
    """Compare the first result of each engine with float64.

    Raises
    ------
    RuntimeError
        If one is off by more than 1e-4 of the largest output.
    """
    results = {name: np.asarray(call()) for name, call in calls.items()}
    x, w, bias = (array.astype(np.float64) for array in arrays_of(layer))
    exact = pplconv.conv_transpose2d(x, w, bias, layer.stride, layer.padding, layer.more)
    for name, y in results.items():
        found = y.transpose(0, 3, 1, 2) if name.endswith("NHWC") else y
        error = float(np.abs(found - exact).max() / np.abs(exact).max())
        if not error <= 1e-4:
            raise RuntimeError(f"{name} is wrong by {error:.3g} of the largest output")


def time_layers(
    threads: int, chosen: argparse.Namespace, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Time all layers for one team."""
    for layer in LAYERS:
        progress.say(layer.name)
        with team(threads):
            calls = calls_of(layer, threads, chosen.search)
            check(layer, calls)
            timings = interleave(calls, options.settings_of(chosen, threads))
        seconds = {name: timing.best for name, timing in timings.items()}
        peers = [t for name, t in seconds.items() if name not in OURS]
        ratios = {name: min(peers, default=math.nan) / seconds[name] for name in OURS}
        yield {"layer": layer.name, "seconds": seconds, "ratios": ratios}


def table_of(threads: int, rows: Sequence[dict[str, Any]]) -> Table:
    """Make the table of a team."""
    columns = ["layer", *(f"{name}, ms" for name in rows[0]["seconds"])]
    columns += [f"best peer / {name.split()[-1]}" for name in OURS]
    table = Table(f"float32, {conditions(1, threads)}", columns)
    for row in rows:
        times = [f"{1e3 * seconds:.3f}" for seconds in row["seconds"].values()]
        table.add([row["layer"], *times, *(f"{row['ratios'][name]:.2f}" for name in OURS)])
    return table


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.transposed", __doc__)
    options.add_threads(parser, [1, 2])
    parser.add_argument("--search", choices=options.SEARCHES, default="estimate", help="of pplconv")
    options.add_timing(parser, rounds=5)
    options.add_output(parser)
    return parser


@command(_parser)
def main(run: Run) -> int:
    """Measure, and give the exit status."""
    found: dict[int, list[dict[str, Any]]] = {}
    with run.steps(len(run.chosen.threads)) as progress:
        for threads in run.chosen.threads:
            progress.begin(f"{threads} threads")
            for row in time_layers(threads, run.chosen, progress):
                found.setdefault(threads, []).append(row)
    made = [table_of(threads, rows) for threads, rows in found.items()]
    plain = [{"threads": threads, "rows": rows} for threads, rows in found.items()]
    head = run.head(notes=versions("torch", "onnxruntime"))
    return run.publish(head, made, {"runs": plain})


if __name__ == "__main__":
    sys.exit(main())
