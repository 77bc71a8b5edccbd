"""The problem: everything that decides what a convolution computes, and nothing of how."""

from __future__ import annotations

from dataclasses import dataclass

LAYOUTS = ("NCHW", "NHWC", "NCHWc")
# Channels in one block of NCHWc, at most.
LARGEST_BLOCK = 64
DTYPES = {"f32": 4, "f64": 8}

# Offsets inside one channel plane are 32-bit in the kernels' tables.
LARGEST_PLANE = 2**31 - 2**20
# Byte counts and products of sizes stay well inside 64 bits.
LARGEST_PRODUCT = 2**62


def dimensions(layout: str) -> int:
    """Dimensions of a batched input in `layout`."""
    return 5 if layout == "NCHWc" else 4


@dataclass(frozen=True)
class ConvProblem:
    """One 2-D convolution, fully specified.

    Parameters
    ----------
    batch, groups : int
        Images and groups.
    ic, oc : int
        Input and output channels over all groups.
    ih, iw, oh, ow, kh, kw : int
        Heights and widths of input, output and kernel, in pixels.
    stride, dilation : tuple of (int, int)
        Vertical, horizontal; dilation 1 is dense.
    padding : tuple of ((int, int), (int, int))
        ((top, bottom), (left, right)), in pixels.
    dtype : str
        ``"f32"`` or ``"f64"``.
    layout : str
        ``"NCHW"``, ``"NHWC"`` or ``"NCHWc"``, of input and output alike.
    block : int
        Elements of one channel block, of input and output alike; 0 for the other layouts.
    """

    batch: int
    groups: int
    ic: int
    ih: int
    iw: int
    oc: int
    oh: int
    ow: int
    kh: int
    kw: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]
    dtype: str
    layout: str
    block: int = 0

    @property
    def k(self) -> int:
        """Length of one output element's sum: (ic / groups) * kh * kw."""
        return self.ic // self.groups * self.kh * self.kw

    @property
    def flops(self) -> int:
        """Floating-point operations, an FMA counted as two."""
        return 2 * self.batch * self.oc * self.oh * self.ow * self.k

    @property
    def element(self) -> int:
        """Bytes of one element."""
        return DTYPES[self.dtype]

    @property
    def is_pointwise(self) -> bool:
        """Whether the output is a matrix product of the user's array as it lies."""
        return (
            (self.kh, self.kw) == (1, 1)
            and self.stride == (1, 1)
            and self.padding == ((0, 0), (0, 0))
        )

    @property
    def layout_text(self) -> str:
        """The layout with its block, as oneDNN writes it in capitals: ``"NCHW16c"``."""
        return f"NCHW{self.block}c" if self.layout == "NCHWc" else self.layout

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the batched input in this layout."""
        return self._shape(self.ic, self.ih, self.iw)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the batched output in this layout."""
        return self._shape(self.oc, self.oh, self.ow)

    def _shape(self, channels: int, height: int, width: int) -> tuple[int, ...]:
        if self.layout == "NCHWc":
            return self.batch, -(-channels // self.block), height, width, self.block
        if self.layout == "NHWC":
            return self.batch, height, width, channels
        return self.batch, channels, height, width

    def __str__(self) -> str:
        """Write the problem in one line, as oneDNN's benchdnn does (dilation 0 is dense)."""
        (top, _), (left, _) = self.padding
        return (
            f"mb{self.batch}g{self.groups}"
            f"ic{self.ic}ih{self.ih}iw{self.iw}oc{self.oc}oh{self.oh}ow{self.ow}"
            f"kh{self.kh}kw{self.kw}sh{self.stride[0]}sw{self.stride[1]}"
            f"ph{top}pw{left}dh{self.dilation[0] - 1}dw{self.dilation[1] - 1}"
        )
