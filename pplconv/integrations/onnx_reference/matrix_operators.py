"""``MatMul`` and ``Gemm`` on `pplconv.matmul`."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from onnx.reference.ops.op_gemm import Gemm_6, Gemm_7
from onnx.reference.ops.op_matmul import MatMul as OwnMatMul

import pplconv

__all__ = ["Gemm", "MatMul"]

_SUPPORTED = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))


class MatMul(OwnMatMul):
    """The ONNX operator ``MatMul`` on `pplconv.matmul`.

    Attributes
    ----------
    threads : int or None
        Team size, as in `pplconv.matmul`.
    """

    settings: ClassVar[tuple[str, ...]] = ("threads",)
    threads: ClassVar[int | None] = None

    def _run(self, a: Any, b: Any) -> tuple[np.ndarray]:
        if not _takes(a, b):
            own: tuple[np.ndarray] = super()._run(a, b)
            return own
        return (pplconv.matmul(a, b, threads=self.threads),)


class Gemm(Gemm_7):
    """The ONNX operator ``Gemm``, ``alpha * A @ B + beta * C``, on `pplconv.matmul`.

    Attributes
    ----------
    threads : int or None
        Team size, as in `pplconv.matmul`.
    """

    settings: ClassVar[tuple[str, ...]] = ("threads",)
    threads: ClassVar[int | None] = None

    # Capitals and order are the evaluator's: it passes inputs by position, attributes by name.
    def _run(
        self,
        a: np.ndarray,
        b: np.ndarray,
        c: np.ndarray | None = None,
        alpha: float | None = None,
        beta: float | None = None,
        transA: int | None = None,
        transB: int | None = None,
        broadcast: int | None = None,
    ) -> tuple[np.ndarray]:
        if broadcast is not None:  # opset 6 alone has it
            early: Any = Gemm_6._run
            old: tuple[np.ndarray] = early(self, a, b, c, alpha, beta, transA, transB, broadcast)
            return old
        if not _takes(a, b) or a.ndim != 2 or b.ndim != 2:
            own: tuple[np.ndarray] = super()._run(a, b, c, alpha, beta, transA, transB)
            return own
        alpha, beta = (1.0 if factor is None else float(factor) for factor in (alpha, beta))
        a, b = a.T if transA else a, b.T if transB else b
        if alpha == beta == 1 and c is not None and c.shape == b.shape[1:] and c.dtype == a.dtype:
            return (pplconv.matmul(a, b, bias=c, threads=self.threads),)
        y = pplconv.matmul(a, b, threads=self.threads)
        if alpha != 1:
            y *= y.dtype.type(alpha)
        if c is not None and beta != 0:
            y += c if beta == 1 else c * y.dtype.type(beta)
        return (y,)


def _takes(a: Any, b: Any) -> bool:
    """Whether both are dense arrays of one type that pplconv multiplies."""
    arrays = isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
    return arrays and a.dtype == b.dtype and a.dtype in _SUPPORTED and a.ndim > 0 and b.ndim > 0
