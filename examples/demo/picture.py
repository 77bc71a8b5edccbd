"""From a picture to the networks' input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from examples.demo.errors import DemoError

__all__ = ["input_size", "load", "network_input", "normalised"]

MULTIPLE = 32
"""The network halves its input five times, and adds the halves up again."""

LONGEST = 4
"""Longest side of the network's input over its short side: a panorama must not fill the memory."""

_MEAN = 0.5
_DEVIATION = 0.5


def load(path: Path | None) -> Image.Image:
    """Read a picture.

    Parameters
    ----------
    path : Path or None
        Any file that Pillow reads; None for the scanned page that scikit-image ships.

    Returns
    -------
    PIL.Image.Image
        The picture in RGB, upright, on white where it is transparent.

    Raises
    ------
    DemoError
        If the file is missing or is no picture.
    """
    if path is None:
        from skimage import data

        page: Callable[[], np.ndarray] = data.page
        return Image.fromarray(page()).convert("RGB")
    try:
        with Image.open(path) as image:
            return _rgb(ImageOps.exif_transpose(image))
    except (UnidentifiedImageError, OSError) as error:
        raise DemoError(f"cannot read the picture {path}: {error}") from error


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith(("I", "F")):
        # Pillow would cut such values off at 255.
        values = np.asarray(image, dtype=np.float64)
        scale = 255.0 / max(float(values.max()), 1.0)
        image = Image.fromarray(np.clip(values * scale, 0, 255).astype(np.uint8))
    if "A" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        page = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(page, image)
    return image.convert("RGB")


def input_size(width: int, height: int, side: int) -> tuple[int, int]:
    """Give the size of the network's input for a picture.

    Parameters
    ----------
    width, height : int
        Size of the picture, in pixels.
    side : int
        Length that the short side is scaled to, in pixels; the long side becomes at most `LONGEST`
        times as long.

    Returns
    -------
    width, height : int
        Multiples of `MULTIPLE`.
    """
    scale = min(side / min(width, height), LONGEST * side / max(width, height))
    return _rounded(width * scale), _rounded(height * scale)


def _rounded(length: float) -> int:
    return max(1, round(length / MULTIPLE)) * MULTIPLE


def network_input(image: Image.Image, side: int) -> np.ndarray:
    """Scale and normalise a picture, as in the detector's training.

    Parameters
    ----------
    image : PIL.Image.Image
        A picture in RGB.
    side : int
        Length of the short side, see `input_size`.

    Returns
    -------
    ndarray of shape (1, 3, H, W), float32
        The channels blue, green and red, between -1 and 1.
    """
    width, height = image.size
    return normalised(image.resize(input_size(width, height, side), Image.Resampling.BILINEAR))


def normalised(image: Image.Image) -> np.ndarray:
    """Normalise the pixels of a picture, as in the training of all three networks.

    Parameters
    ----------
    image : PIL.Image.Image
        A picture in RGB.

    Returns
    -------
    ndarray of shape (1, 3, H, W), float32
        The channels blue, green and red, between -1 and 1.
    """
    pixels = np.asarray(image, dtype=np.float32) / np.float32(255)
    normal = (pixels - np.float32(_MEAN)) / np.float32(_DEVIATION)
    return np.ascontiguousarray(normal[:, :, ::-1].transpose(2, 0, 1)[np.newaxis])
