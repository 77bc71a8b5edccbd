"""A case is one call; everything about it follows from its seed."""

from __future__ import annotations

from random import Random

from fuzz.case import Case
from fuzz.conv_cases import draw_convolution
from fuzz.matrix_cases import draw_product

# Which of the cases are products of matrices.
PRODUCTS_SHARE = 0.25


def draw(seed: int) -> Case:
    """Give the case of a seed."""
    r = Random(seed)
    if r.random() < PRODUCTS_SHARE:
        return draw_product(seed, r)
    return draw_convolution(seed, r)
