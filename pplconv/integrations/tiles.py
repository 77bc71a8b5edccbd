"""Input pixels that a tile of the output of some layers sees, and the cutting of a picture.

Along one axis, a stack of layers is a window: output `o` sees the inputs from ``o * step - pad`` to
``o * step - pad + window - 1``, where `step` is the product of the strides. A tile that begins at a
multiple of `step` gives the outputs of the whole picture, except near its edges: there each layer
pads where the picture has pixels. So a tile includes a *halo* of neighbouring pixels, and outputs
near its edges are left out of its result. At the picture's own border a tile has no halo, and the
layers' own padding is right.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from pplconv import Conv2d

__all__ = ["Axis", "Cut", "Layer", "axes_of", "cut"]


# Most taps of a window. A Conv2d of that size is made to check and complete its numbers.
LARGEST_KERNEL = 1 << 26


@dataclass(frozen=True)
class Layer:
    """How a layer visits the pixels of its input.

    Parameters
    ----------
    kernel_size : int or (int, int)
        Height and width of the window, of a convolution or a pooling.
    stride, dilation : int or (int, int), optional
        Vertical and horizontal.
    padding : int, (int, int), ((int, int), (int, int)) or str, optional
        As of `pplconv.Conv2d`.
    out_channels : int, optional
        Channels of the output; None for as many as the input has.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}, optional
        As of `pplconv.Conv2d`. With ``"circular"`` the axes that it pads must be one chunk.
    """

    kernel_size: Any
    stride: Any = 1
    padding: Any = 0
    dilation: Any = 1
    out_channels: int | None = None
    padding_mode: Literal["zeros", "reflect", "replicate", "circular"] = "zeros"


@dataclass(frozen=True)
class _Window:
    """One layer along one axis."""

    reach: int  # from the first pixel of a window to the last
    stride: int
    before: int  # padding
    after: int
    mode: str = "zeros"

    def size(self, pixels: int) -> int:
        return (pixels + self.before + self.after - self.reach - 1) // self.stride + 1


@dataclass(frozen=True)
class Axis:
    """A stack of layers along one axis.

    Attributes
    ----------
    name : str
        Height or width, for messages.
    windows : tuple
        The layers, in order.
    step : int
        Pixels from one output to the next.
    pad : int
        Pixels before the picture that the first output sees.
    window : int
        Pixels that an output sees.
    least : int
        Pixels of the smallest tile.
    circular : int or None
        The first layer whose padding is the other side of the picture.
    """

    name: str
    windows: tuple[_Window, ...]
    step: int = field(init=False)
    pad: int = field(init=False)
    window: int = field(init=False)
    least: int = field(init=False)
    circular: int | None = field(init=False)

    def __post_init__(self) -> None:
        step, pad, behind, window = 1, 0, 0, 1
        for layer in self.windows:
            pad += layer.before * step
            behind += layer.after * step
            window += layer.reach * step
            step *= layer.stride
        for name, value in (("step", step), ("pad", pad), ("window", window)):
            object.__setattr__(self, name, value)
        padded = [(at, w.mode) for at, w in enumerate(self.windows) if w.before or w.after]
        least = max(self.before, self.after, 1)
        if any(mode == "reflect" for _, mode in padded):
            # A mirror image repeats as many pixels of the tile as it is wide. These are right only
            # if they do not see the padding at the tile's other end.
            least = max(least, max(pad, behind) + window)
        object.__setattr__(self, "least", least)
        wrapped = [at for at, mode in padded if mode == "circular"]
        object.__setattr__(self, "circular", wrapped[0] if wrapped else None)

    @property
    def before(self) -> int:
        """Pixels of the halo before a tile: whole steps, so that outputs stay aligned."""
        return -(-self.pad // self.step) * self.step

    @property
    def after(self) -> int:
        """Pixels of the halo behind a tile."""
        return max(0, self.window - self.step - self.pad)

    def fits_two(self, first: int, rest: int) -> bool:
        """Whether an axis, or the rest of it, may be cut into two tiles of these sizes.

        Each tile must hold the halo of the other, and each layer must get the pixels it needs:
        outputs that see padding alone have no pixel in their tile.
        """
        if min(first, rest) < self.least:
            return False
        try:
            # The first tile may have a halo before it too, but must fit without one.
            return min(self.size(first + self.after), self.size(self.before + rest)) > 0
        except ValueError:
            return False

    def size(self, pixels: int) -> int:
        """Give the number of outputs of `pixels` pixels.

        Raises
        ------
        ValueError
            If a window does not fit.
        """
        left = pixels
        for at, layer in enumerate(self.windows):
            if left + layer.before + layer.after <= layer.reach:
                raise ValueError(
                    f"layers[{at}] sees {layer.reach + 1} pixels of the {self.name} at once, but "
                    f"of x's {pixels} there are {left} left, with {layer.before + layer.after} of "
                    "padding"
                )
            left = layer.size(left)
        return left


@dataclass(frozen=True)
class Cut:
    """An axis in tiles.

    Attributes
    ----------
    inputs, outputs : tuple of int
        Pixels and outputs of each tile, without halo and skipped outputs.
    before, after : int
        The halo between two tiles; none at the ends of the axis.
    skip : int
        Outputs at the front of each tile but the first that belong to the tile before.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    before: int
    after: int
    skip: int


def cut(axis: Axis, chunks: Sequence[int]) -> Cut:
    """Cut an axis into tiles, near its present cuts.

    Parameters
    ----------
    axis : Axis
        The stack of layers along the axis.
    chunks : sequence of int
        Sizes of the present pieces. Pieces move to whole steps, and those that are smaller
        than the halo join their neighbours.

    Returns
    -------
    Cut

    Raises
    ------
    ValueError
        If the whole axis is too small for the layers, or is in pieces where a layer pads it with
        its other end.
    """
    if axis.circular is not None and len(chunks) > 1:
        raise ValueError(
            f"layers[{axis.circular}] has padding_mode='circular', which takes the other side of "
            f"the picture: its {axis.name} cannot be cut into tiles. Make one chunk of that axis "
            "with x.rechunk, or pad x before with dask.array.pad(x, ..., mode='wrap') and use no "
            "padding in the layer"
        )
    pixels = sum(chunks)
    outputs = axis.size(pixels)
    step = axis.step
    begins = [0]
    end = 0
    for chunk in chunks:
        end += chunk
        begin = (end + step // 2) // step * step
        if begin // step < outputs and axis.fits_two(begin - begins[-1], pixels - begin):
            begins.append(begin)
    firsts = [begin // step for begin in begins]
    alone = len(begins) == 1
    return Cut(
        _differences(begins, pixels),
        _differences(firsts, outputs),
        0 if alone else axis.before,
        0 if alone else axis.after,
        axis.before // step,
    )


def _differences(begins: list[int], end: int) -> tuple[int, ...]:
    return tuple(b - a for a, b in zip(begins, [*begins[1:], end], strict=True))


def axes_of(layers: Sequence[Layer | Conv2d]) -> tuple[Axis, Axis]:
    """Describe a stack of layers along height and along width.

    Raises
    ------
    TypeError, ValueError
        If a layer is not described as `Layer` says; the message names it.
    """
    if isinstance(layers, Layer | Conv2d) or not isinstance(layers, Sequence):
        raise TypeError(
            f"layers must be a sequence of Layer or Conv2d, got {type(layers).__name__}"
        )
    read = [_windows(at, layer) for at, layer in enumerate(layers)]
    rows, columns = (tuple(pair[axis] for pair in read) for axis in (0, 1))
    return Axis("height", rows), Axis("width", columns)


def _windows(at: int, layer: Layer | Conv2d) -> tuple[_Window, _Window]:
    conv = _checked(at, layer)
    reach = [(k - 1) * d for k, d in zip(conv.kernel_size, conv.dilation, strict=True)]
    pads = _numbers(at, conv.padding, reach, conv.stride)
    return (
        _Window(reach[0], conv.stride[0], *pads[0], conv.padding_mode),
        _Window(reach[1], conv.stride[1], *pads[1], conv.padding_mode),
    )


def _checked(at: int, layer: Layer | Conv2d) -> Conv2d:
    """Give a convolution with this geometry: its constructor checks and completes all of it."""
    if isinstance(layer, Conv2d):
        return layer
    if not isinstance(layer, Layer):
        raise TypeError(f"layers[{at}] must be a Layer or a Conv2d, got {type(layer).__name__}")
    try:
        if layer.out_channels is not None and _integer("out_channels", layer.out_channels) < 1:
            raise ValueError(f"out_channels must be at least 1, got {layer.out_channels}")
        kernel = np.zeros((1, 1, *_kernel_size(layer.kernel_size)))
        return Conv2d(
            kernel, stride=layer.stride, padding=layer.padding, dilation=layer.dilation,
            padding_mode=layer.padding_mode,
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"layers[{at}] is {layer}: {error}") from None


def _kernel_size(size: Any) -> tuple[int, int]:
    """Give height and width of a window that Conv2d would take."""
    sides = tuple(size) if isinstance(size, Sequence | np.ndarray) else (size, size)
    if isinstance(size, str) or len(sides) != 2:
        raise TypeError(f"kernel_size must be an int or a pair of ints, got {size!r}")
    down, across = (_integer("kernel_size", side) for side in sides)
    if min(down, across) < 1:
        raise ValueError(f"kernel_size must be at least 1, got {size!r}")
    if down * across > LARGEST_KERNEL:
        raise ValueError(f"kernel_size is too large: {size!r}")
    return down, across


def _integer(name: str, value: Any) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None


def _numbers(
    at: int, padding: Any, reach: Sequence[int], stride: tuple[int, int]
) -> Sequence[tuple[int, int]]:
    if not isinstance(padding, str):
        pairs: Sequence[tuple[int, int]] = padding
        return pairs
    if padding == "valid":
        return [(0, 0), (0, 0)]
    if stride != (1, 1):
        raise ValueError(
            f"layers[{at}].padding is {padding!r}: with stride {stride} it depends on the "
            "picture's size, and would be another one for each tile; say it in numbers"
        )
    # The odd pixel goes to the end, except for "same_lower".
    halves = [(total // 2, total - total // 2) for total in reach]
    return [(b, a) for a, b in halves] if padding == "same_lower" else halves
