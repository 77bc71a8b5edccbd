"""Quantized data for a problem, and its expected result, to the last bit.

The result is what pplconv promises on every machine: the exact int32 sum with its bias, one float32
multiplication, rounding half to even, *then* the zero point, and saturation. Peers have contracts
of their own, which differ from it by one unit at most; anything else is a wrong answer.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.candidates import Case
from benchmarks.engines.base import Engine, Prepared
from benchmarks.engines.quantized.base import Quantized, QuantizedEngine
from benchmarks.memory import aligned_copy
from benchmarks.problems import Problem
from benchmarks.reference import make_data, reference

# Spread of quantized numbers: few of them saturate.
_INPUT_SPREAD, _WEIGHT_SPREAD = 48.0, 40.0
# Outputs spread by half of this up to this: their scale is rounded up to a power of two.
_OUTPUT_SPREAD = 45.0
# A power of two, as is the scale of outputs: then the multiplier is the same float32 in any order
# of multiplications and divisions.
_INPUT_SCALE = 2.0**-6
# Zero points of inputs and outputs: inputs as they come out of a ReLU.
_ZEROS = {"u8": (0, 128), "s8": (0, 0)}
DTYPES = {"u8": np.dtype(np.uint8), "s8": np.dtype(np.int8)}


def make_quantized(
    problem: Problem, kind: str, prune: Callable[[NDArray[Any]], NDArray[Any]] | None = None
) -> Quantized:
    """Draw a quantized layer, the same one in every run.

    Parameters
    ----------
    problem : Problem
    kind : str
        Type of activations: ``"u8"`` or ``"s8"``. Weights are int8 and the same for both.
    prune : callable, optional
        Takes the weights (float32, integers that int8 holds) and gives those that are left.
    """
    rng = np.random.default_rng(zlib.crc32(f"int8 {problem.sizes}".encode()))
    numbers = rng.standard_normal(problem.weight_shape, dtype=np.float32) * _WEIGHT_SPREAD
    w = np.clip(np.rint(numbers), -127, 127)
    w = w if prune is None else prune(w)
    w_scale = rng.uniform(2.0**-8, 2.0**-7, problem.oc).astype(np.float32)
    numbers = rng.standard_normal(problem.input_shape, dtype=np.float32) * _INPUT_SPREAD
    limits = np.iinfo(DTYPES[kind])
    x = np.clip(np.rint(np.abs(numbers) if kind == "u8" else numbers), limits.min, limits.max)
    x_zero, y_zero = _ZEROS[kind]
    sums = reference(problem, x - x_zero, w)
    spread = float(sums.std()) or 1.0
    bias = np.rint(rng.standard_normal(problem.oc) * 0.1 * spread).astype(np.int32)
    sums += bias[:, None, None]
    real = float((sums * w_scale[:, None, None]).std()) * _INPUT_SCALE
    y_scale = float(2.0 ** np.ceil(np.log2((real or 1.0) / _OUTPUT_SPREAD)))
    return Quantized(
        kind=kind,
        x=aligned_copy(x, DTYPES[kind]),
        x_scale=_INPUT_SCALE,
        x_zero=x_zero,
        w=aligned_copy(w, np.int8),
        w_scale=w_scale,
        bias=bias,
        y_scale=y_scale,
        y_zero=y_zero,
        expected=requantized(sums, w_scale * np.float32(_INPUT_SCALE / y_scale), y_zero, kind),
    )


def requantized(
    sums: NDArray[np.float64], multiplier: NDArray[np.float32], zero: int, kind: str
) -> NDArray[Any]:
    """Bring exact sums to the type of an output, by the contract.

    Parameters
    ----------
    sums : ndarray, (N, oc, oh, ow)
        Integers that int32 holds.
    multiplier : ndarray, float32, (oc,)
    zero : int
        Zero point of the output.
    kind : str
        ``"u8"`` or ``"s8"``.

    Raises
    ------
    ValueError
        If a sum is no int32: nothing is promised of such a layer.
    """
    exact = sums.astype(np.int64)
    if not (np.abs(exact) < 2**31).all():
        raise ValueError("a sum leaves int32")
    product = exact.astype(np.float32) * multiplier[:, None, None]
    limits = np.iinfo(DTYPES[kind])
    # In float64, where adding the zero point to any product is exact.
    moved = np.rint(product).astype(np.float64) + zero
    result: NDArray[Any] = np.clip(moved, limits.min, limits.max).astype(DTYPES[kind])
    return result


def units_off(result: NDArray[Any], expected: NDArray[Any]) -> float:
    """How far quantized numbers are off.

    Returns
    -------
    float
        0 to 1: the part of them that is one unit off, while none is off by more. Above: the largest
        distance, in units; infinity where shape or type differ.
    """
    if result.shape != expected.shape or result.dtype != expected.dtype:
        return float("inf")
    distance = np.abs(result.astype(np.int16) - expected.astype(np.int16))
    largest = int(distance.max(initial=0))
    return float(np.count_nonzero(distance) / distance.size) if largest == 1 else float(largest)


@dataclass(frozen=True)
class QuantizedCase(Case):
    """A problem in float32, with the same layer in int8: each engine is given its own.

    Attributes
    ----------
    quantized : dict of str to Quantized
        By type of activations.
    """

    quantized: dict[str, Quantized]

    def prepare(self, engine: Engine, threads: int) -> Prepared:
        """Prepare an engine on the data that it takes."""
        if isinstance(engine, QuantizedEngine):
            return engine.prepare_quantized(self.problem, self.quantized[engine.kind], threads)
        return super().prepare(engine, threads)

    def error(self, engine: Engine, result: NDArray[np.generic]) -> float:
        """Units off the exact result, or the error of float32."""
        if isinstance(engine, QuantizedEngine):
            return units_off(result, self.quantized[engine.kind].expected)
        return super().error(engine, result)

    def complaint(self, engine: Engine, error: float) -> str:
        """Refuse a result that is more than one unit off; results of pplconv must be exact."""
        if not isinstance(engine, QuantizedEngine):
            return super().complaint(engine, error)
        if error <= engine.tolerance:
            return ""
        if error <= 1.0:
            return f"{100 * error:.3g} % of the results are one unit off, expected none"
        if error == float("inf"):
            return "shape or type of the result are not those of the exact one"
        return f"{error:.0f} units off the exact result, expected at most {engine.tolerance:.0f}"


def make_quantized_case(problem: Problem) -> QuantizedCase:
    """Draw a problem in float32 and in int8, with the expected result of each."""
    x, w = make_data(problem)
    quantized = {kind: make_quantized(problem, kind) for kind in DTYPES}
    return QuantizedCase(problem, x, w, reference(problem, x, w), quantized)


def make_rounded_case(problem: Problem) -> Case:
    """Draw a problem whose operands are bfloat16 numbers, held in float32.

    The expected result is their float64 convolution: an engine that computes in bfloat16 rounds
    only sums and outputs.
    """
    x, w = (aligned_copy(rounded(array)) for array in make_data(problem))
    return Case(problem, x, w, reference(problem, x, w))


def rounded(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """Round finite float32 to bfloat16, to nearest even; the result is float32 again."""
    bits = array.view(np.uint32)
    up = 0x7FFF + (bits >> 16 & 1)
    return ((bits + up) & np.uint32(0xFFFF0000)).astype(np.uint32).view(np.float32)
