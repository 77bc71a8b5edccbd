"""Convolutions of volumes: their arguments checked, and computed as convolutions of images.

`pplconv.ops.slabs` says which images. Where each channel is a group of its own, taps as channels
would be groups of few channels, for which there are no fast loops: there the taps are added up one
after the other, each as the residual of the next, by the loops of depthwise convolution. Sums of
float16 and bfloat16 would be rounded by each tap, so they are not divided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from .._checks import one_of
from .._records import record
from ..arguments import checks
from ..arguments.checks import Pair, Sizes
from ..memory.arrays import check_out, empty_aligned
from ..planner import Plan
from ..problem import LARGEST_PLANE, LARGEST_PRODUCT
from .extension import padded_index
from .folds import PLAIN, Fold, fold_of, folded, folded_shape
from .plan_of_parts import PlanOfParts
from .slabs import Slab, chunks, convolved_slabs, depth_first, transposed_slabs
from .transposed.transposed_problem import output_sizes

__all__ = [
    "IMAGES",
    "LAYOUTS",
    "TAPS",
    "Operator",
    "VolumePlan",
    "Volumes",
    "check_layout",
    "convolution",
    "image_geometry",
    "kept_padding",
    "transposed_convolution",
]

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
# Makes the convolution of images by some taps: with the bias if they are the first of a sum, with
# the activation if they are the last.
Operator = Callable[[tuple[int, ...], bool, bool], Callable[..., Array]]

# Layouts of images, by those of volumes.
IMAGES = {"NCDHW": "NCHW", "NDHWC": "NHWC"}
LAYOUTS = tuple(IMAGES)
TAPS = "kd, kh, kw"
# Copies of images are made for a part of the outputs, which stays near the caches.
PART_BYTES = 1 << 23
_AXES = ("in depth", "vertically", "horizontally")


@record(frozen=True)
class Volumes:
    """A convolution of volumes as convolutions of images.

    Parameters
    ----------
    problem : str
        The shapes, in one line.
    input_shape, output_shape : tuple of int
        With the batch.
    groups : int
        Groups of channels.
    layout : {"NCDHW", "NDHWC"}
        Of input and output.
    dtype : numpy.dtype
        Of both, native.
    slabs : tuple of Slab
        The outputs.
    singly : bool
        Whether the taps of an output are added one after the other.
    fold : Fold
        The axes of the volumes that are computed.
    index : ndarray of int or None
        The depths that the slabs see, where padding is made of depths of the volume.
    """

    problem: str
    input_shape: Shape
    output_shape: Shape
    groups: int
    layout: str
    dtype: np.dtype[Any]
    slabs: tuple[Slab, ...]
    singly: bool
    fold: Fold = PLAIN
    index: npt.NDArray[np.int64] | None = None

    @property
    def computed_shapes(self) -> tuple[Shape, Shape]:
        """Shapes of input and output, some of whose axes may have become one."""
        seen, made = (
            folded_shape(self.fold, shape, self.layout)
            for shape in (self.input_shape, self.output_shape)
        )
        return seen, made

    def parts(self) -> Iterator[tuple[slice, Slab, list[Slab]]]:
        """Give what is computed together: volumes, their outputs, and the sums of each output."""
        axis = 2 if self.layout == "NCDHW" else 1
        seen, made = (math.prod(shape[1:]) // shape[axis] for shape in self.computed_shapes)
        for slab in self.slabs:
            bytes_each = (seen * max(len(slab.taps), 1) + made) * self.dtype.itemsize
            for batch, some in chunks(slab, self.input_shape[0], max(PART_BYTES // bytes_each, 1)):
                whole = len(some.taps) < 2 or not self.singly
                yield batch, some, [some] if whole else [*map(some.tap, range(len(some.taps)))]

    def image_shape(self, batch: slice, slab: Slab) -> Shape:
        """Give the shape of the images that outputs of some volumes see."""
        n = (batch.stop - batch.start) * len(slab.outputs)
        _, *sizes = self.computed_shapes[0]
        del sizes[1 if self.layout == "NCDHW" else 0]
        sizes[0 if self.layout == "NCDHW" else 2] *= max(len(slab.taps), 1)
        return (n, *sizes)

    def compute(
        self,
        operator: Operator,
        x: Array,
        residual: Array | None,
        out: object,
        *,
        refusable: bool,
        **operands: object,
    ) -> Array:
        """Check residual and `out`, and compute.

        Parameters
        ----------
        operator : Operator
            Makes the convolutions of images.
        x : ndarray
            Of `input_shape`, or without the batch.
        residual : ndarray or None
            The caller's, as an array.
        out : object
            The caller's, which is checked; None makes a new array.
        refusable : bool
            Whether parts may be refused after others were computed, as algorithms may not serve
            each of them. Then `out` is written at the end.
        **operands : object
            Arrays that `out` may not overlap, by their names.

        Returns
        -------
        ndarray
            The output; `out` as a plain array if there is one.
        """
        batched = x.ndim == len(self.input_shape)
        shape = self.output_shape if batched else self.output_shape[1:]
        if residual is not None and residual.shape != shape:
            raise ValueError(f"residual must have shape {shape}, got {residual.shape}")
        plain = None
        if out is not None:
            plain = check_out(out, shape, self.dtype, input=x, residual=residual, **operands)
        result = empty_aligned(shape, self.dtype) if plain is None or refusable else plain
        seen, made = self.computed_shapes
        added = None if residual is None else residual.reshape(made)
        self._run(operator, x.reshape(seen), result.reshape(made), added)
        if plain is None or plain is result:
            return result
        plain[...] = result
        return plain

    def _run(self, operator: Operator, x: Array, y: Array, residual: Array | None = None) -> None:
        if self.index is not None:
            x = x.take(self.index, axis=2 if self.layout == "NCDHW" else 1)
        for batch, slab, sums in self.parts():
            here = slice(slab.outputs.start, slab.outputs.stop, slab.outputs.step)
            target = depth_first(y[batch], self.layout)[:, here]
            n, count, *image = target.shape
            total = None
            if residual is not None:
                total = depth_first(residual[batch], self.layout)[:, here]
                total = total.reshape(n * count, *image)
            direct = target.reshape(n * count, *image) if target.flags.c_contiguous else None
            for number, some in enumerate(sums):
                last = number + 1 == len(sums)
                convolve = operator(some.taps, number == 0, last)
                seen = some.images(x[batch], self.groups, self.layout)
                total = convolve(seen, residual=total, out=direct if last else None)
            if direct is None and total is not None:
                target[...] = total.reshape(target.shape)

    def plan(self, operator: Operator) -> VolumePlan:
        """Sum up the plans of all convolutions of images.

        `operator` makes layers, which have plans.
        """
        found: dict[tuple[object, Shape], Plan] = {}
        packed: dict[object, int] = {}
        scratch, error = 0, 0.0
        for batch, _, sums in self.parts():
            own = 0.0
            for number, some in enumerate(sums):
                layer: Any = operator(some.taps, number == 0, number + 1 == len(sums))
                shape = self.image_shape(batch, some)
                plan: Plan = layer.plan_for(shape)
                found[id(layer), shape] = plan
                packed[id(layer)] = max(plan.packed_weight_bytes, packed.get(id(layer), 0))
                own += plan.error_bound
                scratch = max(scratch, plan.scratch_bytes)
            error = max(error, own)
        parts = tuple(found.values())
        return VolumePlan(
            self.problem, parts[0].dtype, self.layout,
            "a sum over the taps" if self.singly else "taps as channels", parts, parts[0].isa,
            max(part.threads for part in parts), sum(packed.values()), scratch, error,
        )  # fmt: skip


@record(frozen=True)
class VolumePlan(PlanOfParts):
    """The plan of a convolution of volumes, the result of `Conv3d.plan_for`.

    Parameters
    ----------
    problem : str
        The problem in one line, as oneDNN's benchdnn writes it.
    dtype, layout : str
        Of input and output.
    way : str
        ``"taps as channels"``: images have the channels of all depths that a window holds.
        ``"a sum over the taps"``: depthwise convolutions are added, one for each depth of the
        kernel.
    parts : tuple of Plan
        The plans of the convolutions of images.
    isa : str
        Instruction set of the kernels.
    threads : int
        Size of the team.
    packed_weight_bytes : int
        Size of all packed weights, in bytes.
    scratch_bytes : int
        Scratch memory of a call in bytes, the whole team's together, without images.
    error_bound : float
        Stated bound of the error against float64, relative to the largest magnitude of the output
        (for a sum over the taps, of its terms).
    """

    kind: ClassVar[str] = "volumes"


def convolution(
    input_shape: Shape,
    weight_shape: Shape,
    dtype: np.dtype[Any],
    *,
    stride: Sizes,
    padding: object,
    dilation: Sizes,
    groups: int,
    layout: str,
    padding_mode: str = "zeros",
) -> Volumes:
    """Check shapes, and divide a convolution of volumes into those of images.

    Parameters
    ----------
    input_shape, weight_shape : tuple of int
        Of the input, which may lack the batch, and of the weights.
    dtype : numpy.dtype
        Of the input.
    stride, dilation, groups, layout, padding_mode
        Checked already.
    padding : object
        In any form.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong; the message names it.
    """
    checks.check_weight_shape(weight_shape, groups, taps=TAPS)
    oc, ic, *kernel = weight_shape
    shape, size = _checked_input(input_shape, ic * groups, groups, layout)
    sides = checks.padded_sides(padding, size, tuple(kernel), stride, dilation)
    fold = fold_of(kernel, stride, sides)
    out = []
    for name, n, k, s, d, around in zip(_AXES, size, kernel, stride, dilation, sides, strict=True):
        padded, reach = n + sum(around), (k - 1) * d + 1
        if padded < reach:
            raise ValueError(
                f"weight: the kernel spans {reach} pixels {name} but the padded input has {padded} "
                f"(input {n}, padding {around})"
            )
        out.append((padded - reach) // s + 1)
    geometry = (size, tuple(out), tuple(kernel), stride, dilation, sides)
    problem, made = _checked_problem(shape, oc, ic, groups, layout, geometry)
    index = None
    depths, before = size[0], sides[0][0]
    if padding_mode != "zeros" and any(sides[0]):
        index = padded_index(padding_mode, "depths", depths, sides[0])
        depths, before = len(index), 0
    slabs = convolved_slabs(depths, out[0], kernel[0], stride[0], dilation[0], before)
    if not fold[0]:  # depths are rows of one image, whose padding is that of images
        slabs, index = convolved_slabs(1, 1, 1, 1, 1, 0), None
    singly = _is_singly(groups, ic, dtype)
    return Volumes(problem, shape, made, groups, layout, dtype, slabs, singly, fold, index)


def transposed_convolution(
    input_shape: Shape,
    weight_shape: Shape,
    dtype: np.dtype[Any],
    *,
    stride: Sizes,
    padding: object,
    output_padding: object,
    output_size: object,
    dilation: Sizes,
    groups: int,
    layout: str,
) -> Volumes:
    """Check shapes, and divide a transposed convolution of volumes into those of images.

    Parameters
    ----------
    input_shape, weight_shape, dtype, stride, padding, dilation, groups, layout
        As of `convolution`.
    output_padding, output_size : object
        In any form.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong; the message names it.
    """
    checks.check_weight_shape(weight_shape, groups, transposed=True, taps=TAPS)
    ic, oc, *kernel = weight_shape
    shape, size = _checked_input(input_shape, ic, groups, layout)
    sides, out = output_sizes(
        size, tuple(kernel), stride=stride, dilation=dilation, padding=padding,
        output_padding=output_padding, output_size=output_size,
    )  # fmt: skip
    geometry = (size, out, tuple(kernel), stride, dilation, sides)
    problem, made = _checked_problem(shape, oc * groups, ic // groups, groups, layout, geometry)
    slabs = transposed_slabs(size[0], out[0], kernel[0], stride[0], dilation[0], sides[0][0])
    singly = _is_singly(groups, ic // groups, dtype)
    return Volumes(problem, shape, made, groups, layout, dtype, slabs, singly)


def _checked_input(
    input_shape: Shape, channels: int, groups: int, layout: str
) -> tuple[Shape, Sizes]:
    """Check the shape of an input; give it with the batch, and its depth, height and width."""
    if len(input_shape) not in (4, 5):
        wanted = ", ".join(layout)
        raise ValueError(
            f"input must have shape ({wanted}) or ({wanted[3:]}) with layout {layout}, got "
            f"{tuple(input_shape)}"
        )
    shape = input_shape if len(input_shape) == 5 else (1, *input_shape)
    found, size = (shape[1], shape[2:]) if layout == "NCDHW" else (shape[4], shape[1:4])
    if found != channels:
        raise ValueError(
            f"input must have {channels} channels (weight has {channels // groups} for each of "
            f"{groups} groups), got {found} in shape {tuple(input_shape)} with layout {layout}"
        )
    if min(size) < 1:
        raise ValueError(
            f"input must not be empty, got shape {tuple(input_shape)} with layout {layout}"
        )
    return shape, size


def _checked_problem(
    shape: Shape,
    oc: int,
    ic_group: int,
    groups: int,
    layout: str,
    geometry: tuple[Any, ...],
) -> tuple[str, Shape]:
    """Refuse sizes that are too large, before lists as long as they are made.

    Returns
    -------
    problem : str
        As oneDNN's benchdnn writes it.
    output_shape : tuple of int
    """
    size, out, kernel, stride, dilation, sides = geometry
    words = [f"mb{shape[0]}g{groups}ic{ic_group * groups}oc{oc}"]
    for axis, name in enumerate("dhw"):
        words.append(
            f"i{name}{size[axis]}o{name}{out[axis]}k{name}{kernel[axis]}s{name}{stride[axis]}"
            f"p{name}{sides[axis][0]}d{name}{dilation[axis] - 1}"
        )
    problem = "".join(words)
    made = (shape[0], oc, *out) if layout == "NCDHW" else (shape[0], *out, oc)
    if math.prod(made) * 8 >= LARGEST_PRODUCT:
        raise ValueError(f"out is too large: its size overflows 64 bits ({problem})")
    # An axis may be as long as a plane of images.
    for length, more, around in zip(size, out, sides, strict=True):
        if max(length + sum(around), more) >= LARGEST_PLANE:
            raise ValueError(f"padding, stride or dilation is too large for {problem}")
    return problem, made


def _is_singly(groups: int, ic_group: int, dtype: np.dtype[Any]) -> bool:
    """Tell whether the taps of an output are added one after the other."""
    return groups > 1 and ic_group == 1 and dtype.name in ("float32", "float64")


def check_layout(layout: object) -> str:
    """Return `layout` if it is a layout of volumes.

    Raises
    ------
    ValueError
        Otherwise.
    """
    return one_of("layout", layout, LAYOUTS)


def kept_padding(padding: object, stride: Sizes) -> tuple[Pair, ...] | str:
    """Return ``padding=`` as three pairs, or as a word, whose meaning depends on the input.

    Raises
    ------
    TypeError, ValueError
        If it is of no known form.
    """
    ones = (1, 1, 1)
    sides = checks.padded_sides(padding, ones, ones, stride, ones)
    return padding if isinstance(padding, str) else sides


def image_geometry(
    fold: Fold, stride: Sizes, padding: tuple[Pair, ...] | str, dilation: Sizes
) -> dict[str, Any]:
    """Give stride, padding and dilation of the convolutions of images."""
    word = isinstance(padding, str)
    return {
        "stride": folded(fold, stride, 1)[1:],
        "padding": padding if word else folded(fold, padding, (0, 0))[1:],
        "dilation": folded(fold, dilation, 1)[1:],
    }
