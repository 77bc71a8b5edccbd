"""How the pixels of an image are visited, and how arrays lie: what problems tell the loops."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Geometry", "Memory", "Strides"]


class Geometry(NamedTuple):
    """Sizes of an image and its windows, in pixels, in the order of ``struct pplconv_geometry``."""

    ih: int
    iw: int
    oh: int
    ow: int
    kh: int = 1
    kw: int = 1
    stride_h: int = 1
    stride_w: int = 1
    dilation_h: int = 1
    dilation_w: int = 1
    pad_top: int = 0
    pad_left: int = 0


class Memory(NamedTuple):
    """How an array of images lies.

    Parameters
    ----------
    image, block, row, pixel : int
        Bytes from one image, block of channels, row and pixel to the next.
    width : int
        Channels that are neighbours in memory: 1 in NCHW, a block in NCHWc, all in NHWC.
    """

    image: int
    block: int
    row: int
    pixel: int
    width: int


class Strides(NamedTuple):
    """How matrices lie: elements from one image, group, row and column to the next."""

    image: int
    group: int
    row: int
    column: int
