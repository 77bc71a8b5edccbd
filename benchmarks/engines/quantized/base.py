"""The one interface of engines that convolve in int8."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.base import Array32, Engine, Prepared, Unsupported
from benchmarks.problems import Problem

ArrayS8 = NDArray[np.int8]


@dataclass(frozen=True)
class Quantized:
    """A quantized layer: a number q of an array stands for ``scale * (q - zero)``.

    Attributes
    ----------
    kind : str
        Type of input and output: ``"u8"`` or ``"s8"``.
    x : ndarray, (N, C, H, W)
    x_scale, x_zero
        Of the input.
    w : ndarray, int8, (oc, ic/groups, kh, kw)
        Its zero points are 0.
    w_scale : ndarray, float32, (oc,)
    bias : ndarray, int32, (oc,)
        In units of ``x_scale * w_scale``.
    y_scale, y_zero
        Of the output.
    expected : ndarray, (N, oc, oh, ow)
        The exact result.
    """

    kind: str
    x: NDArray[Any]
    x_scale: float
    x_zero: int
    w: ArrayS8
    w_scale: NDArray[np.float32]
    bias: NDArray[np.int32]
    y_scale: float
    y_zero: int
    expected: NDArray[Any]

    @property
    def real_bias(self) -> NDArray[np.float32]:
        """The bias in real numbers, for engines that want it so."""
        return (self.bias * (np.float64(self.x_scale) * self.w_scale)).astype(np.float32)


class QuantizedEngine(Engine):
    """Something that convolves in int8, at its best settings.

    Attributes
    ----------
    kind : str
        Type of its activations.
    """

    kind: str = "u8"
    # Any number of results may be one unit off (see `benchmarks.quantized.layers.units_off`).
    tolerance = 1.0

    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Refuse what is not quantized."""
        raise Unsupported("it convolves quantized arrays only")

    @abstractmethod
    def prepare_quantized(self, problem: Problem, layer: Quantized, threads: int) -> Prepared:
        """Do, untimed, all that a user of the engine does once.

        The result that `Prepared.to_nchw` gives has the type of the input.

        Raises
        ------
        Unsupported
            If the engine cannot run such a problem.
        """
