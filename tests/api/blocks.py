"""Arrays in other layouts in plain NumPy; no code is shared with the package."""

from __future__ import annotations

import numpy as np


def in_blocks(x: np.ndarray, block: int) -> np.ndarray:
    """Give NCHW (or CHW) in layout NCHWc, lanes beyond the last channel zero."""
    *batch, channels, height, width = x.shape
    blocks = -(-channels // block)
    padded = np.zeros((*batch, blocks * block, height, width), x.dtype)
    padded[..., :channels, :, :] = x
    split = padded.reshape(*batch, blocks, block, height, width)
    return np.ascontiguousarray(np.moveaxis(split, -3, -1))


def out_of_blocks(x: np.ndarray, channels: int) -> np.ndarray:
    """Give the first `channels` of NCHWc (or without N) in layout NCHW."""
    *batch, blocks, height, width, block = x.shape
    planes = np.moveaxis(x, -1, -3).reshape(*batch, blocks * block, height, width)
    return np.ascontiguousarray(planes[..., :channels, :, :])


def lanes_of_no_channel(x: np.ndarray, channels: int) -> np.ndarray:
    """Give a view of the lanes of NCHWc that lie beyond the last of `channels`."""
    blocks, block = x.shape[-4], x.shape[-1]
    return x[..., blocks - 1, :, :, channels - (blocks - 1) * block :]


def to_layout(array: np.ndarray | None, layout: str, block: int = 8) -> np.ndarray | None:
    """Give NCHW (or CHW) in a layout; None stays None."""
    if array is None or layout == "NCHW":
        return array
    if layout == "NCHWc":
        return in_blocks(array, block)
    return np.ascontiguousarray(np.moveaxis(array, -3, -1))


def from_layout(array: np.ndarray, layout: str, channels: int = 0) -> np.ndarray:
    """Give NCHW (or CHW) of an array in a layout, of which NCHWc has so many `channels`."""
    if layout == "NCHWc":
        return out_of_blocks(array, channels)
    return array if layout == "NCHW" else np.moveaxis(array, -1, -3)
