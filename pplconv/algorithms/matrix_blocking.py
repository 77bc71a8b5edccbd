"""The common part of blockings of matrix products: the GEMM nest's, and those of sparse weights.

A convolution is such a product too: output pixels are the rows, output channels the columns, and A
has windows of the image.
"""

from __future__ import annotations

from typing import Any

from .._lazy import lazy
from ..geometry import Geometry
from ..matrix_problem import MatrixProblem
from .candidate import EXACT, Candidate, is_padded
from .error_bounds import direct_error_bound

RUN_BYTES = 16  # struct pplconv_run
SLAB_BYTES = 16384  # converted planes on their way into packed pixels: they stay in L1


class MatrixBlocking(Candidate):
    """One way to multiply a problem's matrices, with each sum in one chain."""

    pixels_run_on = True

    @property
    def multiplies_padding(self) -> bool:
        """True if there is padding: rows of A are whole windows, with zeros outside images."""
        return is_padded(self.problem)

    @lazy
    def matrix(self) -> MatrixProblem:
        """The matrices that are multiplied."""
        return self.problem.matrix

    @lazy
    def geometry(self) -> Geometry:
        """Geometry of the convolution: the rows of A are windows of its images."""
        return self.problem.geometry

    @lazy
    def in_rows(self) -> bool:
        """Whether channels of an input pixel are neighbours in memory, maybe only in blocks."""
        return self.matrix.a_in_rows

    @lazy
    def ic(self) -> int:
        """Input channels of one group."""
        return self.problem.ic // self.problem.groups

    @lazy
    def images(self) -> int:
        """Images that the loops treat separately."""
        return self.matrix.images

    @lazy
    def pixels(self) -> int:
        """Output pixels as the loops count them."""
        return self.matrix.m

    @property
    def channels_run(self) -> bool:
        """Whether channels are neighbours in the order of K, rather than taps."""
        return self.in_rows

    @property
    def error_bound(self) -> float:
        """Bound of one chain of FMAs, over all of K."""
        return direct_error_bound(self.matrix.k, self.numerics)

    def order(self, summed: str) -> str:
        """Bits of a sum over `summed` of K: channel by channel in NCHW, else tap by tap."""
        if self.numerics.exact:
            return EXACT
        order = "kh, kw, c" if self.channels_run else "c, kh, kw"
        if self.problem is self.matrix:
            order = "k"
        return f"sum over {summed}{order}{self.numerics.order}"

    def own_fields(self) -> dict[str, Any]:
        """Collect the fields that all loops over pixels take."""
        return {
            "images": self.images,
            "pixels": self.pixels,
            "x_in_rows": self.in_rows,
            "in_blocks": self.problem.block != 0,
        }
