"""Arguments of transposed convolutions: checked, named in every error, made into a problem."""

from __future__ import annotations

import math
from typing import Any

from ..._checks import meant, shown
from ..._records import record
from ...arguments import checks
from ...arguments.checks import PADDING_FORMS, Padding, Pair, Sizes
from ...numerics import TYPES
from ...problem import LARGEST_PLANE, LARGEST_PRODUCT, ConvProblem
from .phases import Axis, output_length

_WORDS = ("valid", "same_upper", "same_lower")
_AXES = ("depths", "rows", "columns")


@record(frozen=True)
class TransposedProblem:
    """One transposed convolution, fully specified.

    Parameters
    ----------
    batch, groups : int
        Images and groups.
    ic, oc : int
        Input and output channels over all groups.
    ih, iw, oh, ow, kh, kw : int
        Heights and widths of input, output and kernel, in pixels.
    stride, dilation : tuple of (int, int)
        Vertical, horizontal: outputs from one input, and from one tap, to the next.
    padding : tuple of ((int, int), (int, int))
        Outputs that are cut off, ((top, bottom), (left, right)).
    dtype, layout, block, permitted
        As in `pplconv.problem.ConvProblem`.
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
    stride: Pair
    dilation: Pair
    padding: Padding
    dtype: str
    layout: str
    block: int
    permitted: tuple[str, ...]

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """Height and width."""
        down, across = self.padding
        return (
            Axis(self.oh, self.ih, self.kh, self.stride[0], self.dilation[0], down[0]),
            Axis(self.ow, self.iw, self.kw, self.stride[1], self.dilation[1], across[0]),
        )

    @property
    def flops(self) -> int:
        """Floating-point operations, an FMA counted as two, if no output is cut off."""
        taps = self.kh * self.kw * (self.oc // self.groups)
        return 2 * self.batch * self.ic * self.ih * self.iw * taps

    def convolution(self, **changes: Any) -> ConvProblem:
        """Make an ordinary convolution of these arrays; by default of one tap at stride 1."""
        fields = {
            "batch": self.batch, "groups": self.groups, "ic": self.ic, "ih": self.ih,
            "iw": self.iw, "oc": self.oc, "oh": self.oh, "ow": self.ow, "kh": 1, "kw": 1,
            "stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)),
            "dtype": self.dtype, "layout": self.layout, "block": self.block,
            "permitted": self.permitted,
        }  # fmt: skip
        return ConvProblem(**{**fields, **changes})

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the batched input in this layout."""
        return self.convolution().input_shape

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the batched output in this layout."""
        return self.convolution().output_shape

    def __str__(self) -> str:
        """Write the problem in one line, as oneDNN's benchdnn does for deconvolutions."""
        (top, _), (left, _) = self.padding
        return (
            f"mb{self.batch}g{self.groups}"
            f"ic{self.ic}ih{self.ih}iw{self.iw}oc{self.oc}oh{self.oh}ow{self.ow}"
            f"kh{self.kh}kw{self.kw}sh{self.stride[0]}sw{self.stride[1]}"
            f"ph{top}pw{left}dh{self.dilation[0] - 1}dw{self.dilation[1] - 1}"
        )


def check_padding(padding: object, count: int = 2) -> tuple[Pair, ...] | str:
    """Return ``padding=`` of a transposed convolution as pairs, one an axis, or as a word.

    Raises
    ------
    TypeError, ValueError
        If it is of no known form, or negative.
    """
    if isinstance(padding, str):
        if padding not in _WORDS:
            raise ValueError(
                f'padding must be {PADDING_FORMS[count]}, "valid", "same_upper" or "same_lower", '
                f"got {shown(padding)}{meant(padding, _WORDS)}"
            )
        return padding
    ones = (1,) * count
    return checks.padded_sides(padding, ones, ones, ones, ones)


def check_output_padding(value: object, stride: Sizes, dilation: Sizes) -> Sizes:
    """Return ``output_padding=`` as one number an axis.

    Raises
    ------
    TypeError, ValueError
        If it is of another form, is negative, or is neither below the stride nor below the
        dilation.
    """
    more = checks.sizes("output_padding", value, 0, len(stride))
    for n, s, d in zip(more, stride, dilation, strict=True):
        if n >= max(s, d):
            raise ValueError(
                f"output_padding must be below the stride or the dilation, got {more} with "
                f"stride {stride} and dilation {dilation}"
            )
    return more


def _sides(
    padding: tuple[Pair, ...] | str, size: Sizes, reach: Sizes, stride: Sizes, more: Sizes
) -> tuple[tuple[Pair, ...], Sizes]:
    """Resolve words as ONNX does; give the outputs cut off, and the outputs added at the end."""
    if padding == "valid":
        return ((0, 0),) * len(size), more
    if not isinstance(padding, str):
        return padding, more
    # The output is as large as input times stride; where the taps do not reach, nothing is cut off.
    ends, behind = [], []
    for n, r, s, m in zip(size, reach, stride, more, strict=True):
        total = (n - 1) * s + r + m - n * s
        small, large = max(total, 0) // 2, -(-max(total, 0) // 2)
        ends.append((small, large) if padding == "same_upper" else (large, small))
        behind.append(m + max(-total, 0))
    return tuple(ends), tuple(behind)


def output_sizes(
    size: Sizes,
    kernel: Sizes,
    *,
    stride: Sizes,
    dilation: Sizes,
    padding: Any,
    output_padding: Any,
    output_size: Any,
) -> tuple[tuple[Pair, ...], Sizes]:
    """Give the outputs cut off and those left, for each spatial axis.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong, or nothing is left.
    """
    more = check_output_padding(output_padding, stride, dilation)
    padding = check_padding(padding, len(size))
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    sides, added = _sides(padding, size, reach, stride, more)
    out = tuple(
        output_length(*axis)
        for axis in zip(size, kernel, stride, dilation, sides, added, strict=True)
    )
    if output_size is not None:
        out = _wanted(output_size, out, stride, added)
    if min(out) < 1:
        whole = [left + sum(cut) for left, cut in zip(out, sides, strict=True)]
        names = _AXES[-len(out) :]
        of = " and ".join(f"{n} {name}" for n, name in zip(whole, names, strict=True))
        raise ValueError(f"padding leaves no output: {sides} of {of}")
    return sides, out


def make_transposed(
    input_shape: tuple[int, ...],
    weight_shape: tuple[int, ...],
    dtype: str,
    *,
    stride: Any,
    padding: Any,
    output_padding: Any,
    output_size: Any,
    dilation: Any,
    groups: Any,
    layout: Any,
    permitted: tuple[str, ...] = (),
) -> TransposedProblem:
    """Check shapes and geometry, and make the problem of a batched input.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong; the message names it, with its value and the expected one.
    """
    layout = checks.check_layout(layout)
    groups = checks.integer("groups", groups, 1)
    stride = checks.pair("stride", stride, 1)
    dilation = checks.pair("dilation", dilation, 1)
    more = check_output_padding(output_padding, stride, dilation)
    padding = check_padding(padding)
    checks.check_weight_shape(weight_shape, groups, transposed=True)
    ic, oc_group, kh, kw = weight_shape
    # A convolution of one tap has the same requirements for inputs.
    seen = checks.make_problem(
        input_shape, (groups, ic // groups, 1, 1), dtype, stride=1, padding=0, dilation=1,
        groups=groups, layout=layout, permitted=permitted,
    )  # fmt: skip
    size = seen.ih, seen.iw
    (down, across), out = output_sizes(
        size, (kh, kw), stride=stride, dilation=dilation, padding=padding, output_padding=more,
        output_size=output_size,
    )  # fmt: skip
    problem = TransposedProblem(
        seen.batch, groups, ic, *size, oc_group * groups, out[0], out[1], kh, kw, stride, dilation,
        (down, across), dtype, layout, seen.block, seen.permitted,
    )  # fmt: skip
    _check_sizes(problem)
    return problem


def _wanted(output_size: Any, out: Sizes, stride: Sizes, more: Sizes) -> Sizes:
    """Check ``output_size=``: a size whose convolution gives an input of this size."""
    wanted = checks.sizes("output_size", output_size, 1, len(out))
    if any(more):
        raise ValueError(f"output_size must be None where output_padding is given, got {wanted}")
    for n, least, s in zip(wanted, out, stride, strict=True):
        if not least <= n < least + s:
            most = tuple(size + s - 1 for size, s in zip(out, stride, strict=True))
            raise ValueError(
                f"output_size must be from {out} to {most} for this input, got {wanted}"
            )
    return wanted


def _check_sizes(p: TransposedProblem) -> None:
    """Refuse sizes whose products could exceed 64 bits anywhere in the native code."""
    element = max(kind.bytes for kind in TYPES.values())
    largest = {
        "input": math.prod(p.input_shape) * element,
        "weight": p.oc * p.ic // p.groups * p.kh * p.kw * element * 64,
        # All images' blocks of outputs; the first and the last may be partial.
        "out": math.prod(p.output_shape) * element * 2,
    }
    for name, size in largest.items():
        if size >= LARGEST_PRODUCT:
            raise ValueError(f"{name} is too large: its size overflows 64 bits ({p})")
    for axis in p.axes:
        reach = axis.outputs + axis.kernel * axis.dilation + axis.stride
        if reach + axis.padding >= LARGEST_PLANE:
            raise ValueError(f"padding, stride or dilation is too large for {p}")
    if p.oh * p.ow >= LARGEST_PLANE:
        raise ValueError(
            f"out: one plane may have at most {LARGEST_PLANE} pixels, got {p.oh * p.ow}"
        )
