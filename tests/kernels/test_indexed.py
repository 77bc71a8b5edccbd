"""Kernels that read or give indices: copies of items, extremes of integers, and their places."""

from __future__ import annotations

import numpy as np
import pytest

from asm.contract import REDUCTIONS
from tests.kernels.kernel_table import DTYPES, every_row, integer_rows, symbol
from tests.kernels.packing_case import PackingCall

copies = pytest.mark.parametrize("row", every_row("copy_indexed"), ids=symbol)
places = pytest.mark.parametrize("row", every_row("arg_columns"), ids=symbol)
best = pytest.mark.parametrize("row", every_row("top_columns"), ids=symbol)
boxes = pytest.mark.parametrize("row", every_row("suppress"), ids=symbol)
extremes = pytest.mark.parametrize(
    "row", integer_rows("reduce_rows") + integer_rows("reduce_columns"), ids=symbol
)


class Call(PackingCall):
    """Contiguous arrays of one call, by name; one of them is written."""

    def put(self, name: str, array: np.ndarray, *, writable: bool = False) -> np.ndarray:
        """Place an array; give a view of it."""
        buffer = self._buffer(name, array.nbytes, writable=writable, unit=array.itemsize)
        strides = tuple(
            array.itemsize * int(np.prod(array.shape[d + 1 :])) for d in range(array.ndim)
        )
        view = buffer.array(array.shape, array.dtype, strides)
        view[...] = array
        self.values[name] = buffer.address
        return view


@copies
@pytest.mark.parametrize("size", [1, 2, 4, 8, 12, 100])
@pytest.mark.parametrize("scatters", [False, True])
def test_copies(checker, row, size, scatters, rng):
    """Items by two indices each, from both ends; those out of range are told and left out."""
    dtype = DTYPES[row["dtype"]]
    for wrong in (False, True):
        limits = rng.integers(1, 6, 2)
        count = int(rng.integers(1, 9))
        index = np.stack([rng.integers(-n, n, count) for n in limits], 1).astype(dtype)
        if wrong:
            beyond = rng.choice([limits[1], -limits[1] - 1, np.iinfo(dtype).max])
            index[rng.integers(count), 1] = beyond
        table = rng.integers(0, 256, (*limits, size)).astype(np.uint8)
        items = rng.integers(0, 256, (count, size)).astype(np.uint8)
        strides = np.array([limits[1] * size, size], np.int64)
        none, steps = np.zeros(2, np.int64), {"src_step": size, "dst_step": 0}
        if not scatters:
            steps = {"src_step": 0, "dst_step": size}
        call = Call(checker, row, rng)
        call.put("src", items if scatters else table)
        result = call.put("dst", table if scatters else items, writable=True)
        call.put("index", index)
        call.put("limits", limits.astype(np.int64))
        call.put("src_strides", none if scatters else strides)
        call.put("dst_strides", strides if scatters else none)
        refused = call.put("refused", np.zeros(2, np.int32), writable=True)
        values = call.values | steps | {
            "size": size, "index_step": 2 * dtype.itemsize, "count": count, "depth": 2,
        }  # fmt: skip
        expected = (table if scatters else items).copy()
        for i, at in enumerate(index):
            if all(-n <= k < n for k, n in zip(at, limits, strict=True)):
                if scatters:
                    expected[tuple(at)] = items[i]
                else:
                    expected[i] = table[tuple(at)]
        checker.call(row, values, (index, limits))
        np.testing.assert_array_equal(result, expected)
        told = int(np.clip(beyond, -(2**31), 2**31 - 1)) if wrong else 0
        assert refused.tolist() == [int(wrong), told]


@places
@pytest.mark.parametrize("kind", ["MAX", "MIN"])
@pytest.mark.parametrize("last", [0, 1])
def test_places(checker, row, kind, last, rng):
    """Many ties; NaN comes before all others, as in NumPy."""
    dtype = DTYPES[row["dtype"]]
    for columns in (1, 2, 7, 33):
        x = rng.integers(-2, 3, (4, columns)).astype(dtype)
        if dtype.kind == "f":
            x = np.where(rng.random(x.shape) < 0.1, np.array(np.nan, dtype), x)
        call = Call(checker, row, rng)
        call.put("src", x)
        result = call.put("dst", np.zeros(4, np.int64), writable=True)
        values = call.values | {
            "src_rs": columns * dtype.itemsize, "dst_rs": 8, "rows": 4, "columns": columns,
            "kind": REDUCTIONS[kind], "last": last,
        }  # fmt: skip
        checker.call(row, values, (x,))
        search = np.argmax if kind == "MAX" else np.argmin
        expected = search(np.flip(x, 1) if last else x, 1)
        np.testing.assert_array_equal(result, columns - 1 - expected if last else expected)


@extremes
@pytest.mark.parametrize("kind", ["MAX", "MIN"])
def test_extremes_of_integers(checker, row, kind, rng):
    """Any length, both limits of the type."""
    dtype, info = DTYPES[row["dtype"]], np.iinfo(DTYPES[row["dtype"]])
    axis = 0 if row["op"] == "reduce_rows" else 1
    for shape in ((1, 1), (1, 9), (9, 1), (3, 70), (70, 3)):
        x = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
        call = Call(checker, row, rng)
        call.put("src", x)
        result = call.put("dst", np.zeros(shape[1 - axis], dtype), writable=True)
        values = call.values | {
            "src_rs": shape[1] * dtype.itemsize, "rows": shape[0], "columns": shape[1],
            "kind": REDUCTIONS[kind],
        }  # fmt: skip
        values |= {"flags": 0} if axis == 0 else {"dst_rs": dtype.itemsize}
        checker.call(row, values, (x,))
        np.testing.assert_array_equal(result, (x.max if kind == "MAX" else x.min)(axis))


@best
@pytest.mark.parametrize("kind", ["MAX", "MIN"])
def test_best_elements(checker, row, kind, rng):
    """In order, ties by place; NaN is larger than all numbers, as in NumPy."""
    dtype = DTYPES[row["dtype"]]
    for columns, count in ((1, 0), (1, 1), (7, 3), (9, 9), (70, 20), (70, 69)):
        x = rng.integers(-20, 20, (3, columns)).astype(dtype)
        if dtype.kind == "f":
            x = np.where(rng.random(x.shape) < 0.1, np.array(np.nan, dtype), x)
        call = Call(checker, row, rng)
        call.put("src", x)
        values = call.put("values", np.zeros((3, count), dtype), writable=True)
        places = call.put("places", np.zeros((3, count), np.int64), writable=True)
        checker.call(row, call.values | {
            "src_rs": columns * dtype.itemsize, "values_rs": count * dtype.itemsize,
            "places_rs": 8 * count, "rows": 3, "columns": columns, "count": count,
            "kind": REDUCTIONS[kind],
        }, (x,))  # fmt: skip
        order = np.argsort(x, 1, kind="stable")
        if kind == "MAX":
            order = columns - 1 - np.flip(np.argsort(np.flip(x, 1), 1, kind="stable"), 1)
        np.testing.assert_array_equal(places, order[:, :count])
        np.testing.assert_array_equal(values, np.take_along_axis(x, order[:, :count], 1))


def kept(corners: np.ndarray, threshold: np.float32, most: int) -> list[int]:
    """Boxes that are taken, one by one, in float32 as onnxruntime computes."""
    taken: list[int] = []
    low, high = np.minimum(corners[:2], corners[2:]), np.maximum(corners[:2], corners[2:])
    areas = (high - low).prod(0)
    for i in range(corners.shape[1]):
        if len(taken) == most:
            break
        sides = np.minimum(high[:, [i]], high[:, taken]) - np.maximum(low[:, [i]], low[:, taken])
        common = sides[0] * sides[1]
        meets = (sides > 0).all(0) & (areas[i] > 0) & (areas[taken] > 0)
        union = areas[i] + areas[taken] - common
        with np.errstate(all="ignore"):
            if not (meets & (union > 0) & (common / union > threshold)).any():
                taken.append(i)
    return taken


@boxes
def test_boxes_that_overlap(checker, row, rng):
    """More boxes taken than a vector has lanes, without an area, and all limits."""
    for count, size in ((0, 1), (1, 3), (20, 3), (70, 2), (70, 9), (130, 1)):
        for most in {0, 1, count // 2, count} & {*range(count + 1)}:
            corners = rng.uniform(-9, 9, (4, count)).astype(np.float32)
            corners[2:] = corners[:2] + rng.uniform(-size, size, (2, count))
            corners[2, rng.random(count) < 0.05] = corners[0, 0] if count else 0
            threshold = np.float32(rng.choice([0, 0.1, 0.5, 1]))
            room = -(-max(most, 1) // 16) * 16
            call = Call(checker, row, rng)
            call.put("boxes", corners)
            call.put("threshold", np.array([threshold]))
            call.put("taken", np.full((5, room), np.nan, np.float32), writable=True)
            places = call.put("places", np.zeros(most, np.int64), writable=True)
            found = call.put("found", np.zeros(1, np.int64), writable=True)
            checker.call(
                row, call.values | {"count": count, "most": most, "taken_rs": 4 * room}, (corners,)
            )
            assert places[: found[0]].tolist() == kept(corners, threshold, most)
