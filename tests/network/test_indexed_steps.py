"""Gather, Scatter and their kin in loops, beside onnxruntime; indices that a run refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pplconv.network.session import InferenceSession
from tests.network.drawing_cases import Case, shape
from tests.network.graphs import Graph
from tests.network.running import by_onnxruntime, needs_onnxruntime, on_host, session_of

TYPES = tuple(map(np.dtype, (np.float32, np.float64, np.int64, np.int32, np.uint8, bool)))
every_type = pytest.mark.parametrize("dtype", TYPES, ids=str)
index_types = pytest.mark.parametrize("of_index", [np.int64, np.int32])


def elements(rng: np.random.Generator, sizes: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Elements of any type."""
    return rng.integers(0, 2 if dtype.kind == "b" else 200, sizes).astype(dtype)


def agree(op: str, case: Case, *, threads: int = 1) -> None:
    """Compare with onnxruntime, and see that no step runs in Python."""
    model = case.model(op)
    session = InferenceSession(model, threads=threads)
    expected = by_onnxruntime(model, case.feed())
    for got, want in zip(session.run(None, case.feed()), expected, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_array_equal(got, want)
    assert not on_host(session)


@needs_onnxruntime
@every_type
@index_types
def test_gather(dtype, of_index, rng):
    for _ in range(4):
        sizes = shape(rng, 1, 4)
        axis = int(rng.integers(len(sizes)))
        index = rng.integers(-sizes[axis], sizes[axis], shape(rng, 0, 3)).astype(of_index)
        x = elements(rng, sizes, dtype)
        agree("Gather", Case([x, np.asarray(index)], {"axis": axis - len(sizes) * (axis % 2)}))


@needs_onnxruntime
@every_type
@index_types
def test_gather_elements(dtype, of_index, rng):
    for _ in range(4):
        sizes = shape(rng, 1, 4)
        axis = int(rng.integers(len(sizes)))
        part = tuple(int(rng.integers(1, n + 1 + 3 * (d == axis))) for d, n in enumerate(sizes))
        index = rng.integers(-sizes[axis], sizes[axis], part).astype(of_index)
        agree("GatherElements", Case([elements(rng, sizes, dtype), index], {"axis": axis}))


@needs_onnxruntime
@every_type
@index_types
def test_scatter_elements(dtype, of_index, rng):
    """Of several elements for one place the last one stays."""
    for _ in range(4):
        sizes = shape(rng, 1, 4)
        axis = int(rng.integers(len(sizes)))
        part = tuple(int(rng.integers(1, n + 1 + 3 * (d == axis))) for d, n in enumerate(sizes))
        index = rng.integers(-sizes[axis], sizes[axis], part).astype(of_index)
        x, updates = elements(rng, sizes, dtype), elements(rng, part, dtype)
        agree("ScatterElements", Case([x, index, updates], {"axis": axis}))


def tuples(rng: np.random.Generator, sizes: tuple[int, ...], around: tuple[int, ...]) -> np.ndarray:
    """Tuples of indices from both ends."""
    return np.stack([rng.integers(-n, n, around) for n in sizes], -1).astype(np.int64)


@needs_onnxruntime
@every_type
def test_tuples_of_indices(dtype, rng):
    for _ in range(6):
        sizes = shape(rng, 1, 4)
        depth = int(rng.integers(1, len(sizes) + 1))
        index = tuples(rng, sizes[:depth], shape(rng, 1, 2))
        x = elements(rng, sizes, dtype)
        agree("GatherND", Case([x, index]))
        updates = elements(rng, index.shape[:-1] + sizes[depth:], dtype)
        agree("ScatterND", Case([x, index, updates]))


@needs_onnxruntime
def test_embedding_of_several_tasks(rng):
    """A large table, and more items than one task copies."""
    table = rng.standard_normal((500, 768)).astype(np.float32)
    index = rng.integers(-500, 500, (4, 128))
    agree("Gather", Case([table, index], known=(0,)), threads=2)
    rows = rng.standard_normal((6, 500, 40)).astype(np.float32)
    agree("Gather", Case([rows, index], {"axis": 1}), threads=2)


def test_operands_in_other_layouts(rng):
    """Transposed tables, indices and updates are not copied first."""
    g = Graph(seed=4)
    x, u = g.input(5, 4, 6), g.input(2, 6, 4)
    i = g.input(2, 3, dtype=np.int64)
    g.feed[i] = rng.integers(-5, 5, (2, 3))
    turned = g.Transpose(x, perm=[2, 0, 1])
    taken = g.Gather(turned, g.Transpose(i, perm=[1, 0]), axis=1)
    j = g.input(6, 4, 2, dtype=np.int64)
    g.feed[j] = np.argsort(rng.random((6, 4, 5)), -1)[..., :2]
    back = g.Transpose(u, perm=[1, 2, 0])
    placed = g.ScatterElements(g.Transpose(turned, perm=[0, 2, 1]), j, back, axis=2)
    picked = g.GatherElements(g.Transpose(turned, perm=[0, 2, 1]), j, axis=-1)
    session = session_of(g, taken, placed, picked)
    got = session.run(None, g.feed)
    table = g.feed[x].transpose(2, 0, 1)
    np.testing.assert_array_equal(got[0], np.take(table, g.feed[i].T, 1))
    expected = table.transpose(0, 2, 1).copy()
    np.put_along_axis(expected, g.feed[j], g.feed[u].transpose(1, 2, 0), -1)
    np.testing.assert_array_equal(got[1], expected)
    chosen = np.take_along_axis(table.transpose(0, 2, 1), g.feed[j], -1)
    np.testing.assert_array_equal(got[2], chosen)
    assert not on_host(session)


@needs_onnxruntime
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis, rng):
    """Indices beyond either end match nothing."""
    for dtype in (np.float32, np.int64):
        index = rng.integers(-8, 8, (3, 4))
        values = np.array([2, 5], dtype)
        agree("OneHot", Case([index, np.array(5), values], {"axis": axis}, known=(1,)))


@needs_onnxruntime
@every_type
def test_tile(dtype, rng):
    for _ in range(4):
        sizes = shape(rng, 1, 4)
        repeats = rng.integers(1, 4, len(sizes))
        agree("Tile", Case([elements(rng, sizes, dtype), repeats], known=(1,)))


@needs_onnxruntime
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_places_of_extremes(op, dtype, rng):
    """Many ties, along any axis."""
    for _ in range(4):
        sizes = shape(rng, 1, 4)
        axis = int(rng.integers(-len(sizes), len(sizes)))
        attributes = {"axis": axis, "keepdims": int(rng.integers(2))}
        attributes["select_last_index"] = int(rng.integers(2))
        x = rng.integers(-2, 3, sizes).astype(dtype)
        if np.dtype(dtype) == np.int64:
            # onnxruntime has no kernel for these.
            wide = Case([x.astype(np.float64)], attributes)
            expected = by_onnxruntime(wide.model(op), wide.feed())
            session = InferenceSession(Case([x], attributes).model(op), threads=1)
            np.testing.assert_array_equal(session.run(None, {"x0": x})[0], expected[0])
            assert not on_host(session)
            continue
        agree(op, Case([x], attributes))


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_not_a_number_comes_first(op):
    x = np.array([[1, np.nan, 3, np.nan], [np.nan, 2, 0, 9]], np.float32)
    for last, expected in ((0, [1, 0]), (1, [3, 0])):
        attributes = {"axis": 1, "keepdims": 0, "select_last_index": last}
        session = InferenceSession(Case([x], attributes).model(op), threads=1)
        assert session.run(None, {"x0": x})[0].tolist() == expected


@needs_onnxruntime
@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_extremes_of_integers(op, dtype, rng):
    info = np.iinfo(dtype)
    for _ in range(5):
        sizes = shape(rng, 1, 4)
        axes = rng.permutation(len(sizes))[: int(rng.integers(1, len(sizes) + 1))]
        x = rng.integers(info.min, info.max, sizes, dtype, endpoint=True)
        agree(op, Case([x, axes], {"keepdims": int(rng.integers(2))}, known=(1,)))


REFUSED: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "Gather": ([(4, 5), (3,)], {"axis": 0}),
    "GatherElements": ([(4, 5), (4, 5)], {"axis": 0}),
    "GatherND": ([(4, 5), (3, 1)], {}),
    "ScatterElements": ([(4, 5), (4, 5), (4, 5)], {"axis": 0}),
    "ScatterND": ([(4, 5), (3, 1), (3, 5)], {}),
}


@pytest.mark.parametrize("op", REFUSED)
@pytest.mark.parametrize("threads", [1, 2])
def test_indices_out_of_range(op, threads, rng):
    """The message names the node; the next run with good indices is right."""
    sizes, attributes = REFUSED[op]
    x, index, *updates = (rng.integers(0, 4, n) for n in sizes)
    case = Case([x.astype(np.float32), index, *(u.astype(np.float32) for u in updates)], attributes)
    session = InferenceSession(case.model(op), threads=threads)
    before = session.run(None, case.feed())
    for wrong in (4, -5, 2**31, -(2**40), np.iinfo(np.int64).max, np.iinfo(np.int64).min):
        bad = index.copy()
        bad.flat[rng.integers(bad.size)] = wrong
        with pytest.raises(ValueError, match=rf"cannot run {op} of 'y0': .*is out of range"):
            session.run(None, case.feed() | {"x1": bad})
    np.testing.assert_array_equal(session.run(None, case.feed())[0], before[0])
    assert not on_host(session)
