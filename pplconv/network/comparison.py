"""`NetworkComparison`: outputs and times of a network in two precisions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from statistics import median
from typing import Any

import numpy as np

from .._records import record
from ..drawing.columns import columns
from ..drawing.figures import milliseconds, number
from ..quant import signal_to_noise
from .storage import Array, Shape

__all__ = ["NetworkComparison", "OutputComparison", "compared"]


@record(frozen=True)
class OutputComparison:
    """An output in two precisions.

    Figures of floating-point numbers are those of elements that are finite in both outputs; all
    are computed in float64.

    Parameters
    ----------
    name : str
        Its name; of an array in a sequence with its number, such as ``"y[0]"``.
    dtype : str
        Type of the reference; ``"list"`` or ``"None"`` where no arrays can be compared.
    shape, other_shape : tuple of int
        Of the reference, and of the other output. If they differ, as sizes that depend on data
        may, nothing else is known: all figures are NaN.
    signal_to_noise : float
        Power of the reference over the power of the difference, in decibels; infinite if the
        outputs are equal, NaN for integers, truth values and texts.
    largest_difference : float
        Largest absolute difference of two elements.
    largest : float
        Largest magnitude of the reference.
    different : int
        Elements that are not equal; two NaN are.
    special : int
        Elements that are NaN or infinite in one output, and something else in the other.
    same_argmax : float
        Of a matrix with a row for each image of the batch, as classifiers give: share of the rows
        whose largest element stands at the same place in both outputs; NaN of all other outputs.
    """

    name: str
    dtype: str
    shape: Shape
    other_shape: Shape
    signal_to_noise: float = math.nan
    largest_difference: float = math.nan
    largest: float = math.nan
    different: int = 0
    special: int = 0
    same_argmax: float = math.nan

    @property
    def comparable(self) -> bool:
        """Whether both outputs are arrays of one shape."""
        return self.shape == self.other_shape and self.dtype not in ("list", "None")


@record(frozen=True)
class NetworkComparison:
    """A network in two precisions; printed, it is a table.

    Parameters
    ----------
    precision, other_precision : str
        That of the session, whose outputs are the reference, and the other one.
    outputs : tuple of OutputComparison
        In the order of the model.
    seconds, other_seconds : float
        Median time of a run.
    repeats : int
        Runs of each, in turn.
    """

    precision: str
    other_precision: str
    outputs: tuple[OutputComparison, ...]
    seconds: float
    other_seconds: float
    repeats: int

    @property
    def gain(self) -> float:
        """How many times as fast the other precision is."""
        return self.seconds / self.other_seconds if self.other_seconds else math.inf

    def __str__(self) -> str:
        runs = "one run" if self.repeats == 1 else f"medians of {self.repeats} runs"
        lines = [
            f'precision "{self.precision}", the reference: {milliseconds(self.seconds)}; '
            f'"{self.other_precision}": {milliseconds(self.other_seconds)}, '
            f"{self.gain:.2f} times as fast; {runs} of each, in turn"
        ]
        head = ("output", "type", "shape", "signal/noise", "largest difference", "of largest", "")
        rows = [head, *map(_row, self.outputs)]
        return "\n".join([*lines, *columns(rows, {3, 4, 5})])


def _row(one: OutputComparison) -> tuple[str, ...]:
    shape = "x".join(map(str, one.shape))
    if not one.comparable:
        same = one.shape == one.other_shape
        other = "not compared" if same else f"the other is {'x'.join(map(str, one.other_shape))}"
        return one.name, one.dtype, shape, "", "", "", other
    exact = math.isnan(one.signal_to_noise)
    notes = [] if one.different else ["equal"]
    if one.different and exact:
        notes.append(f"{one.different:,} of {math.prod(one.shape):,} elements differ")
    if one.special:
        notes.append(f"{one.special:,} elements are NaN or infinite in one output alone")
    if not math.isnan(one.same_argmax):
        notes.append(f"same argmax in {100 * one.same_argmax:.4g} % of the rows")
    noise = "" if exact else f"{one.signal_to_noise:.1f} dB"
    figures = ["" if math.isnan(n) else number(n) for n in (one.largest_difference, one.largest)]
    return one.name, one.dtype, shape, noise, *figures, ", ".join(notes)


def compared(
    run: Callable[[], Mapping[str, Any]],
    other: Callable[[], Mapping[str, Any]],
    repeats: int,
    batches: Collection[int],
) -> tuple[tuple[OutputComparison, ...], float, float]:
    """Compare the outputs of two programs, and time the programs in turn.

    Parameters
    ----------
    run, other : callable
        Run the reference, and the other program; give outputs by name.
    repeats : int
        Timed runs of each; one more run of each comes before.
    batches : collection of int
        Sizes of the batch, as the inputs have them.

    Returns
    -------
    tuple of OutputComparison, float, float
        The outputs, and the median seconds of both.
    """
    first, second = run(), other()
    outputs = tuple(
        one
        for name, value in first.items()
        for one in _compared(name, value, second[name], batches)
    )
    seconds: tuple[list[float], list[float]] = [], []
    for _ in range(repeats):
        for call, taken in zip((run, other), seconds, strict=True):
            begin = time.perf_counter()
            call()
            taken.append(time.perf_counter() - begin)
    return outputs, median(seconds[0]), median(seconds[1])


def _compared(
    name: str, value: Any, other: Any, batches: Collection[int]
) -> list[OutputComparison]:
    if isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        pairs = enumerate(zip(value, other, strict=True))
        return [one for i, pair in pairs for one in _compared(f"{name}[{i}]", *pair, batches)]
    if not (isinstance(value, np.ndarray) and isinstance(other, np.ndarray)):
        kind = "list" if isinstance(value, list) else str(getattr(value, "dtype", None))
        return [OutputComparison(name, kind, _size(value), _size(other))]
    said = name, value.dtype.name, value.shape, other.shape
    if value.shape != other.shape:
        return [OutputComparison(*said)]
    if value.dtype.hasobject:
        apart = int(np.count_nonzero(value != other))
        return [OutputComparison(name, "str", *said[2:], different=apart)]
    if value.dtype.kind in "biu":
        return [OutputComparison(*said, **_of_integers(value, other))]
    found = _of_floats(value, other)
    if value.ndim == 2 and value.shape[0] in batches and value.size > value.shape[0]:
        found["same_argmax"] = float(np.mean(value.argmax(1) == other.argmax(1)))
    return [OutputComparison(*said, **found)]


def _size(value: Any) -> Shape:
    return (len(value),) if isinstance(value, list) else tuple(getattr(value, "shape", ()))


def _of_integers(value: Array, other: Array) -> dict[str, Any]:
    """Compare exactly: differences of 64-bit integers have more bits than they."""
    apart = value != other
    found: dict[str, Any] = {"different": int(np.count_nonzero(apart))}
    if value.dtype.kind != "b":
        pairs = zip(value[apart].tolist(), other[apart].tolist(), strict=True)
        found["largest_difference"] = float(max((abs(a - b) for a, b in pairs), default=0))
        ends = (int(value.max()), int(value.min())) if value.size else (0,)
        found["largest"] = float(max(map(abs, ends)))
    return found


def _of_floats(value: Array, other: Array) -> dict[str, Any]:
    x, y = (array.astype(np.float64) for array in (value, other))
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    finite = np.isfinite(x) & np.isfinite(y)
    found: dict[str, Any] = {
        "different": int(np.count_nonzero(~same)),
        "special": int(np.count_nonzero(~finite & ~same)),
    }
    x, y = x[finite], y[finite]
    found["largest"] = largest = float(np.abs(x).max(initial=0.0))
    with np.errstate(over="ignore"):
        found["largest_difference"] = float(np.abs(x - y).max(initial=0.0))
    # No square may leave the range of float64.
    scale = max(largest, float(np.abs(y).max(initial=0.0))) or 1.0
    found["signal_to_noise"] = signal_to_noise(x / scale, y / scale)
    return found
