"""A case is one call; everything about it follows from its seed."""

from __future__ import annotations

from random import Random

from tests.fuzz.byte_cases import draw_bytes
from tests.fuzz.case import Case
from tests.fuzz.conv_cases import draw_convolution
from tests.fuzz.image_cases import draw_image
from tests.fuzz.matrix_cases import draw_product

# Which of the cases are products of matrices, convolutions of bytes, and filters of images.
PRODUCTS_SHARE, BYTES_SHARE, IMAGES_SHARE = 0.25, 0.2, 0.1


def draw(seed: int) -> Case:
    """Give the case of a seed."""
    r = Random(seed)
    kind = r.random()
    if kind < PRODUCTS_SHARE:
        return draw_product(seed, r)
    if kind < PRODUCTS_SHARE + BYTES_SHARE:
        return draw_bytes(seed, r)
    if kind < PRODUCTS_SHARE + BYTES_SHARE + IMAGES_SHARE:
        return draw_image(seed, r)
    return draw_convolution(seed, r)
