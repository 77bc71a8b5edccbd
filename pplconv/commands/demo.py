"""``python -m pplconv demo``: a first picture, for which nothing else is needed or downloaded."""

from __future__ import annotations

import argparse
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import imaging
from ..api.conv import Conv2d
from ..drawing.progress_bar import Progress
from .ending import carry_out

__all__ = ["add_arguments", "png", "run"]

_SIDE = 384
_DIRECTIONS = 6
_MORE = """\
Next, three networks read a scanned page. In a clone of the repository; it downloads 15 MB:
  pip install '.[demo]' && python -I examples/demo"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line to `parser`."""
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("pplconv-demo.png"), metavar="FILE",
        help="PNG file to write (default: %(default)s)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Write the picture, and print what it shows; return the exit status of `carry_out`."""

    def work(_: Progress) -> None:
        y, x = np.mgrid[:_SIDE, :_SIDE] / 32 - 6
        image = (127.5 + 127.5 * np.sin(x * x + y * y)).astype(np.uint8)
        emboss = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
        steps: dict[str, Callable[[], npt.NDArray[Any]]] = {
            "rings": lambda: image,
            "a blur, imaging.gaussian(image, 4)": lambda: imaging.gaussian(image, 4),
            "an emboss, imaging.filter2d(image, kernel)": lambda: imaging.filter2d(image, emboss),
            f"{_DIRECTIONS} directions, each in a colour: two layers": _network(image),
        }
        pictures = []
        for name, step in steps.items():
            step()  # makes plans, and packs weights
            begin = time.perf_counter()
            picture = step()
            print(f"{1e3 * (time.perf_counter() - begin):8.2f} ms  {name}")
            picture = np.clip(picture, 0, 255).astype(np.uint8).reshape(_SIDE, _SIDE, -1)
            pictures.append(np.broadcast_to(picture, (_SIDE, _SIDE, 3)))
        options.output.write_bytes(png(np.hstack(pictures)))
        print(f"\n{options.output} shows them side by side.\n\n{_MORE}")

    return carry_out("demo", work)


def _network(image: npt.NDArray[np.uint8]) -> Callable[[], npt.NDArray[Any]]:
    """Make two layers: waves in some directions (Gabor filters), and a colour for each."""
    from ..network.chain import Chain

    y, x = np.mgrid[-5:6, -5:6]
    angles = np.pi / _DIRECTIONS * np.arange(_DIRECTIONS)[:, None, None]
    waves = np.exp(-(x * x + y * y) / 12) * np.cos(x * np.cos(angles) + y * np.sin(angles))
    waves = (waves - waves.mean((1, 2), keepdims=True))[:, None].astype(np.float32) / 8
    colours = 1 + np.cos(2 * angles[:, 0] + np.pi / 1.5 * np.arange(3)).astype(np.float32)
    chain = Chain([
        Conv2d(waves, padding=5, activation="relu", layout="NHWC"),
        Conv2d(colours.T[:, :, None, None], layout="NHWC"),
    ])  # fmt: skip
    centred = image[None, :, :, None] - np.float32(127.5)
    return lambda: chain(centred)


def png(image: npt.NDArray[np.uint8]) -> bytes:
    """Write an image of three channels as a PNG file (ISO/IEC 15948)."""
    height, width, _ = image.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each begins with its filter: none
    rows[:, 1:] = image.reshape(height, -1)
    parts = {
        b"IHDR": struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0),
        b"IDAT": zlib.compress(rows.tobytes()),
        b"IEND": b"",
    }
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts.items()
    )
