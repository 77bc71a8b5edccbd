"""Activations and affine maps before reshapes, transposes and joins: where they pass, or stay.

`rewritten` compares the outputs of each network with those of ONNX's reference.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.network.graphs import Graph, operators, rewritten

pytestmark = pytest.mark.unemulated("reads and rewrites graphs, which no machine changes")

FORMS = [
    ("Mul", False),
    ("Mul", True),
    ("Add", False),
    ("Sub", False),
    ("Sub", True),
    ("Div", False),
]


def images_of_rows(g: Graph) -> str:
    """Rows of pixels of five channels, from a product, as images: shape (2, 5, 3, 4)."""
    y = g.Add(g.MatMul(g.input(2, 12, 6), g.random(6, 5)), g.random(5))
    rows = g.Reshape(y, g.constant([2, 3, 4, 5], np.int64))
    return g.Transpose(rows, perm=[0, 3, 1, 2])


def rows_of_images(g: Graph) -> str:
    """Images of five channels, from a convolution, as rows of pixels: shape (2, 12, 5)."""
    y = g.conv(g.input(2, 4, 5, 6), 5, (4, 3, 3))
    return g.Transpose(g.Reshape(y, g.constant([2, 5, 12], np.int64)), perm=[0, 2, 1])


@pytest.mark.parametrize(("operator", "first"), FORMS)
@pytest.mark.parametrize("shape", [(), (5, 1, 1), (1, 5, 1, 1)])
def test_factors_and_offsets_go_into_the_product(operator, first, shape, g):
    y, c = images_of_rows(g), g.positive(*shape)
    result = rewritten(g, getattr(g, operator)(*((c, y) if first else (y, c))))
    assert operators(result)[operator] == 0
    assert operators(result)["pplconv::Linear"] == 1


@pytest.mark.parametrize(("operator", "first"), FORMS)
@pytest.mark.parametrize("shape", [(), (5,), (1, 1, 5)])
def test_factors_and_offsets_go_into_the_convolution(operator, first, shape, g):
    y, c = rows_of_images(g), g.positive(*shape)
    result = rewritten(g, getattr(g, operator)(*((c, y) if first else (y, c))))
    assert operators(result)[operator] == 0
    assert operators(result)["pplconv::Conv"] == 1


def test_batch_normalization_of_a_row_goes_into_the_convolution(g):
    y = g.conv(g.input(2, 4, 1, 6), 5, (4, 1, 3))
    result = rewritten(g, g.Relu(g.batch_norm(g.Squeeze(y, g.constant([2], np.int64)), 5)))
    assert operators(result) == {"pplconv::Conv": 1, "Squeeze": 1}


def block_of_rows(g: Graph, x: str) -> str:
    """A product of the pixels of images of five channels, as images again."""
    rows = g.MatMul(g.Transpose(x, perm=[0, 2, 3, 1]), g.random(5, 5))
    return g.Transpose(g.Mul(rows, g.positive(5)), perm=[0, 3, 1, 2])


@pytest.mark.parametrize("first", [False, True])
def test_sums_of_blocks_go_into_their_products(first, g):
    x = g.conv(g.input(2, 4, 3, 4), 5, (4, 1, 1))
    for _ in range(2):
        y = block_of_rows(g, x)
        x = g.Add(x, y) if first else g.Add(y, x)
    found = operators(rewritten(g, g.conv(x, 3, (5, 1, 1))))
    assert found["Add"] == 0
    assert found["pplconv::Linear"] == 2


@pytest.mark.parametrize("other", ["input", "orders", "user"])
def test_sums_of_what_lies_elsewhere_stay(other, g):
    x = g.input(2, 5, 3, 5)
    if other == "orders":
        x = g.Transpose(g.Relu(x), perm=[0, 3, 2, 1])
    elif other == "user":
        x = g.Relu(g.conv(x, 5, (5, 1, 1)))
    y = block_of_rows(g, x)
    outputs = [g.Add(x, y)] + ([y] if other == "user" else [])
    assert operators(rewritten(g, *outputs))["Add"] == 1


@pytest.mark.parametrize(
    "shape",
    [(4,), (1, 4), (3, 1), (1, 3, 1), (2, 1, 1, 1), (2, 5, 1, 1), (5, 3, 1)],
)
def test_factors_of_other_axes_stay(shape, g):
    result = rewritten(g, g.Mul(images_of_rows(g), g.random(*shape)))
    assert operators(result)["Mul"] == 1


def test_channels_that_a_reshape_divides_stay(g):
    y = g.conv(g.input(1, 4, 3, 4), 6, (4, 1, 1))
    heads = g.Reshape(y, g.constant([1, 2, 3, 12], np.int64))
    assert operators(rewritten(g, g.Mul(heads, g.random(2, 1, 1))))["Mul"] == 1


def test_a_product_with_another_reader_keeps_its_result(g):
    y = g.MatMul(g.input(2, 12, 6), g.random(6, 5))
    moved = g.Transpose(y, perm=[0, 2, 1])
    result = rewritten(g, g.Mul(moved, g.random(5, 1)), g.Neg(y))
    assert operators(result)["Mul"] == 1


def test_what_moves_and_is_an_output_keeps_its_result(g):
    moved = images_of_rows(g)
    assert operators(rewritten(g, moved, g.Mul(moved, g.random(5, 1, 1))))["Mul"] == 1


def test_behind_an_activation_factors_stay(g):
    y = g.Relu(g.MatMul(g.input(2, 12, 6), g.random(6, 5)))
    result = rewritten(g, g.Mul(g.Transpose(y, perm=[0, 2, 1]), g.random(5, 1)))
    assert operators(result)["Mul"] == 1


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("operator", ["Relu", "Mul", "Add", "BatchNormalization"])
def test_what_is_joined_is_changed_before(operator, axis, g):
    """Along channels, each convolution gets its part of the numbers."""
    shapes = [(2, 4, 5, 6), (2, 4, 5, 6)]
    counts = (5, 3) if axis == 1 else (5, 5)
    images = [
        g.conv(g.input(*shape), n, (4, 3, 3)) for shape, n in zip(shapes, counts, strict=True)
    ]
    joined, channels = g.Concat(*images, axis=axis), sum(counts) if axis == 1 else 5
    if operator == "BatchNormalization":
        z = g.batch_norm(joined, channels)
    elif operator == "Relu":
        z = g.Relu(joined)
    else:
        z = getattr(g, operator)(joined, g.random(channels, 1, 1))
    assert operators(rewritten(g, z)) == {"pplconv::Conv": 2, "Concat": 1}


def test_an_operand_of_a_concat_that_takes_none_keeps_all(g):
    y = g.conv(g.input(2, 4, 5, 6), 5, (4, 3, 3))
    joined = g.Concat(y, g.input(2, 3, 3, 4), axis=1)
    assert operators(rewritten(g, g.Relu(joined)))["Relu"] == 1


@pytest.mark.parametrize("operator", ["Mul", "Div"])
def test_factors_that_overflow_stay(operator, g):
    y = g.MatMul(g.input(2, 6), g.constant(np.full((6, 5), 3e38, np.float32)))
    c = g.constant(np.full(5, 10 if operator == "Mul" else 0.1, np.float32))
    g.feed = {name: np.zeros_like(x) for name, x in g.feed.items()}
    assert operators(rewritten(g, getattr(g, operator)(y, c)))[operator] == 1


def test_an_activation_passes_to_a_product_with_a_residual(g):
    y = g.Add(g.MatMul(g.input(2, 12, 6), g.random(6, 5)), g.input(2, 12, 5))
    result = rewritten(g, g.Relu(g.Transpose(y, perm=[0, 2, 1])))
    assert operators(result) == {"pplconv::Linear": 1, "Transpose": 1}


def test_a_residual_is_not_scaled(g):
    y = g.Add(g.MatMul(g.input(2, 12, 6), g.random(6, 5)), g.input(2, 12, 5))
    assert operators(rewritten(g, g.Mul(y, g.random(5))))["Mul"] == 1
