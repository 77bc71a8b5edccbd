"""Types of `matmul`. Arrays of one dtype give an array of that dtype."""

from typing import SupportsIndex

from numpy.typing import NDArray

from .layer import _Activation, _ArrayLike, _ImagesLike, _Scalar

def matmul(
    a: _ImagesLike[_Scalar],
    b: _ImagesLike[_Scalar],
    *,
    bias: _ArrayLike | None = None,
    residual: _ArrayLike | None = None,
    activation: _Activation = None,
    out: NDArray[_Scalar] | None = None,
    threads: SupportsIndex | None = None,
) -> NDArray[_Scalar]:
    """Multiply matrices, as `numpy.matmul`, maybe with an epilogue in the same pass.

    ``activation(a @ b + bias + residual)``. It keeps only plans: each call packs the operand that
    the loops read packed. A program that uses the same matrix again should make a `Linear`.

    Parameters
    ----------
    a : array_like, shape (..., m, k) or (k,)
        float16, bfloat16 (of the package ml_dtypes), float32 or float64. Anything that
        `numpy.asarray` or DLPack on the CPU takes. Transposed views, rows with gaps and broadcast
        batches are read where they lie.
    b : array_like, shape (..., k, n) or (k,)
        As `a`. Where the dtypes differ, the operand whose type cannot hold the other's numbers is
        converted; float16 with bfloat16 is refused.
    bias : array_like, shape (n,), optional
        Of the result's dtype; added to each row.
    residual : array_like, optional
        Of the result's shape and dtype; added before the activation.
    activation : optional
        Applied last, as in `conv2d`; the slopes of ``("prelu", slope)`` are one for each column, or
        one for all.
    out : ndarray, optional
        Written and returned; C-contiguous, native, and apart from every operand.
    threads : int, optional
        Size of the team, as in `conv2d`. The result's bits do not depend on it.

    Returns
    -------
    ndarray, shape (..., m, n)
        Without m if `a` is a vector, without n if `b` is one. Of the library of `a`, as in
        `conv2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it, and `out` is untouched.
    MemoryError
        If memory for the output, the packed matrix or the scratch cannot be had.

    See Also
    --------
    Linear : the same with the second matrix packed once.

    Notes
    -----
    Every sum is one chain of multiply-adds in ascending order of k, in float64 or float32, or for
    float16 and bfloat16 as in `conv2d`. An infinity or NaN reaches just the results whose row or
    column has it.

    The product is a pointwise convolution, and runs through the same loops: the method, and the
    formulas for its blocks, are those of MegEngine's document on matrix products.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    >>> pplconv.matmul(a, b, bias=np.ones(4, np.float32))[0]
    array([4., 4., 4., 4.], dtype=float32)
    """
