"""The matrix problem: products with a packed matrix, which pointwise convolutions are too.

`matmul` and `Linear` make such problems directly; for a convolution that runs through the GEMM
nest, `ConvProblem.matrix` is its matrix problem.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ._records import record
from .geometry import Geometry, Memory, Strides
from .numerics import TYPES, Numerics, default_permission, numerics_of
from .sparsity import Sparsity, checked_sparsity

__all__ = ["MatrixProblem"]

_SIZE = r"([0-9]{1,18})"
_SPARSE = r"(?:sb([0-9]{1,2})sd([0-9]{1,4}))?"
# Compiled where a text is parsed.
_FIELDS = rf"(?:mb{_SIZE})?(?:g{_SIZE})?m{_SIZE}n{_SIZE}k{_SIZE}{_SPARSE}"

# Stands for the strides of dense matrices, which follow from the sizes.
_DENSE = Strides(-1, -1, -1, -1)


@record(frozen=True)
class MatrixProblem:
    """Products C = A B with B packed beforehand and A read where it lies.

    There are `images` times `groups` products. The products of one group share their B.

    Parameters
    ----------
    m, n, k : int
        A is (m, k), B is (k, n), C is (m, n).
    images, groups : int
        Products that share one B, and how many B there are.
    dtype : str
        Of the arrays: ``"f16"``, ``"f32"`` or ``"f64"``.
    permitted : tuple of str
        Types of arithmetic that are allowed; see `ConvProblem`.
    a, b, c : Strides, optional
        How the matrices lie; rows of A are m, of B k, of C m. By default all are dense, A
        (images, groups, m, k), B (groups, n, k) as ``torch.nn.Linear`` has it, and C
        (images, groups, m, n).
    a_in_rows, c_in_rows : bool
        Whether the elements of a row of A and of C are neighbours, rather than those of a column.
    destination : str
        Of C, if not `dtype`; see `ConvProblem`.
    sparsity : Sparsity, optional
        How sparse B is; see `ConvProblem`.
    prepacked : bool
        Whether B is packed before the product. If not, each task reads it where it lies, or packs
        the part that it needs.
    """

    m: int
    n: int
    k: int
    images: int = 1
    groups: int = 1
    dtype: str = "f32"
    permitted: tuple[str, ...] = ()
    a: Strides = _DENSE
    b: Strides = _DENSE
    c: Strides = _DENSE
    a_in_rows: bool = True
    c_in_rows: bool = True
    destination: str = ""
    sparsity: Sparsity | None = None
    prepacked: bool = True

    def __post_init__(self) -> None:
        """Fill in defaults that depend on other fields."""
        if not self.permitted:
            object.__setattr__(self, "permitted", default_permission(self.dtype))
        m, n, k, groups = self.m, self.n, self.k, self.groups
        for name, dense in (
            ("a", Strides(groups * m * k, m * k, k, 1)),
            ("b", Strides(0, n * k, 1, k)),
            ("c", Strides(groups * m * n, m * n, n, 1)),
        ):
            if getattr(self, name) is _DENSE:
                object.__setattr__(self, name, dense)

    @classmethod
    def parse(cls, text: str, dtype: str = "f32") -> MatrixProblem:
        """Read a problem such as ``m64n512k256``, maybe with ``mb`` images and ``g`` groups before.

        Its matrices are dense, and B has the layout (n, k); ``sb4sd250`` at the end says that B is
        sparse, as for convolutions.

        Raises
        ------
        ValueError
            If it is not written so, or a size is 0.
        """
        match = re.fullmatch(_FIELDS, text.strip())
        if match is None:
            raise ValueError(f"{text!r} is no matrix problem: expected m...n...k...")
        images, groups, m, n, k = (1 if s is None else int(s) for s in match.groups()[:5])
        sparsity = None if match[6] is None else checked_sparsity(int(match[6]), int(match[7]))
        if min(images, groups, m, n, k) < 1:
            raise ValueError(f"{text!r} has a size of 0: expected at least 1")
        if dtype not in TYPES:
            raise ValueError(f"no such dtype: {dtype!r}")
        return cls(m, n, k, images, groups, dtype, sparsity=sparsity)

    @property
    def flops(self) -> int:
        """Floating-point operations, an FMA counted as two."""
        return 2 * self.images * self.groups * self.m * self.n * self.k

    @property
    def numerics(self) -> tuple[Numerics, ...]:
        """The `Numerics` of each permitted type of arithmetic, the preferred one first."""
        return tuple(
            numerics_of(self.dtype, computed, self.destination) for computed in self.permitted
        )

    @property
    def layout_text(self) -> str:
        """Which index runs fastest in A, B and C, and how far rows are apart where they have gaps.

        ``"mk.nk.mn"`` is dense: A (m, k), B (n, k), C (m, n).
        """
        dense = replace(self, a=_DENSE, b=_DENSE, c=_DENSE)
        order = ".".join(
            (
                "mk" if self.a_in_rows else "km",
                "nk" if self.b.row == 1 else "kn",
                "mn" if self.c_in_rows else "nm",
            )
        )
        apart = self.a.row if self.a_in_rows else self.a.column
        if self.a != dense.a and apart:
            order += f" ld{apart}"
        return order if self.prepacked else f"{order} unpacked"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of A, where it is dense."""
        return (self.images * self.groups * self.m, self.k)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Shape of B, where it is dense."""
        return (self.groups * self.n, self.k)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of C, where it is dense."""
        return (self.images * self.groups * self.m, self.n)

    @property
    def matrix(self) -> MatrixProblem:
        """Itself: the counterpart of `ConvProblem.matrix`."""
        return self

    # The problem as the loops see it: rows of A are the pixels of an image with one row, and k are
    # its channels.

    @property
    def batch(self) -> int:
        """Images."""
        return self.images

    @property
    def ic(self) -> int:
        """Input channels over all groups."""
        return self.groups * self.k

    @property
    def oc(self) -> int:
        """Output channels over all groups."""
        return self.groups * self.n

    @property
    def block(self) -> int:
        """Zero: channels do not lie in blocks."""
        return 0

    @property
    def input_pixels(self) -> int:
        """Pixels of an image."""
        return self.m

    @property
    def output_pixels(self) -> int:
        """Pixels of an image."""
        return self.m

    @property
    def is_pointwise(self) -> bool:
        """True: A is read where it lies."""
        return True

    @property
    def geometry(self) -> Geometry:
        """An image of one column, or of one row if its pixels are neighbours."""
        if self.a_in_rows:
            return Geometry(self.m, 1, self.m, 1)
        return Geometry(1, self.m, 1, self.m)

    def input_memory(self, element: int) -> Memory:
        """Strides of A, given the bytes of an element."""
        return _memory(self.a, self.a_in_rows, element, self.m, self.k)

    def output_memory(self, element: int) -> Memory:
        """Strides of C, given the bytes of an element."""
        return _memory(self.c, self.c_in_rows, element, self.m, self.n)

    def __str__(self) -> str:
        """Write the problem in one line: ``m64n512k256``, images and groups before if there are."""
        images = f"mb{self.images}" if self.images > 1 else ""
        groups = f"g{self.groups}" if self.groups > 1 else ""
        sparse = self.sparsity.text if self.sparsity else ""
        return f"{images}{groups}m{self.m}n{self.n}k{self.k}{sparse}"


def _memory(strides: Strides, in_rows: bool, element: int, pixels: int, channels: int) -> Memory:
    image, pixel = strides.image * element, strides.row * element
    if in_rows:
        return Memory(image, 0, pixel, pixel, max(channels, 1))
    # This also holds if the other matrix makes the image a column: its rows are pixels then.
    return Memory(image, strides.column * element, pixel, pixel, 1)
