"""Geometry of images and strides of arrays, as problems describe them to the loops."""

from __future__ import annotations

from collections.abc import Sequence

from ._records import NamedTuple

__all__ = ["Geometry", "Memory", "Strides", "walk_dims"]


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
    """Strides of an array of images.

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
    """Strides of matrices: elements from one image, group, row and column to the next."""

    image: int
    group: int
    row: int
    column: int


def walk_dims(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Merge dimensions: find the fewest, at least one, by which all arrays can be walked.

    Parameters
    ----------
    shape : sequence of int
        Common shape of the arrays.
    strides : sequence of sequence of int
        Of each array; the innermost dimension has the smallest steps of the first array.

    Returns
    -------
    dims : list of int
        From the outermost to the innermost.
    strides : list of list of int
        Of each array.
    """
    order = sorted(
        (d for d in range(len(shape)) if shape[d] != 1),
        key=lambda d: (*(-s[d] for s in strides), d),
    )
    dims: list[int] = []
    walks: list[list[int]] = [[] for _ in strides]
    for d in order:
        joined = dims and all(
            walk[-1] == s[d] * shape[d] for walk, s in zip(walks, strides, strict=True)
        )
        if joined:
            dims[-1] *= shape[d]
            for walk, s in zip(walks, strides, strict=True):
                walk[-1] = s[d]
        else:
            dims.append(shape[d])
            for walk, s in zip(walks, strides, strict=True):
                walk.append(s[d])
    if not dims:
        return [1], [[0] for _ in strides]
    return dims, walks
