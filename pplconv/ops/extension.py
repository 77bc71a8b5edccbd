"""``padding_mode=``: convolutions whose padding is made of the image's own pixels.

No kernel reads such padding. A large image is padded with zeros, which costs nothing, and the
outputs that see padding are computed again: strips at the four sides, each an ordinary convolution
of a thin part of the image with its border extended. A small image is extended as a whole. The
choice depends on the problem alone, and so do the bits of the result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import planner
from .._checks import one_of
from .._records import NamedTuple, record
from ..arguments.activation import Activation as Description
from ..memory.dtypes import DTYPES
from ..problem import ConvProblem
from .edges import Gather, Index, source_index
from .prepared import Activation, PackedWeights, Prepared
from .program import Program

__all__ = [
    "PADDING_MODES",
    "Extension",
    "Strips",
    "check_padding_mode",
    "extension_of",
    "padded_index",
]

Array = npt.NDArray[Any]

# PyTorch's names, and those of `edges`.
_EDGES = {"reflect": "reflect101", "replicate": "replicate", "circular": "wrap"}
PADDING_MODES = ("zeros", *_EDGES)

# A batch of at most this many bytes is extended as a whole: the copy stays in the caches.
SMALL_BYTES = 1 << 18
# So is an image whose strips would compute more than this share of its outputs again.
LARGEST_SHARE = 0.25


def check_padding_mode(mode: object) -> str:
    """Return a valid ``padding_mode=``.

    Raises
    ------
    ValueError
        Otherwise.
    """
    return one_of("padding_mode", mode, PADDING_MODES)


def padded_index(mode: str, name: str, size: int, sides: tuple[int, int]) -> Index:
    """Map an axis with its padding to its pixels.

    Parameters
    ----------
    mode : str
        One of `PADDING_MODES` but zeros.
    name : str
        Of the pixels of this axis, for messages.
    size : int
        Pixels of the axis.
    sides : (int, int)
        Padding before and behind.

    Raises
    ------
    ValueError
        If the image is too small for its padding.
    """
    most = {"reflect": size - 1, "circular": size}.get(mode)
    if most is not None and max(sides) > most:
        raise ValueError(
            f"padding must be at most {most} for {size} {name} of input with "
            f"padding_mode={mode!r}, got {sides}"
        )
    before, after = sides
    return source_index(_EDGES[mode], -before, before + size + after, size)


@record(frozen=True)
class Part:
    """Outputs that are computed together.

    Parameters
    ----------
    problem : ConvProblem
        Their convolution, which has no padding.
    gather : Gather
        Copies the pixels in their windows.
    outputs : tuple of slice
        Their part of the output.
    """

    problem: ConvProblem
    gather: Gather
    outputs: tuple[slice, ...]

    def pixels(self, x: Array, asked: ConvProblem) -> Array:
        """Copy the windows of these outputs, of all images."""
        copy = np.empty(self.problem.input_shape, x.dtype)
        self.gather(x.reshape(asked.input_shape), copy)
        return copy


class StripPlans(NamedTuple):
    """Plans of strips, the most threads at once, and the largest scratch."""

    prepared: list[Prepared]
    most: int
    most_scratch: int | None


class Extension:
    """The computation of one problem with such padding.

    Parameters
    ----------
    asked : ConvProblem
        The problem; its padding is not empty.
    mode : str
        One of `PADDING_MODES` but zeros.

    Raises
    ------
    ValueError
        If the image is too small for its padding.

    Attributes
    ----------
    problem : ConvProblem
        Computed first: the extended image without padding, or the image padded with zeros, whose
        outputs are wrong in the strips only.
    whole : Part or None
        The whole image, if it is extended as a whole.
    strips : list of Part
        Parts that are computed again.
    """

    def __init__(self, asked: ConvProblem, mode: str) -> None:
        self.asked = asked
        sizes = {"rows": asked.ih, "columns": asked.iw}
        self._index = [
            padded_index(mode, name, size, sides)
            for (name, size), sides in zip(sizes.items(), asked.padding, strict=True)
        ]
        rows, columns = self._inner(0), self._inner(1)
        everything = slice(0, asked.oh), slice(0, asked.ow)
        inside = max(rows.stop - rows.start, 0) * max(columns.stop - columns.start, 0)
        size = int(np.prod(asked.input_shape, dtype=object)) * DTYPES[asked.dtype].itemsize
        self.whole: Part | None = None
        self.strips: list[Part] = []
        self.problem = asked
        if size <= SMALL_BYTES or inside < (1 - LARGEST_SHARE) * asked.oh * asked.ow:
            self.whole = self._part(*everything)
            self.problem = self.whole.problem
            return
        around = [
            (slice(0, rows.start), everything[1]),
            (slice(rows.stop, asked.oh), everything[1]),
            (rows, slice(0, columns.start)),
            (rows, slice(columns.stop, asked.ow)),
        ]
        self.strips = [
            self._part(down, across)
            for down, across in around
            if down.start < down.stop and across.start < across.stop
        ]

    def _inner(self, axis: int) -> slice:
        """Outputs along an axis that see no padding."""
        p = self.asked
        size, kernel, count = ((p.ih, p.kh, p.oh), (p.iw, p.kw, p.ow))[axis]
        before, stride = p.padding[axis][0], p.stride[axis]
        reach = (kernel - 1) * p.dilation[axis] + 1
        first = min(-(-before // stride), count)
        return slice(first, max(min((size + before - reach) // stride + 1, count), first))

    def _part(self, down: slice, across: slice) -> Part:
        p = self.asked
        seen = []
        for some, index, kernel, stride, dilation in zip(
            (down, across), self._index, (p.kh, p.kw), p.stride, p.dilation, strict=True
        ):
            end = (some.stop - 1) * stride + (kernel - 1) * dilation + 1
            seen.append(index[some.start * stride : end])
        problem = replace(
            p, padding=((0, 0), (0, 0)), ih=len(seen[0]), iw=len(seen[1]),
            oh=down.stop - down.start, ow=across.stop - across.start,
        )  # fmt: skip
        axis = 1 if p.layout == "NHWC" else 2
        return Part(problem, Gather(seen[0], seen[1], axis), (*(slice(None),) * axis, down, across))

    def extended(self, x: Array) -> Array:
        """Copy the whole image with its padding, in the shape of `problem`."""
        assert self.whole is not None
        return self.whole.pixels(x, self.asked)

    def plan(self, settings: dict[str, Any]) -> StripPlans:
        """Plan the strips, with `settings` as `planner.make_plan` takes them."""
        most = planner.share(settings.get("threads"))
        found: list[Prepared] = []
        for part in self.strips:
            plan, fields = _planned(part.problem, {**settings, "search": "estimate"})
            found.append(Prepared(part.problem, plan, fields, most))
        return StripPlans(found, most, settings.get("max_workspace"))


def _planned(problem: ConvProblem, settings: dict[str, Any]) -> Any:
    try:
        return planner.make_plan(problem, **settings)
    except ValueError:
        # An algorithm that serves the image may not serve a strip of it.
        return planner.make_plan(problem, **{**settings, "algorithm": "auto"})


def extension_of(problem: ConvProblem, mode: str) -> Extension | None:
    """Describe how a problem is extended; None if no output sees padding."""
    if mode == "zeros" or problem.padding == ((0, 0), (0, 0)):
        return None
    found = Extension(problem, mode)
    return found if found.whole is not None or found.strips else None


class Strips:
    """The strips of an extension with their weights, ready to be computed.

    Parameters
    ----------
    extension : Extension
        Has the strips.
    plans : StripPlans
        Their plans.
    weight, bias : ndarray
        Contiguous, of the arrays' type; `bias` may be None.
    described : pplconv.arguments.activation.Activation
        The activation, checked.
    packed : PackedWeights, optional
        Packed weights of the other outputs.
    """

    def __init__(
        self,
        extension: Extension,
        plans: StripPlans,
        weight: Array,
        bias: Array | None,
        described: Description,
        packed: PackedWeights | None = None,
    ) -> None:
        self._extension, self._plans = extension, plans
        self._steps: list[tuple[Prepared, dict[str, Any]]] = []
        kept = {} if packed is None else {packed.packing: packed}
        for one in plans.prepared:
            numerics = one.plan.numerics
            packing = f"{one.plan.packing} of {numerics.weights}"
            if packing not in kept:
                kept[packing] = PackedWeights(one, weight)
            own = bias
            if bias is not None:
                with np.errstate(all="ignore"):
                    own = np.ascontiguousarray(bias, DTYPES[numerics.bias])
            constants = {
                "weights": kept[packing], "bias": own,
                "activation": Activation(described, numerics.bias),
            }  # fmt: skip
            self._steps.append((one, constants))
        # Few calls have a residual. Two threads may make the same program; either will do.
        self._programs: dict[bool, Program] = {}

    def compute(self, x: Array, residual: Array | None, out: Array) -> None:
        """Compute the strips again; all arrays are contiguous."""
        asked = self._extension.asked
        if not asked.batch:
            return
        y = out.reshape(asked.output_shape)
        arrays = []
        for part in self._extension.strips:
            arrays += [part.pixels(x, asked), np.empty(part.problem.output_shape, y.dtype)]
            if residual is not None:
                added = residual.reshape(asked.output_shape)[part.outputs]
                arrays.append(np.ascontiguousarray(added))
        program = self._programs.get(residual is not None)
        if program is None:
            program = self._compiled(arrays, residual is not None)
            self._programs[residual is not None] = program
        frame = program.frame()
        try:
            # Bits, as no buffer can hold bfloat16.
            bits: list[Array | None] = [array.reshape(-1).view(np.uint8) for array in arrays]
            program.run(frame, bits, 0, len(self._steps))
        finally:
            program.give_back(frame)
        step = 3 if residual is not None else 2
        for part, sums in zip(self._extension.strips, arrays[1::step], strict=True):
            y[part.outputs] = sums

    def _compiled(self, arrays: list[Array], added: bool) -> Program:
        sizes = [array.nbytes for array in arrays]
        step = 3 if added else 2
        steps = []
        for number, (prepared, constants) in enumerate(self._steps):
            first = step * number
            places = [("external", at, 0, sizes[at]) for at in range(first, first + step)]
            named = dict(zip(("x", "y", "residual"), places, strict=False))
            steps.append((prepared, {"residual": None, **named, **constants}))
        threads = max(prepared.plan.threads for prepared, _ in self._steps)
        return Program(steps, 0, sizes, threads, self._plans.most, self._plans.most_scratch)
