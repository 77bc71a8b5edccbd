"""Sums of equal taps along columns and rows, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.rows_call import Call

every_columns = pytest.mark.parametrize("row", every_row("box_columns"), ids=symbol)
every_rows = pytest.mark.parametrize("row", every_row("box_rows"), ids=symbol)
every_near = pytest.mark.parametrize("row", every_row("near_rows"), ids=symbol)
LEAST_TAPS, MOST_TAPS = 1, 128


def columns_of(checker, row, rng, elements, taps, weight, block, past=0):
    """Run the kernel on rows of elements between guard pages; give its rows of sums."""
    element, count = DTYPES[row["dtype"]], elements.shape[1]
    call = Call(checker, row, rng)
    pitch = (count + int(rng.integers(5))) * element.itemsize
    rows = call.put("elements", elements.astype(element), pitch)
    addresses = rows.ctypes.data + rows.strides[0] * np.arange(len(rows))
    call.put("rows", addresses.astype(np.int64).reshape(1, -1), 0)
    call.put("weight", np.full((1, 1), weight, element), 0)
    lines = len(rows) - taps + 1
    pitch = (count + int(rng.integers(5))) * element.itemsize
    call.put("dst", np.full((lines, count), np.nan, element), pitch, writable=True)
    return call.run(lines=lines, taps=taps, block=block, past=past, count=count)


def rows_of(checker, row, rng, elements, taps, weight, count):
    """Run the kernel on rows between guard pages, which it may read six vectors beyond."""
    element = DTYPES[row["dtype"]]
    call = Call(checker, row, rng)
    beyond = np.full((len(elements), 6 * row["lanes"]), np.nan)
    elements = np.concatenate([elements, beyond], axis=1).astype(element)
    call.put("src", elements, elements.shape[1] * element.itemsize)
    call.put("weight", np.full((1, 1), weight, element), 0)
    pitch = (count + int(rng.integers(5))) * element.itemsize
    call.put("dst", np.full((len(elements), count), np.nan, element), pitch, writable=True)
    return call.run(lines=len(elements), taps=taps, count=count, stream=int(rng.integers(2)))


def near_rows_of(checker, row, rng, elements, taps, weight, count, step=1, neighbours=0):
    """Run the kernel on rows between guard pages, which it may read six vectors beyond."""
    element, beyond = DTYPES[row["dtype"]], 6 * row["lanes"]
    call = Call(checker, row, rng)
    elements = np.pad(elements, ((0, 0), (0, beyond)), constant_values=np.nan).astype(element)
    call.put("src", elements, elements.shape[1] * element.itemsize)
    call.put("weight", np.full((1, 1), weight, element), 0)
    near = np.full((1, count + (taps - neighbours) * step + beyond), np.nan, element)
    call.put("near", near, 0, writable=True)
    pitch = (count + int(rng.integers(5))) * element.itemsize
    call.put("dst", np.full((len(elements), count), np.nan, element), pitch, writable=True)
    return call.run(
        lines=len(elements), taps=taps, step=step, neighbours=neighbours, count=count,
        stream=int(rng.integers(2)),
    )  # fmt: skip


def assert_near(found, windows, weight):
    """Each term and each addition is rounded once; `windows` end with the taps."""
    taps, eps = windows.shape[-1], np.finfo(found.dtype).eps
    bound = (taps + 1) * eps * weight * abs(windows).sum(-1)
    assert (abs(found - weight * windows.sum(-1)) <= bound).all()


@every_columns
def test_columns(checker, row, rng):
    """Every tail; columns of one row and of many, blocks that are cut at both ends."""
    lanes, element = row["lanes"], DTYPES[row["dtype"]]
    for count in (*range(1, 2 * lanes + 2), 4 * lanes, 9 * lanes - 1):
        taps = int(rng.integers(1, 20))
        block = int(rng.integers(1, taps + 1))
        elements = rng.standard_normal((taps + int(rng.integers(40)), count)).astype(element)
        found = columns_of(
            checker, row, rng, elements, taps, element.type(0.3), block, int(rng.integers(block))
        )
        windows = np.lib.stride_tricks.sliding_window_view(elements.astype(np.float64), taps, 0)
        assert_near(found, windows, float(element.type(0.3)))


@every_columns
def test_columns_do_not_depend_on_calls(checker, row, rng):
    """The same block begins at another row of a call: not a bit is another one."""
    element = DTYPES[row["dtype"]]
    for taps, block in ((1, 1), (6, 6), (15, 15), (31, 16)):
        elements = rng.standard_normal((taps + 39, 2 * row["lanes"] + 3)).astype(element)
        whole = columns_of(checker, row, rng, elements, taps, 0.1, block)
        for first in range(40):
            part = columns_of(checker, row, rng, elements[first:], taps, 0.1, block, first % block)
            np.testing.assert_array_equal(part, whole[first:])


@every_rows
def test_rows(checker, row, rng):
    """Every number of taps, every tail."""
    lanes, element = row["lanes"], DTYPES[row["dtype"]]
    for taps in range(LEAST_TAPS, MOST_TAPS + 1):
        count = int(rng.integers(1, 6 * lanes))
        elements = rng.standard_normal((3, count + taps - 1)).astype(element)
        found = rows_of(checker, row, rng, elements, taps, element.type(0.3), count)
        windows = np.lib.stride_tricks.sliding_window_view(elements.astype(np.float64), taps, 1)
        assert_near(found, windows, float(element.type(0.3)))


@every_rows
def test_rows_see_their_windows_alone(checker, row, rng):
    """NaN and infinities are in the results that see them, and in no others."""
    count = 5 * row["lanes"] + 3
    for taps in (3, 15, 16, 31, 40):
        elements = np.ones((2, count + taps - 1))
        elements[0, count // 2], elements[1, count // 3] = np.nan, np.inf
        found = rows_of(checker, row, rng, elements, taps, 0.5, count)
        windows = np.lib.stride_tricks.sliding_window_view(elements, taps, 1)
        np.testing.assert_array_equal(found, 0.5 * windows.sum(-1))


@every_near
def test_rows_by_way_of_neighbours(checker, row, rng):
    """Every tail; neighbours that divide the taps, some that do not, and none; channels."""
    lanes, element = row["lanes"], DTYPES[row["dtype"]]
    for count in (*range(1, 6 * lanes), 20 * lanes + 3):
        taps, step = int(rng.integers(1, 40)), int(rng.integers(1, 5))
        neighbours = int(rng.integers(taps + 1))
        elements = rng.standard_normal((3, count + (taps - 1) * step)).astype(element)
        found = near_rows_of(
            checker, row, rng, elements, taps, element.type(0.3), count, step, neighbours
        )
        seen = np.lib.stride_tricks.sliding_window_view(
            elements.astype(np.float64), (taps - 1) * step + 1, 1
        )
        assert_near(found, seen[..., ::step], float(element.type(0.3)))


@every_near
def test_rows_of_neighbours_see_their_windows_alone(checker, row, rng):
    """NaN and infinities are in the results that see them, and in no others."""
    count = 5 * row["lanes"] + 3
    for taps, neighbours in ((3, 0), (15, 3), (16, 4), (31, 5), (40, 7)):
        elements = np.ones((2, count + taps - 1))
        elements[0, count // 2], elements[1, count // 3] = np.nan, np.inf
        found = near_rows_of(checker, row, rng, elements, taps, 0.5, count, neighbours=neighbours)
        windows = np.lib.stride_tricks.sliding_window_view(elements, taps, 1)
        np.testing.assert_array_equal(found, 0.5 * windows.sum(-1))
