"""Gelu from its pieces, and what is none."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph, operators, rewritten, swap

pytestmark = pytest.mark.unemulated("reads and rewrites graphs, which no machine changes")

BOTH = [False, True]
FORMS = ["half last", "half first", "half of the curve"]


def pieces(
    g: Graph,
    x: str,
    form: str = FORMS[0],
    orders: tuple[bool, ...] = (False,) * 4,
    numbers: tuple[float, float, float] = (math.sqrt(2), 1.0, 0.5),
    divided: bool = True,
    gated: str = "",
) -> str:
    """Spell Gelu of `x`, or a chain that differs by its numbers or its first factor."""
    root, one, half = (g.constant(number) for number in numbers)
    scaled = g.Div(x, root) if divided else g.Mul(*swap(orders[3], x, root))
    curve = g.Add(*swap(orders[0], g.Erf(scaled), one))
    x = gated or x
    if form == "half last":
        return str(g.Mul(*swap(orders[1], g.Mul(*swap(orders[2], x, curve)), half)))
    if form == "half first":
        return str(g.Mul(*swap(orders[1], g.Mul(*swap(orders[2], x, half)), curve)))
    return str(g.Mul(*swap(orders[1], x, g.Mul(*swap(orders[2], curve, half)))))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("orders", list(itertools.product(BOTH, repeat=3)))
def test_every_spelling(form, orders, g):
    y = pieces(g, g.input(3, 50), form, (*orders, False))
    assert operators(rewritten(g, y)) == {"Gelu": 1}


@pytest.mark.parametrize("swapped", BOTH)
def test_a_product_in_place_of_the_quotient(swapped, g):
    numbers = math.sqrt(0.5), 1.0, 0.5
    y = pieces(g, g.input(3, 50), orders=(False, False, False, swapped), numbers=numbers,
               divided=False)  # fmt: skip
    assert operators(rewritten(g, y)) == {"Gelu": 1}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("numbers", [(1.41, 1.0, 0.5), (math.sqrt(2), 1.01, 0.5),
                                     (math.sqrt(2), 1.0, 0.51), (0.5, 1.0, 0.5)])  # fmt: skip
def test_other_numbers_are_no_gelu(form, numbers, g):
    assert "Erf" in operators(rewritten(g, pieces(g, g.input(3, 50), form, numbers=numbers)))


@pytest.mark.parametrize("form", FORMS)
def test_gates_of_other_values_are_no_gelu(form, g):
    y = pieces(g, g.input(3, 50), form, gated=g.input(3, 50))
    assert "Erf" in operators(rewritten(g, y))


def test_pieces_that_something_else_reads_stay(g):
    x = g.input(3, 50)
    curve = g.Add(g.Erf(g.Div(x, g.constant(math.sqrt(2)))), g.constant(1.0))
    y = g.Mul(g.Mul(x, curve), g.constant(0.5))
    assert "Gelu" not in operators(rewritten(g, y, curve))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("root", [math.sqrt(2), 1.4142136, float(np.float32(math.sqrt(2)))])
def test_double_precision_takes_no_root_of_single_precision(root, form, rng):
    g = Graph(dtype=np.float64)
    y = pieces(g, name := g.input(40, 50), form, numbers=(root, 1.0, 0.5))
    assert ("Gelu" in operators(rewritten(g, y))) == (root == math.sqrt(2))
    x = rng.uniform(-6, 6, (40, 50))
    (got,) = InferenceSession(g.model(y), threads=1).run(None, {name: x})
    expected = x * 0.5 * (1 + np.vectorize(math.erf)(x / root))
    np.testing.assert_allclose(got, expected, rtol=0, atol=24 * np.finfo(np.float64).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_values(dtype, rng, g):
    """In float64, over the numbers where the function bends and where it is zero or x."""
    model = g.model(pieces(g, g.input(8, 200)))
    x = np.concatenate([rng.uniform(-d, d, (4, 200)) for d in (1.5, 12)]).astype(dtype)
    session = InferenceSession(model)
    (y,) = session.run(None, {session.get_inputs()[0].name: x})
    wide = x.astype(np.float64)
    expected = wide * 0.5 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))
    # The sum with 1 rounds as much as 1 does.
    np.testing.assert_array_less(
        np.abs(y - expected), 2 * np.finfo(dtype).eps * (np.abs(wide) + 1e-30)
    )
