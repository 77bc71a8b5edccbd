"""Error of whole networks in each precision: ``python -m benchmarks.networks.accuracy --help``.

Models of the zoo (see `zoo`) run in float32, with ``precision="low"`` (bfloat16) and quantized to
int8; the reference is the same network in float64, with the weights widened. onnxruntime in float32
stands beside them: where it is as close as we are, the reference is right. An error is the signal
to noise of the worst output, in dB: 20 dB more are a tenth of the error.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pplconv
from benchmarks import options
from benchmarks.names import pick
from benchmarks.networks.engines import Array, Feed, OnnxRuntime
from benchmarks.networks.retyping import retyped
from benchmarks.networks.zoo import SEED, Animal, everything, obtained
from benchmarks.report import Head
from benchmarks.tables import NONE, Table
from benchmarks.tool import Run, command, new_parser

MODELS = (
    "ppocr_v4_det", "ppocr_v4_rec", "ppocr_v2_cls", "nudenet", "torchvision.resnet50",
    "torchvision.mobilenet_v3_large", "torchvision.convnext_tiny", "transformers.ViT",
)  # fmt: skip
"""The models that are compared by default."""

WAYS = ("onnxruntime float32", "float32", "low", "int8")
"""Columns of the table."""

# Inputs on which scales are found; none is the one that is measured.
_CALIBRATION = (SEED + 1, SEED + 2, SEED + 3, SEED + 4)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.networks.accuracy", __doc__)
    parser.add_argument(
        "--models", type=options.words, default=list(MODELS), help="some names of the zoo's lists"
    )
    options.add_cache(parser)
    options.add_output(parser)
    return parser


@command(_parser)
def main(run: Run) -> int:
    """Compare the models, and give the exit status: 1 if one could not be compared."""
    chosen = run.chosen
    with run.refusing():
        animals = pick("model", chosen.models, everything())
    paths = obtained(run, animals)
    if isinstance(paths, int):
        return paths
    done: dict[str, dict[str, float | str]] = {}
    with run.steps(len(animals), "some models are missing") as progress:
        for name, animal in animals.items():
            progress.begin(name)
            path = paths[name]
            found = {"float32": path} if isinstance(path, str) else errors(path, animal)
            done[name] = dict(found)
    failed = [f"{n}, {way}: {why}" for n, by in done.items() for way, why in by.items()
              if isinstance(why, str)]  # fmt: skip
    head = run.head(_METHOD, notes=failed)
    status = run.publish(head, [table_of(done)], _plain(head, done))
    return status or int(bool(failed))


def errors(path: Path, animal: Animal) -> Mapping[str, float | str]:
    """Give the signal to noise of each of `WAYS`, in dB, or a text that says why there is none."""
    import onnx

    model = onnx.load(str(path))
    plain = pplconv.InferenceSession(model, threads=1, fallback="silent")
    types = {value.name: value.type for value in plain.get_inputs()}
    feed = animal.feed(types)
    try:
        expected = in_float64(model, feed)
    except (TypeError, ValueError) as error:
        return {"float32": f"no network of float64: {_first_line(error)}"}

    def narrow() -> Sequence[Array]:
        return _run(pplconv.InferenceSession(model, threads=1, fallback="silent", precision="low"),
                    feed)  # fmt: skip

    def integers() -> Sequence[Array]:
        samples = [animal.feed(types, seed) for seed in _CALIBRATION]
        made = pplconv.quant.quantize_model(model, samples)
        return _run(pplconv.InferenceSession(made, threads=1, fallback="silent"), feed)

    def peer() -> Sequence[Array]:
        engine = OnnxRuntime()
        engine.load(str(path), animal.inputs, 1)
        return engine.run(feed)

    calls = {"float32": lambda: _run(plain, feed), "low": narrow, "int8": integers}
    if not OnnxRuntime.missing():
        calls["onnxruntime float32"] = peer
    found: dict[str, float | str] = {}
    for way, call in calls.items():
        try:
            found[way] = worst(expected, call())
        except (TypeError, ValueError) as error:
            found[way] = _first_line(error)
    return found


def in_float64(model: Any, feed: Feed) -> list[Array]:
    """Compute a float32 network in float64."""
    double = retyped(model, np.float32, np.float64)
    wide = {
        name: array.astype(np.float64) if array.dtype == np.float32 else array
        for name, array in feed.items()
    }
    session = pplconv.InferenceSession(double, threads=1, tolerance=0, fallback="silent")
    return list(session.run(None, wide))


def worst(expected: Sequence[Array], outputs: Sequence[Array]) -> float:
    """Give the least signal to noise of all outputs of floating point, in dB.

    Raises
    ------
    ValueError
        If an output of the reference is zero, and so has no signal, or numbers are not finite.
    """
    found = [math.inf]
    for want, got in zip(expected, outputs, strict=True):
        if want.dtype.kind == "f":
            if not want.any():
                raise ValueError("an output of the reference is zero")
            found.append(pplconv.quant.signal_to_noise(want, got))
            if math.isnan(found[-1]):
                raise ValueError("an output is not finite")
    return min(found)


def _run(session: Any, feed: Feed) -> list[Array]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        outputs: list[Array] = session.run(None, feed)
    return outputs


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def table_of(done: Mapping[str, Mapping[str, float | str]]) -> Table:
    """Make the table: a row for each model."""
    table = Table("Signal to noise of the worst output against float64, dB", ["model", *WAYS])
    for name, found in done.items():
        table.add([name, *(_cell(found.get(way)) for way in WAYS)])
    return table


def _cell(found: float | str | None) -> str:
    return f"{found:.1f}" if isinstance(found, float) else NONE


_METHOD = (
    "inputs at random, as of benchmarks.networks.zoo; exported models have random weights; the "
    "reference is pplconv's network of float64, tolerance=0; int8 by quantize_model from four "
    "other inputs"
)


def _plain(head: Head, done: Mapping[str, Mapping[str, float | str]]) -> dict[str, object]:
    models = [{"name": name, **found} for name, found in done.items()]
    return {**head.plain(), "models": models}


if __name__ == "__main__":
    sys.exit(main())
