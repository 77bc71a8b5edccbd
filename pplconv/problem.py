"""The problem: everything that decides the result of a convolution, not how it is computed."""

from __future__ import annotations

import re
from typing import TypeAlias

from ._lazy import lazy
from ._records import record
from .geometry import Geometry, Memory, Strides
from .matrix_problem import MatrixProblem
from .numerics import TYPES, Numerics, default_permission, numerics_of
from .sparsity import SCALE, Sparsity, checked_sparsity

LAYOUTS = ("NCHW", "NHWC", "NCHWc")
# Channels in one block of NCHWc, at most.
LARGEST_BLOCK = 64

# Offsets inside one channel plane are 32-bit in the kernels' tables.
LARGEST_PLANE = 2**31 - 2**20
# Byte counts and products of sizes stay well inside 64 bits.
LARGEST_PRODUCT = 2**62


# Two-letter names come first, so that "g" cannot match inside a longer word. Compiled at first use:
# most programs write problems and read none.
_FIELD = r"(mb|ic|ih|iw|oc|oh|ow|kh|kw|sh|sw|ph|pw|dh|dw|sb|sd|g)([0-9]{1,18})"
_NAME = r'n"([^"]*)"'
_REQUIRED = ("mb", "ic", "ih", "oc", "kh")


def split_name(text: str) -> tuple[str, str]:
    """Cut a problem string into its sizes and its name, which may be empty.

    Raises
    ------
    ValueError
        If the text after the sizes is not a name.
    """
    sizes, mark, _ = text.strip().partition('n"')
    name = text.strip()[len(sizes) :]
    match = re.fullmatch(_NAME, name)
    if mark and match is None:
        raise ValueError(f'{name!r} is no name: expected n"..."')
    return sizes, match[1] if match is not None else ""


def dimensions(layout: str) -> int:
    """Dimensions of a batched input in `layout`."""
    return 5 if layout == "NCHWc" else 4


@record(frozen=True)
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
        Of the arrays: ``"f16"``, ``"f32"`` or ``"f64"``.
    layout : str
        ``"NCHW"``, ``"NHWC"`` or ``"NCHWc"``, of input and output alike.
    block : int
        Elements of one channel block, of input and output alike; 0 for the other layouts.
    permitted : tuple of str
        Kinds of product that are allowed, the preferred one first: `dtype`. ``"f16"`` and
        ``"f32"`` also allow each other, and the kinds of bfloat16. By default `default_permission`.
    destination : str
        Type of the output, if not `dtype`: integer inputs may have outputs of ``"u8"``, ``"s8"``,
        ``"s32"`` and ``"f32"``.
    sparsity : Sparsity, optional
        How sparse the weights are, if loops may leave their zeros out.
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
    permitted: tuple[str, ...] = ()
    destination: str = ""
    sparsity: Sparsity | None = None

    def __post_init__(self) -> None:
        if not self.permitted:
            object.__setattr__(self, "permitted", default_permission(self.dtype))

    @classmethod
    def parse(
        cls, text: str, dtype: str = "f32", layout: str = "NCHW", block: int = 0
    ) -> ConvProblem:
        """Read a problem as oneDNN's benchdnn writes it, such as ``mb1ic64ih56oc64kh3ph1``.

        ``mb``, ``ic``, ``ih``, ``oc`` and ``kh`` must be given. A missing ``iw``, ``ow``, ``kw``,
        ``sw``, ``pw`` or ``dw`` equals its vertical counterpart; a missing stride is 1, a missing
        padding or dilation 0 (dense), a missing ``g`` 1. Padding is the same on both sides,
        unless ``oh`` or ``ow`` implies more or less of it at the bottom or right.
        ``sb4sd250`` means that weights are pruned in blocks of 4 output channels, and that 250
        thousandths of them are stored; without it weights are dense.

        Parameters
        ----------
        text : str
            The problem; a name (``n"..."``) at its end is left out.
        dtype, layout : str
            Not part of the text.
        block : int
            Channels of one block, for layout NCHWc.

        Returns
        -------
        ConvProblem
            ``str`` of it gives all fields; parsed again, they give an equal problem.

        Raises
        ------
        ValueError
            If a field is unknown, missing, given twice or impossible.
        """
        fields = _fields(split_name(text)[0])
        ih, kh = fields["ih"], fields["kh"]
        groups, sh = fields.get("g", 1), fields.get("sh", 1)
        ph, dh = fields.get("ph", 0), fields.get("dh", 0)
        iw, kw = fields.get("iw", ih), fields.get("kw", kh)
        stride = sh, fields.get("sw", sh)
        dilation = dh + 1, fields.get("dw", dh) + 1
        begin = ph, fields.get("pw", ph)
        outs = fields.get("oh"), fields.get("ow", fields.get("oh"))
        sides, sizes = [], []
        for axis in (0, 1):
            size, kernel, out = (ih, iw)[axis], (kh, kw)[axis], outs[axis]
            reach = (kernel - 1) * dilation[axis] + 1
            end, found = begin[axis], _out(size + 2 * begin[axis], reach, stride[axis])
            if out is not None and out != found:
                end = max((out - 1) * stride[axis] + reach - size - begin[axis], 0)
                found = _out(size + begin[axis] + end, reach, stride[axis])
            name = ("oh", "ow")[axis]
            if found < 1:
                raise ValueError(f"{name} would be {found}: the kernel outgrows the padded input")
            if out is not None and out != found:
                raise ValueError(f"{name} is {out}, but the other sizes give at least {found}")
            sides.append((begin[axis], end))
            sizes.append(found)
        for key in ("ic", "oc"):
            if fields[key] % groups:
                raise ValueError(f"{key} is {fields[key]}, no multiple of g, {groups}")
        if dtype not in TYPES or layout not in LAYOUTS:
            raise ValueError(f"no such dtype or layout: {dtype!r}, {layout!r}")
        if not (1 <= block <= LARGEST_BLOCK if layout == "NCHWc" else block == 0):
            raise ValueError(f"block is {block}, which layout {layout} does not have")
        return cls(
            fields["mb"], groups, fields["ic"], ih, iw, fields["oc"], sizes[0], sizes[1], kh, kw,
            stride, dilation, (sides[0], sides[1]), dtype, layout, block,
            sparsity=_sparsity(fields),
        )  # fmt: skip

    @property
    def k(self) -> int:
        """Length of one output element's sum: (ic / groups) * kh * kw."""
        return self.ic // self.groups * self.kh * self.kw

    @property
    def flops(self) -> int:
        """Floating-point operations, an FMA counted as two."""
        return 2 * self.batch * self.oc * self.oh * self.ow * self.k

    @property
    def numerics(self) -> tuple[Numerics, ...]:
        """The `Numerics` of each permitted type of arithmetic, the preferred one first."""
        return tuple(
            numerics_of(self.dtype, computed, self.destination) for computed in self.permitted
        )

    @property
    def is_pointwise(self) -> bool:
        """Whether the output is a matrix product of the user's array, read where it lies."""
        return (
            (self.kh, self.kw) == (1, 1)
            and self.stride == (1, 1)
            and self.padding == ((0, 0), (0, 0))
        )

    @lazy
    def geometry(self) -> Geometry:
        """Sizes of image and windows."""
        (top, _), (left, _) = self.padding
        return Geometry(
            self.ih, self.iw, self.oh, self.ow, self.kh, self.kw,
            *self.stride, *self.dilation, top, left,
        )  # fmt: skip

    @property
    def input_pixels(self) -> int:
        """Pixels of one image."""
        return self.ih * self.iw

    @property
    def output_pixels(self) -> int:
        """Pixels of one image."""
        return self.oh * self.ow

    @lazy
    def matrix(self) -> MatrixProblem:
        """The convolution as a matrix problem: rows of A are the pixels' windows.

        B are the weights. In NHWC pixels run on from one image to the next, so all images are one.
        Only a pointwise convolution has A in memory: `a` has the strides of its channels.
        """
        oc, ic = self.oc // self.groups, self.ic // self.groups
        inputs, outputs = self.input_pixels, self.output_pixels
        b = Strides(0, oc * self.k, 1, self.k)
        if self.layout == "NCHW":
            a = Strides(self.ic * inputs, ic * inputs, 1, inputs)
            c = Strides(self.oc * outputs, oc * outputs, 1, outputs)
        else:
            a = Strides(self.ic * inputs, ic, self.ic, 1)
            c = Strides(self.oc * outputs, oc, self.oc, 1)
        images, m, in_rows = self.batch, outputs, self.layout != "NCHW"
        if self.layout == "NHWC":
            images, m = 1, self.batch * outputs
        return MatrixProblem(
            m, oc, self.k, images, self.groups, self.dtype, self.permitted, a, b, c,
            in_rows, in_rows, self.destination, self.sparsity,
        )  # fmt: skip

    def input_memory(self, element: int) -> Memory:
        """Strides of the input, given the bytes of an element."""
        return self.memory(element, self.ic, self.ih, self.iw)

    def output_memory(self, element: int) -> Memory:
        """Strides of the output, given the bytes of an element."""
        return self.memory(element, self.oc, self.oh, self.ow)

    def memory(self, element: int, channels: int, height: int, width: int) -> Memory:
        """Strides of an array of images in this layout, given the bytes of an element."""
        if self.layout == "NCHW":
            plane = height * width * element
            return Memory(channels * plane, plane, width * element, element, 1)
        if self.layout == "NHWC":
            pixel = channels * element
            return Memory(height * width * pixel, 0, width * pixel, pixel, max(channels, 1))
        pixel = self.block * element
        plane = height * width * pixel
        blocks = -(-channels // self.block)
        return Memory(blocks * plane, plane, width * pixel, pixel, self.block)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Shape of the weights."""
        return self.oc, self.ic // self.groups, self.kh, self.kw

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
            f"{self.sparsity.text if self.sparsity else ''}"
        )


def _fields(sizes: str) -> dict[str, int]:
    """The numbers of a problem string, each in its range."""
    fields: dict[str, int] = {}
    position = 0
    while position < len(sizes):
        match = re.match(_FIELD, sizes[position:])
        if match is None:
            raise ValueError(f"{sizes[position:]!r} starts with no known field")
        key = match[1]
        if key in fields:
            raise ValueError(f"{key} is given twice")
        fields[key] = int(match[2])
        if fields[key] < 1 and key[0] not in "pd" and key != "sd":
            raise ValueError(f"{key} is 0: expected at least 1")
        position += match.end()
    missing = [key for key in _REQUIRED if key not in fields]
    if missing:
        raise ValueError(f"{', '.join(missing)} missing")
    return fields


def _sparsity(fields: dict[str, int]) -> Sparsity | None:
    """Return the sparsity of weights from the fields of a problem string."""
    if "sb" not in fields and "sd" not in fields:
        return None
    return checked_sparsity(fields.get("sb", 1), fields.get("sd", SCALE))


def _out(padded: int, reach: int, stride: int) -> int:
    """Output size; 0 if the kernel does not fit."""
    return max((padded - reach) // stride + 1, 0)


# Problems that can be planned.
Problem: TypeAlias = ConvProblem | MatrixProblem
