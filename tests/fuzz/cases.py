"""A case is one call; everything about it follows from its seed."""

from __future__ import annotations

from random import Random

from fuzz.byte_cases import draw_bytes
from fuzz.case import Case
from fuzz.conv_cases import draw_convolution
from fuzz.matrix_cases import draw_product

# Which of the cases are products of matrices, and which convolutions of bytes.
PRODUCTS_SHARE, BYTES_SHARE = 0.25, 0.2


def draw(seed: int) -> Case:
    """Give the case of a seed."""
    r = Random(seed)
    kind = r.random()
    if kind < PRODUCTS_SHARE:
        return draw_product(seed, r)
    if kind < PRODUCTS_SHARE + BYTES_SHARE:
        return draw_bytes(seed, r)
    return draw_convolution(seed, r)
