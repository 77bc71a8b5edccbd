"""Sparse matrices times dense ones: PyTorch's and SciPy's, on the pixels of a 1x1 or on im2col's.

They have no convolution of sparse weights. Their users write one product with the pixels as
columns. Where the kernel is larger than 1x1, strided or padded, each call first makes the matrix of
all patches.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from benchmarks.engines.base import Array32, Engine, Prepared, Unsupported
from benchmarks.problems import Problem


def is_plain(problem: Problem) -> bool:
    """Whether the pixels of the input are the columns of the product as they lie."""
    p = problem
    return (p.kh, p.kw, p.sh, p.sw, p.ph, p.pw) == (1, 1, 1, 1, 0, 0)


def refuse(problem: Problem) -> None:
    """Refuse problems that are not a single product.

    Raises
    ------
    Unsupported
        If there are several images or groups.
    """
    if problem.mb > 1 or problem.groups > 1:
        raise Unsupported("one product is one image and one group")


class TorchCsr(Engine):
    """``torch.sparse``: a CSR matrix times a dense one, by MKL."""

    name = "torch_csr"
    modules = ("torch",)
    distribution = "torch"
    note = "to_sparse_csr() @ pixels (MKL); larger kernels through unfold, in the call"

    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Compress the rows of the weights."""
        import torch

        refuse(problem)
        torch.set_num_threads(threads)
        p = problem
        with warnings.catch_warnings():
            # CSR tensors warn once that they are a beta.
            warnings.simplefilter("ignore")
            rows = torch.from_numpy(w.reshape(p.oc, p.reduction)).to_sparse_csr()
        image = torch.from_numpy(x).clone()
        pixels = image.reshape(p.ic, p.ih * p.iw)
        unfold, inference = torch.nn.functional.unfold, torch.inference_mode
        kernel, dilation = (p.kh, p.kw), (p.dh, p.dw)
        padding, stride = (p.ph, p.pw), (p.sh, p.sw)

        def call() -> Any:
            with inference():
                return rows @ pixels

        def call_unfolded() -> Any:
            with inference():
                return rows @ unfold(image, kernel, dilation, padding, stride)[0]

        def to_nchw(y: Any) -> NDArray[np.generic]:
            array: NDArray[np.generic] = y.numpy().reshape(p.output_shape)
            return array

        return Prepared(call if is_plain(p) else call_unfolded, to_nchw)


class ScipyCsr(Engine):
    """``scipy.sparse``: a CSR matrix times a dense one; it has no threads."""

    name = "scipy_csr"
    modules = ("scipy.sparse",)
    distribution = "scipy"
    note = "csr_array @ pixels, one thread; larger kernels through im2col, in the call"

    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Compress the rows of the weights."""
        refuse(problem)
        p = problem
        rows = self._compress(w.reshape(p.oc, p.reduction))
        pixels = x.reshape(p.ic, p.ih * p.iw)
        padding = ((0, 0), (p.ph, p.ph), (p.pw, p.pw))
        window = ((p.kh - 1) * p.dh + 1, (p.kw - 1) * p.dw + 1)

        def call() -> Any:
            return rows @ pixels

        def call_unfolded() -> Any:
            taps = sliding_window_view(np.pad(x[0], padding), window, axis=(1, 2))
            taps = taps[:, :: p.sh, :: p.sw, :: p.dh, :: p.dw].transpose(0, 3, 4, 1, 2)
            return rows @ taps.reshape(p.reduction, p.oh * p.ow)

        def to_nchw(y: Any) -> NDArray[np.generic]:
            array: NDArray[np.generic] = y.reshape(p.output_shape)
            return array

        return Prepared(call if is_plain(p) else call_unfolded, to_nchw)

    def _compress(self, matrix: Array32) -> Any:
        import scipy.sparse

        return scipy.sparse.csr_array(matrix)


class ScipyBsr(ScipyCsr):
    """Its BSR matrix, whose blocks are those that the weights are pruned in.

    Parameters
    ----------
    block : int
        Output channels of a block.
    """

    def __init__(self, block: int) -> None:
        self.block = block
        self.name = f"scipy_bsr_b{block}"
        self.note = f"bsr_array of blocks {block} x 1 @ pixels, one thread; else as scipy_csr"

    def _compress(self, matrix: Array32) -> Any:
        import scipy.sparse

        if len(matrix) % self.block:
            raise Unsupported(f"{len(matrix)} rows are no blocks of {self.block}")
        return scipy.sparse.bsr_array(matrix, blocksize=(self.block, 1))
