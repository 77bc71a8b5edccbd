"""`qmatmul` and `matmul_integer`: quantized products of matrices with ONNX's arguments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from .._records import record
from ..arguments import checks
from ..arguments.argument_names import named
from ..memory.array_like import array_of, renewed, run_no_code
from ..memory.arrays import check_out, empty_aligned
from ..memory.namespaces import as_given
from ..ops import matrices
from ..ops.quantized import quantization, quantized_matrices, quantized_output
from ..ops.quantized.quantization import DTYPES, OUTPUTS, Array
from ..ops.quantized.quantized_matrices import Shape, Side
from ..ops.quantized.quantized_run import QuantizedMatrix

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from .layer import _ArrayLike, _Clamp


def matmul_integer(
    a: _ArrayLike,
    b: _ArrayLike,
    a_zero_point: _ArrayLike | None = 0,
    b_zero_point: _ArrayLike | None = 0,
    *,
    threads: SupportsIndex | None = None,
    out: Array | None = None,
) -> Array:
    """Multiply matrices of integers: ONNX's MatMulInteger, the exact sums in int32.

    Parameters
    ----------
    a : array_like, shape (..., M, K) or (K,)
        uint8 or int8.
    b : array_like, shape (..., K, N) or (K,)
        uint8 or int8. It is packed in the call. Batches are broadcast as in `numpy.matmul`.
    a_zero_point : int or array_like, optional
        Subtracted from `a`: one, or one for each row, of shape (M,) for a single matrix, else
        (..., M, 1).
    b_zero_point : int or array_like, optional
        Subtracted from `b`: one, or one for each column, of shape (N,) for a single matrix, else
        (..., 1, N).
    threads : int, optional
        As in `matmul`.
    out : ndarray of int32, optional
        Written and returned; C-contiguous, native, and apart from every operand.

    Returns
    -------
    ndarray of int32
        Shape (..., M, N), as `numpy.matmul` has it. Of the library of `a`, as in `conv2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described, or a sum could leave int32 for some `a` of its type;
        the message names the argument, and `out` is untouched.
    MemoryError
        If memory for the output, the packed matrix or the scratch cannot be had.

    See Also
    --------
    qmatmul : with scales.

    References
    ----------
    .. [1] https://onnx.ai/onnx/operators/onnx__MatMulInteger.html

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> a = np.array([[1, 2], [3, 4]], np.uint8)
    >>> b = np.array([[1, -1], [2, -2]], np.int8)
    >>> pplconv.matmul_integer(a, b, a_zero_point=1)
    array([[ 2, -2],
           [ 8, -8]], dtype=int32)
    """
    product = _Product.of(a, b, a_zero_point, b_zero_point, others=(threads,))
    return as_given(a, product.finished(None, "s32", None, None, threads, out), out)


def qmatmul(
    a: _ArrayLike,
    a_scale: _ArrayLike,
    a_zero_point: _ArrayLike | None,
    b: _ArrayLike,
    b_scale: _ArrayLike,
    b_zero_point: _ArrayLike | None,
    y_scale: _ArrayLike | None = None,
    y_zero_point: _ArrayLike | None = None,
    bias: _ArrayLike | None = None,
    *,
    activation: _Clamp = None,
    out_dtype: DTypeLike | None = None,
    threads: SupportsIndex | None = None,
    out: Array | None = None,
) -> Array:
    """Multiply quantized matrices: ONNX's QLinearMatMul, with its order of arguments.

    Numbers q of the arrays stand for ``scale * (q - zero_point)``. The sums are exact, and results
    are the same bit for bit on every CPU and for every team; docs/quantization.md has the contract.

    Parameters
    ----------
    a : array_like, shape (..., M, K) or (K,)
        uint8 or int8.
    a_scale, a_zero_point : number or array_like
        One, or one for each row, of shape (M,) for a single matrix, else (..., M, 1). A zero point
        of None is 0.
    b : array_like, shape (..., K, N) or (K,)
        uint8 or int8. It is packed in the call. Batches are broadcast as in `numpy.matmul`.
    b_scale, b_zero_point : number or array_like
        One, or one for each column, of shape (N,) for a single matrix, else (..., 1, N).
    y_scale, y_zero_point : number or array_like
        Likewise for rows of the result; `y_scale` is None if it is int32 or float32.
    bias : array_like, shape (N,), optional
        int32, in units of ``a_scale * b_scale``. Or float32, in real units, if `a` has a single
        scale and `b` is a single matrix: it is divided by these units and rounded to int32, ties to
        even.
    activation : optional
        None, ``"relu"``, ``"relu6"`` or ``("clip", low, high)``, in real units.
    out_dtype : {uint8, int8, int32, float32}, optional
        Of the result. int32: the sums with the bias. float32: real units. None: the type of
        `y_zero_point` if it is NumPy's, else that of `a`.
    threads : int, optional
        As in `matmul`.
    out : ndarray, optional
        Written and returned; C-contiguous, native, and apart from every operand.

    Returns
    -------
    ndarray
        Shape (..., M, N), as `numpy.matmul` has it. Of the library of `a`, as in `conv2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described, a scale is not more than 0 and finite, a zero point is
        out of range, or a sum could leave int32 for some `a` of its type; the message names the
        argument, and `out` is untouched.
    MemoryError
        If memory for the output, the packed matrix or the scratch cannot be had.

    See Also
    --------
    matmul_integer : the sums alone.

    Notes
    -----
    Scales and zero points for each row of `a` or of the result are slower than one for all: NumPy
    then requantizes the sums, by the same contract.

    References
    ----------
    .. [1] https://onnx.ai/onnx/operators/onnx__QLinearMatMul.html

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> a = np.array([[129, 130], [131, 132]], np.uint8)
    >>> b = np.array([[1, -1], [2, -2]], np.int8)
    >>> pplconv.qmatmul(a, 0.5, 128, b, 0.25, 0, 0.25, np.int8(3))
    array([[ 5,  1],
           [ 9, -3]], dtype=int8)
    """
    others = a_scale, b_scale, y_scale, y_zero_point, bias, activation, out_dtype, threads
    product = _Product.of(a, b, a_zero_point, b_zero_point, a_scale, b_scale, others)
    if out_dtype is not None:
        kind = quantization.dtype_named("out_dtype", out_dtype, OUTPUTS)
    else:
        kind = quantization.own_type(y_zero_point) or product.a_kind
    y = None
    if kind in quantization.RANGES:
        shapes = quantized_matrices.rows_of(product.full)
        y = quantized_matrices.side("y", kind, y_zero_point, y_scale, shapes, rows=True)
    elif y_scale is not None:
        raise ValueError(f"y_scale must be None for {DTYPES[kind]} outputs")
    elif y_zero_point is not None and np.any(array_of(y_zero_point, "y_zero_point") != 0):
        raise ValueError(f"y_zero_point must be None or 0 for {DTYPES[kind]} outputs")
    return as_given(a, product.finished(bias, kind, y, activation, threads, out), out)


@record(frozen=True)
class _Product:
    """Two arrays of matrices of matching shapes, with their zero points and scales.

    Parameters
    ----------
    a, b : ndarray
        At least 2-D; the zero points of `b` are subtracted already.
    a_side, b_side : Side
        Their scales and zero points.
    a_kind : {"u8", "s8"}
        Type of `a`.
    shape : tuple of int
        Of the result as the caller sees it.
    given : (ndarray, ndarray)
        The operands as they were given.
    """

    a: Array
    b: Array
    a_side: Side
    b_side: Side
    a_kind: str
    shape: Shape
    given: tuple[Array, Array]

    @classmethod
    def of(
        cls,
        a: Any,
        b: Any,
        a_zero: Any,
        b_zero: Any,
        a_scale: Any = ...,
        b_scale: Any = ...,
        others: tuple[object, ...] = (),
    ) -> _Product:
        """Check operands with their zero points and scales; ``...`` stands for no scale."""
        a, b = array_of(first := a, "a"), array_of(b, "b")
        given = a, b = renewed(first, a), b
        # Reading the other arguments may run code that changes the operands.
        if not run_no_code(a_zero, b_zero, *others):
            a, b = a.copy(), b.copy()
        a_kind, b_kind = quantization.integer_name(a, "a"), quantization.integer_name(b, "b")
        wide, tall = matrices.matrix_shapes(a.shape, b.shape)
        try:
            batch = np.broadcast_shapes(wide[:-2], tall[:-2])
        except ValueError:
            raise ValueError(
                f"b must have a batch that broadcasts with that of a, got shapes {a.shape} and "
                f"{b.shape}"
            ) from None
        rows, columns = quantized_matrices.rows_of(wide), quantized_matrices.columns_of(tall)
        a_side = quantized_matrices.side("a", a_kind, a_zero, a_scale, rows, rows=True)
        b_side = quantized_matrices.side("b", b_kind, b_zero, b_scale, columns, rows=False)
        moved = quantization.centered(b.reshape(tall), b_side.zeros)
        shape = batch + ((wide[-2],) if a.ndim > 1 else ()) + ((tall[-1],) if b.ndim > 1 else ())
        return cls(a.reshape(wide), moved, a_side, b_side, a_kind, shape, given)

    @property
    def batch(self) -> Shape:
        """Dimensions of the result before those of matrices."""
        return np.broadcast_shapes(self.a.shape[:-2], self.b.shape[:-2])

    @property
    def full(self) -> Shape:
        """Shape of the result with both dimensions of matrices."""
        return (*self.batch, self.a.shape[-2], self.b.shape[-1])

    def finished(
        self,
        bias: Any,
        kind: str,
        y: Side | None,
        activation: Any,
        threads: SupportsIndex | None,
        out: Array | None,
    ) -> Array:
        """Compute, and store to `out` or a new array."""
        columns = self.b.shape[-1]
        with named(x_scale="a_scale", w_scale="b_scale"):
            offset = quantization.quantized_bias(bias, columns, self._units())
            multiplier = self._multiplier(kind, y)
        y_scale = None if y is None else y.scale
        zeros = np.zeros((), np.int64) if y is None else y.zeros
        low, high = quantized_output.clamp(activation, columns, y_scale, kind, zeros)
        quantized_matrices.check_sums(self.a_kind, self.a_side.zeros, self.b, offset)
        threads = checks.check_threads(threads)
        if out is None:
            result = empty_aligned(self.shape, DTYPES[kind])
        else:
            operands = {"a": self.given[0], "b": self.given[1], "bias": bias}
            result = check_out(out, self.shape, DTYPES[kind], **operands)
        stored = result.reshape(self.full)
        if self.a_side.single and (y is None or y.single) and stored.size and self.a.size:
            with named(input="a", weight="b"):
                self._run(stored, threads, {
                    "x_zero": int(self.a_side.zeros.reshape(())), "offset": offset,
                    "out_dtype": kind, "y_zero": int(zeros.reshape(())),
                    "low": np.float32(low.reshape(())), "high": np.float32(high.reshape(())),
                }, multiplier)  # fmt: skip
            return result
        sums = np.zeros(self.full, np.int32)
        if sums.size and self.a.size:
            plain = {
                "x_zero": 0, "offset": np.zeros(columns, np.int32), "out_dtype": "s32",
                "y_zero": 0, "low": np.float32(-math.inf), "high": np.float32(math.inf),
            }  # fmt: skip
            with named(input="a", weight="b"):
                self._run(sums, threads, plain, None)
        sums = quantized_matrices.moved_by_rows(sums, self.a_side.zeros, self.b, offset)
        if multiplier is None:
            stored[...] = sums
        else:
            stored[...] = quantized_matrices.requantized(sums, multiplier, zeros, (low, high), kind)
        return result

    def _units(self) -> Array | None:
        """Value of a unit of each column's sum, in float64; None unless columns alone decide it."""
        a, b = self.a_side.scale, self.b_side.scale
        if a is None or b is None or a.size != 1 or b.size not in (1, self.b.shape[-1]):
            return None
        return np.broadcast_to(
            a.reshape(()).astype(np.float64) * b.reshape(-1).astype(np.float64), (self.b.shape[-1],)
        )

    def _multiplier(self, kind: str, y: Side | None) -> Array | None:
        """Multipliers that broadcast to all results; None for int32 sums."""
        if kind == "s32":
            return None
        assert self.a_side.scale is not None and self.b_side.scale is not None
        y_scale = None if y is None else y.scale
        return quantized_output.multipliers(self.a_side.scale, self.b_side.scale, y_scale)

    def _run(
        self, y: Array, threads: int | None, settings: dict[str, Any], multiplier: Array | None
    ) -> None:
        """Compute each product by a kernel on its right matrix."""
        k, n = self.b.shape[-2:]
        count = math.prod(self.b.shape[:-2])
        rights = self.b.reshape(count, k, n)
        scales = None
        if multiplier is not None:
            full = np.broadcast_to(multiplier, (*self.b.shape[:-2], 1, n))
            scales = np.ascontiguousarray(full.reshape(count, n))
        lefts = np.broadcast_to(self.a, (*self.batch, *self.a.shape[-2:]))
        numbers = np.broadcast_to(np.arange(count).reshape(self.b.shape[:-2]), self.batch)
        for number in range(count):
            kernel = QuantizedMatrix(
                weight=np.ascontiguousarray(rights[number]), x_dtype=self.a_kind, threads=threads,
                multiplier=None if scales is None else scales[number],
                residual_scale=None, residual_zero=0, once=True, **settings,
            )  # fmt: skip
            if count == 1:
                kernel(lefts.reshape(-1, k), None, y.reshape(-1, n))
                continue
            for at in np.argwhere(numbers == number):
                kernel(lefts[tuple(at)], None, y[tuple(at)])
