"""Read the whole page by detector, classifier and recogniser, in any engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from PIL import Image

from examples.demo.decoding import decode, stands_on_its_head
from examples.demo.lines import CLASSIFIER_WIDTH, crop, line_input, reading_order, width_of
from examples.demo.picture import network_input
from examples.demo.regions import find_regions

__all__ = ["LEAST_SCORE", "STAGES", "Line", "Networks", "Page", "read_best", "read_page"]

LEAST_SCORE = 0.5
"""Lines with a lower score count as illegible."""

STAGES = ("detector", "boxes", "lines", "classifier", "recogniser", "text")
"""Timed parts of the work: the three networks, and the steps before and after them."""

Network = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True)
class Networks:
    """Three networks, ready to run.

    Parameters
    ----------
    engine : str
        Name and version of the engine.
    detect, classify, recognise : callable
        From an image of shape (1, 3, H, W) to probabilities: of text at each pixel,
        (1, 1, H, W); that a line stands on its head, (1, 2); of characters, (1, places, classes).
    """

    engine: str
    detect: Network
    classify: Network
    recognise: Network


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line of text.

    Parameters
    ----------
    corners : ndarray of shape (4, 2)
        Where it is, in pixels of the picture.
    text : str
        The text; "" if it is illegible.
    score : float
        Mean probability of its characters.
    turned : bool
        Whether it was upside down.
    """

    corners: np.ndarray
    text: str
    score: float
    turned: bool = False


@dataclass(slots=True, eq=False)
class Page:
    """The lines of a page, and the seconds of each stage.

    Parameters
    ----------
    lines : list of Line
        In reading order.
    seconds : dict of str to float
        For each of `STAGES`.
    """

    lines: list[Line] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))

    @property
    def total(self) -> float:
        """Seconds of all stages."""
        return sum(self.seconds.values())

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time of a block to a stage."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += time.perf_counter() - begin


def read_page(image: Image.Image, side: int, networks: Networks, alphabet: Sequence[str]) -> Page:
    """Find the lines of a picture, and read them.

    Parameters
    ----------
    image : PIL.Image.Image
        The picture, in RGB.
    side : int
        Pixels that its short side is scaled to for the detector.
    networks : Networks
        The engine's networks.
    alphabet : sequence of str
        See `examples.demo.decoding.alphabet_of`.

    Returns
    -------
    Page
    """
    page = Page()
    with page.timed("detector"):
        probability = networks.detect(network_input(image, side))
    with page.timed("boxes"):
        regions = reading_order(find_regions(probability[0, 0], image.size))
    for region in regions:
        with page.timed("lines"):
            line = crop(image, region.corners)
            x = line_input(line, CLASSIFIER_WIDTH)
        with page.timed("classifier"):
            turned = stands_on_its_head(networks.classify(x)[0])
        text, score = _read(line, turned, page, networks, alphabet)
        if turned and score < LEAST_SCORE:
            # The classifier errs on curved lines: a line that is illegible turned may be
            # legible as it is.
            again, better = _read(line, False, page, networks, alphabet)
            if better > score:
                text, score, turned = again, better, False
        legible = text if score >= LEAST_SCORE else ""
        page.lines.append(Line(region.corners, legible, score, turned))
    return page


def _read(
    line: Image.Image, turned: bool, page: Page, networks: Networks, alphabet: Sequence[str]
) -> tuple[str, float]:
    with page.timed("lines"):
        if turned:
            line = line.transpose(Image.Transpose.ROTATE_180)
        x = line_input(line, width_of(line))
    with page.timed("recogniser"):
        probabilities = networks.recognise(x)
    with page.timed("text"):
        return decode(probabilities[0], alphabet)


def read_best(read: Callable[[], Page], rounds: int) -> Page:
    """Read a page once to warm up and then several times; the best time of each stage counts.

    Parameters
    ----------
    read : callable
        Gives the page, the same each time.
    rounds : int
        How often it is timed.

    Returns
    -------
    Page
    """
    page = read()  # makes a program for each shape
    found = [read() for _ in range(rounds)]
    page.seconds = {stage: min(one.seconds[stage] for one in found) for stage in STAGES}
    return page
