"""Read the demo's page in two precisions: ``python -m benchmarks.networks.reading --help``.

The three networks of PP-OCRv4 find and read the lines of a picture, in float32 and in another
precision. Texts must be the same, and each box must overlap its counterpart. Where texts differ,
float32 reads the line again, from a box whose corners are moved at random by up to a quarter of a
pixel: a text that float32 reads there, too, counts as a tie.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from benchmarks import options
from benchmarks.names import pick
from benchmarks.networks.boxes import LEAST_OVERLAP, overlap
from benchmarks.networks.run import cache_folder
from benchmarks.tables import NONE, Table
from benchmarks.tool import INTERRUPTED, Run, command, new_parser
from examples.demo.decoding import alphabet_of, decode
from examples.demo.engines import open_pplconv
from examples.demo.errors import DemoError
from examples.demo.lines import crop, line_input, width_of
from examples.demo.picture import load
from examples.demo.reading import LEAST_SCORE, Line, Networks, read_page
from examples.models.ppocr import ensure_models
from examples.models.progress import Progress as Steps
from examples.models.published import ModelError

PRECISIONS = ("low", "low_bf16", "bf16", "fp16")
SAME, TIE, DIFFERENT = "yes", "tie", "no"

# The demo's side, and that of the tables of networks.
_SIDES = (480, 640)
_MOVED = 0.25
_TRIALS = 32
_SEED = 1


class Pair(NamedTuple):
    """A line of the page in both precisions; None where there is none.

    Attributes
    ----------
    ours, other : Line or None
        In float32, and in the other precision.
    same : str
        Whether both have the same text and overlapping boxes: ``"yes"``, ``"tie"`` or ``"no"``.
    """

    ours: Line | None
    other: Line | None
    same: str = SAME

    @property
    def overlap(self) -> float:
        """Intersection of the boxes over their union."""
        if self.ours is None or self.other is None:
            return 0.0
        return overlap(self.ours.corners, self.other.corners)


def judged(pair: Pair, image: Image.Image, ours: Networks, alphabet: Sequence[str]) -> Pair:
    """Compare texts and boxes of a line."""
    line, other = pair.ours, pair.other
    if line is None or other is None or pair.overlap < LEAST_OVERLAP:
        return pair._replace(same=DIFFERENT)
    if line.text == other.text:
        return pair._replace(same=SAME)
    tie = other.text in readings(line, image, ours, alphabet)
    return pair._replace(same=TIE if tie else DIFFERENT)


def readings(line: Line, image: Image.Image, ours: Networks, alphabet: Sequence[str]) -> set[str]:
    """Read a line from boxes whose corners are moved a little."""
    rng, found = np.random.default_rng(_SEED), set()
    for _ in range(_TRIALS):
        picture = crop(image, line.corners + rng.uniform(-_MOVED, _MOVED, line.corners.shape))
        if line.turned:
            picture = picture.transpose(Image.Transpose.ROTATE_180)
        text, score = decode(ours.recognise(line_input(picture, width_of(picture)))[0], alphabet)
        found.add(text if score >= LEAST_SCORE else "")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.networks.reading", __doc__)
    parser.add_argument("--precision", default="low", help=f"one of {', '.join(PRECISIONS)} (low)")
    parser.add_argument("--image", type=Path, help="picture (default: the demo's page)")
    parser.add_argument(
        "--sides",
        type=options.integers("side"),
        default=list(_SIDES),
        help=f"pixels of its short side ({','.join(map(str, _SIDES))})",
    )
    options.add_cache(parser)
    options.add_output(parser)
    return parser


@command(_parser)
def main(run: Run) -> int:
    """Read the page, and give the exit status: 1 if texts or boxes differ."""
    parser, chosen = run.parser, run.chosen
    with run.refusing():
        pick("precision", [chosen.precision], dict.fromkeys(PRECISIONS))
    try:
        steps = Steps(sys.stderr)
        paths = ensure_models(cache_folder(chosen.cache), steps)
        steps.close()
        image = load(chosen.image)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (DemoError, ModelError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    alphabet = alphabet_of(paths[2])
    ours, other = (open_pplconv(paths, 1, word) for word in ("fp32", chosen.precision))
    pages: dict[int, list[Pair]] = {}
    with run.steps(len(chosen.sides)) as progress:
        for side in chosen.sides:
            progress.begin(f"{side} pixels")
            lines, others = (read_page(image, side, each, alphabet).lines for each in (ours, other))
            pairs = [Pair(one, two) for one, two in zip_longest(lines, others)]
            pages[side] = [judged(pair, image, ours, alphabet) for pair in pairs]
    head = run.head(
        f"one picture, read once in each precision on one thread; boxes overlap by "
        f"{LEAST_OVERLAP:g} or more; a tie is a text that float32 reads, too, from one of "
        f"{_TRIALS} boxes with corners moved by up to {_MOVED:g} pixels"
    )
    made = [summary(pages), *(table_of(pages[side], side, chosen.precision) for side in pages)]
    status = run.publish(head, made, {**head.plain(), "pages": list(map(_plain, pages.items()))})
    wrong = any(not pairs or any(p.same == DIFFERENT for p in pairs) for pairs in pages.values())
    return status or int(wrong)


def summary(pages: dict[int, list[Pair]]) -> Table:
    """Make the table of all sizes."""
    table = Table(
        "The page", ["short side", "lines", "same text", "ties", "different", "least overlap"]
    )
    for side, pairs in pages.items():
        counts = [sum(p.same == word for p in pairs) for word in (SAME, TIE, DIFFERENT)]
        least = min((p.overlap for p in pairs), default=0.0)
        table.add([str(side), str(len(pairs)), *map(str, counts), f"{least:.4f}"])
    return table


def table_of(pairs: Sequence[Pair], side: int, precision: str) -> Table:
    """Make the table of one size: a row for each line."""
    table = Table(f"Lines at {side} pixels", ["fp32", precision, "overlap", "same"])
    for pair in pairs:
        texts = (NONE if line is None else line.text for line in (pair.ours, pair.other))
        table.add([*texts, f"{pair.overlap:.4f}", pair.same])
    return table


def _plain(page: tuple[int, list[Pair]]) -> dict[str, object]:
    side, pairs = page
    return {
        "side": side,
        "lines": [
            {
                "texts": [None if line is None else line.text for line in (one.ours, one.other)],
                "overlap": one.overlap,
                "same": one.same,
            }
            for one in pairs
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
