"""``ConvInteger``, ``QLinearConv``, ``MatMulInteger`` and ``QLinearMatMul`` on pplconv."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from onnx.reference.ops.op_conv_integer import ConvInteger as OwnConvInteger
from onnx.reference.ops.op_matmul_integer import MatMulInteger as OwnMatMulInteger
from onnx.reference.ops.op_qlinear_conv import QLinearConv as OwnQLinearConv
from onnx.reference.ops.op_qlinear_matmul import QLinearMatMul as OwnQLinearMatMul

import pplconv
from pplconv.integrations.onnx_reference.convolutions import checked_keywords

__all__ = ["ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"]

_BYTES = (np.dtype(np.uint8), np.dtype(np.int8))


class ConvInteger(OwnConvInteger):
    """The ONNX operator ``ConvInteger`` on `pplconv.conv2d_integer`.

    Attributes
    ----------
    threads, algorithm
        As in `pplconv.conv2d_integer`.
    """

    settings: ClassVar[tuple[str, ...]] = ("threads", "algorithm")
    threads: ClassVar[int | None] = None
    algorithm: ClassVar[Any] = "auto"  # a word of the call, or what a user made of it

    # Capitals and order are the evaluator's: it passes inputs by position, attributes by name.
    def _run(
        self,
        X: np.ndarray,
        W: np.ndarray,
        x_zero_point: np.ndarray | None = None,
        w_zero_point: np.ndarray | None = None,
        **attributes: Any,
    ) -> tuple[np.ndarray]:
        if not _are_bytes(X, W) or X.ndim != 4:
            own: tuple[np.ndarray] = super()._run(X, W, x_zero_point, w_zero_point, **attributes)
            return own
        y = pplconv.conv2d_integer(
            X,
            W,
            _single(x_zero_point),
            _single(w_zero_point),
            **checked_keywords(W, **attributes),
            algorithm=self.algorithm,
            threads=self.threads,
        )
        return (y,)


class QLinearConv(OwnQLinearConv):
    """The ONNX operator ``QLinearConv`` on `pplconv.qconv2d`.

    Attributes
    ----------
    threads, algorithm
        As in `pplconv.qconv2d`.
    """

    settings: ClassVar[tuple[str, ...]] = ("threads", "algorithm")
    threads: ClassVar[int | None] = None
    algorithm: ClassVar[Any] = "auto"  # a word of the call, or what a user made of it

    def _run(
        self,
        x: np.ndarray,
        x_scale: np.ndarray,
        x_zero_point: np.ndarray,
        w: np.ndarray,
        w_scale: np.ndarray,
        w_zero_point: np.ndarray,
        y_scale: np.ndarray,
        y_zero_point: np.ndarray,
        B: np.ndarray | None = None,
        **attributes: Any,
    ) -> tuple[np.ndarray]:
        if not _are_bytes(x, w) or x.ndim != 4:
            own: tuple[np.ndarray] = super()._run(
                x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B,
                **attributes,
            )  # fmt: skip
            return own
        y = pplconv.qconv2d(
            x,
            _single(x_scale),
            _single(x_zero_point),
            w,
            _single(w_scale),
            _single(w_zero_point),
            _single(y_scale),
            _single(y_zero_point),
            B,
            **checked_keywords(w, **attributes),
            algorithm=self.algorithm,
            threads=self.threads,
        )
        return (y,)


class MatMulInteger(OwnMatMulInteger):
    """The ONNX operator ``MatMulInteger`` on `pplconv.matmul_integer`.

    Attributes
    ----------
    threads : int or None
        Team size, as in `pplconv.matmul_integer`.
    """

    settings: ClassVar[tuple[str, ...]] = ("threads",)
    threads: ClassVar[int | None] = None

    def _run(
        self,
        A: np.ndarray,
        B: np.ndarray,
        a_zero_point: np.ndarray | None = None,
        b_zero_point: np.ndarray | None = None,
    ) -> tuple[np.ndarray]:
        if not _are_bytes(A, B):
            own: tuple[np.ndarray] = super()._run(A, B, a_zero_point, b_zero_point)
            return own
        zeros = _single(a_zero_point), _single(b_zero_point)
        return (pplconv.matmul_integer(A, B, *zeros, threads=self.threads),)


class QLinearMatMul(OwnQLinearMatMul):
    """The ONNX operator ``QLinearMatMul`` on `pplconv.qmatmul`.

    Attributes
    ----------
    threads : int or None
        Team size, as in `pplconv.qmatmul`.
    """

    settings: ClassVar[tuple[str, ...]] = ("threads",)
    threads: ClassVar[int | None] = None

    def _run(
        self,
        a: np.ndarray,
        a_scale: np.ndarray,
        a_zero_point: np.ndarray,
        b: np.ndarray,
        b_scale: np.ndarray,
        b_zero_point: np.ndarray,
        y_scale: np.ndarray,
        y_zero_point: np.ndarray,
    ) -> tuple[np.ndarray]:
        arguments = (a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point)
        if not _are_bytes(a, b):
            own: tuple[np.ndarray] = super()._run(*arguments)
            return own
        return (pplconv.qmatmul(*map(_single, arguments), threads=self.threads),)


def _are_bytes(*arrays: np.ndarray) -> bool:
    return all(array.dtype in _BYTES and array.ndim for array in arrays)


def _single(value: np.ndarray | None) -> Any:
    """Drop the dimension of an array of shape (1,), in which models store a single number."""
    return value.reshape(()) if value is not None and value.shape == (1,) else value
