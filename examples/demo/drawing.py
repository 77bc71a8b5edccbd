"""Draw a page with the boxes that were found, and beside it a sheet of their text."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from examples.demo.errors import DemoError
from examples.demo.lines import TALL, upright
from examples.demo.reading import Line
from examples.models.whole_files import write_whole

__all__ = ["draw", "drawable", "find_font"]

# Two colours in turn, as boxes of curved lines overlap.
_COLOURS = ((214, 40, 40), (30, 90, 200))
_FILL_OPACITY = 40
_INK = (20, 20, 25)
_READABLE = 1200
# Height of letters over height of their box.
_LETTERS = 0.8
_LEAST_LETTERS = 6
# Common font files, those with Chinese characters first.
_FONTS = (
    "NotoSansCJK-Regular.ttc", "NotoSansCJKsc-Regular.otf", "SourceHanSansSC-Regular.otf",
    "wqy-microhei.ttc", "wqy-zenhei.ttc", "DroidSansFallbackFull.ttf", "DroidSansFallback.ttf",
    "uming.ttc", "msyh.ttc", "PingFang.ttc", "Arial Unicode.ttf", "DejaVuSans.ttf",
)  # fmt: skip
# No font has a letter for it, so it looks like any letter that a font lacks.
_NO_CHARACTER = "\U0010ffff"


def find_font(path: Path | None, size: int = 32) -> Any:
    """Find a font, of Chinese letters if there is one.

    Parameters
    ----------
    path : Path or None
        File of a font; None for the first that is found, or the one that Pillow ships.
    size : int, optional
        Pixels of its letters.

    Returns
    -------
    PIL.ImageFont.FreeTypeFont

    Raises
    ------
    DemoError
        If the file is no font.
    """
    if path is not None:
        try:
            return ImageFont.truetype(str(path), size)
        except OSError as error:
            raise DemoError(f"cannot read the font {path}: {error}") from error
    for name in _FONTS:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size)


def drawable(text: str, font: Any) -> str:
    """Replace letters that a font lacks.

    Parameters
    ----------
    text : str
        Any text.
    font : PIL.ImageFont.FreeTypeFont
        The font.

    Returns
    -------
    str
        The text, with a middle dot for each letter that the font lacks.
    """
    missing = bytes(font.getmask(_NO_CHARACTER))
    lacks = {c for c in set(text) if not c.isspace() and bytes(font.getmask(c)) == missing}
    return "".join("\N{MIDDLE DOT}" if c in lacks else c for c in text)


def draw(image: Image.Image, lines: Sequence[Line], path: Path, font: Any) -> int:
    """Write the picture with its boxes marked, and a sheet of their text beside it.

    Parameters
    ----------
    image : PIL.Image.Image
        The picture, in RGB.  A small one is enlarged by a whole number, for lines to be thin.
    lines : sequence of Line
        In the coordinates of `image`.
    path : Path
        PNG file to write, in full or not at all.
    font : PIL.ImageFont.FreeTypeFont
        From `find_font`.

    Returns
    -------
    int
        Letters that the font lacks: middle dots stand for them.

    Raises
    ------
    DemoError
        If the file cannot be written.
    """
    factor = max(1, -(-_READABLE // max(image.size)))
    page = image.resize((image.width * factor, image.height * factor), Image.Resampling.BICUBIC)
    marks = Image.new("RGBA", page.size)
    sheet = Image.new("RGBA", page.size, "white")
    pen, other = ImageDraw.Draw(marks), ImageDraw.Draw(sheet)
    width = max(2, max(page.size) // 600)
    boxes = [upright(np.asarray(line.corners, dtype=np.float64)) * factor for line in lines]
    polygons = [[(float(x), float(y)) for x, y in box] for box in boxes]
    # Drawing replaces what was there, opacity included, so lines come after all fills.
    for corners, colour in zip(polygons, cycle(_COLOURS), strict=False):
        pen.polygon(corners, fill=(*colour, _FILL_OPACITY))
    lacking = 0
    for corners, colour in zip(polygons, cycle(_COLOURS), strict=False):
        outline = [*corners, corners[0]]
        pen.line(outline, fill=(*colour, 255), width=width, joint="curve")
        other.line(outline, fill=(*colour, 90), width=1)
    for line, box in zip(lines, boxes, strict=True):
        words = drawable(line.text, font)
        lacking += sum(a != b for a, b in zip(line.text, words, strict=True))
        _write(sheet, words, box, font, line.turned)
    result = Image.new("RGB", (2 * page.width, page.height), "white")
    result.paste(Image.alpha_composite(page.convert("RGBA"), marks).convert("RGB"), (0, 0))
    result.paste(sheet.convert("RGB"), (page.width, 0))
    content = io.BytesIO()
    result.save(content, format="PNG")
    try:
        write_whole(path, content.getvalue())
    except OSError as error:
        raise DemoError(f"cannot write {path}: {error}") from error
    return lacking


def _write(sheet: Image.Image, words: str, box: np.ndarray, font: Any, turned: bool) -> None:
    """Write a line into its box, at the angle that the box has."""
    start, beside, _, below = box
    along, across = beside - start, below - start
    if np.hypot(*across) >= TALL * np.hypot(*along):
        # Set sideways: `crop` turns it counter-clockwise, and the classifier may turn it again.
        start, along, across = (below, -across, along) if turned else (beside, across, -along)
    width, height = float(np.hypot(*along)), float(np.hypot(*across))
    if not words.strip() or min(width, height) < 1:
        return
    size = max(_LEAST_LETTERS, round(height * _LETTERS))
    sized = font.font_variant(size=size)
    if (wide := sized.getlength(words)) > width:
        sized = font.font_variant(size=max(_LEAST_LETTERS, int(size * width / wide)))
    strip = Image.new("RGBA", (max(1, round(width)), max(1, round(height))))
    ImageDraw.Draw(strip).text((0, height / 2), words, (*_INK, 255), font=sized, anchor="lm")
    angle = math.degrees(math.atan2(float(along[1]), float(along[0])))
    if abs(angle) > 0.2:
        strip = strip.rotate(-angle, Image.Resampling.BICUBIC, expand=True)
    middle = start + (along + across) / 2
    place = (round(float(middle[0]) - strip.width / 2), round(float(middle[1]) - strip.height / 2))
    # Boxes at the edge reach beyond the sheet once they are turned.
    layer = Image.new("RGBA", sheet.size)
    layer.paste(strip, place)
    sheet.alpha_composite(layer)
