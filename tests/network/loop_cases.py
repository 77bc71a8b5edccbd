"""Random works for the loops of networks: their fields, their arrays, and what NumPy computes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.lib.stride_tricks import as_strided

from pplconv._kernels import INSTRUCTIONS, POOLINGS, REDUCTIONS
from pplconv.geometry import Strides
from pplconv.matrix_problem import MatrixProblem
from pplconv.network.operators.brain_products import brain_kinds
from pplconv.network.operators.window_steps import joined, listed, sights
from pplconv.ops.prepared import Prepared
from pplconv.ops.program import Program
from pplconv.planner import make_cheapest_plan
from pplconv.schedules.copy_loops import Copy
from pplconv.schedules.elementwise_loops import Elementwise
from pplconv.schedules.row_loops import Rows
from pplconv.schedules.window_loops import Pool, PoolPlaces, Resample

DTYPES = {
    "f16": np.dtype(np.float16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
    "u8": np.dtype(np.uint8), "bf16": np.dtype(ml_dtypes.bfloat16),
}  # fmt: skip
CANARY = 0x5A


@dataclass
class Laid:
    """An array somewhere in a stretch of bytes; its first element may lie behind others."""

    content: np.ndarray
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    first: int = 0

    def view(self, memory: np.ndarray | None = None) -> np.ndarray:
        """The array, of its own bytes or of others."""
        held = self.content if memory is None else memory
        return as_strided(held[self.first :].view(self.dtype), self.shape, self.strides)


def run(work: Any, threads: int, memory: Sequence[np.ndarray]) -> None:
    """Run a work on arrays of bytes."""
    sizes = [array.nbytes for array in memory]
    places = [("external", i, 0, size) for i, size in enumerate(sizes)]
    program = Program([(work, {"arrays": places})], 0, sizes, threads, 3)
    frame = program.frame()
    try:
        program.run(frame, list(memory), 0, 1)
    finally:
        program.give_back(frame)


@dataclass
class Case:
    """A work, its inputs, and its outputs as they should be."""

    work: Callable[[dict[str, Any], str], Any]
    fields: dict[str, Any]
    arrays: list[Laid]
    outputs: dict[int, np.ndarray]
    allowed: float = 0.0

    def run(self, isa: str, threads: int, memory: list[np.ndarray], **changes: Any) -> None:
        """Run it on stretches of bytes as large as those of the case."""
        run(self.work(self.fields | changes, isa), threads, memory)

    def memory(self) -> list[np.ndarray]:
        """Bytes for a run: inputs as they are, outputs of canaries."""
        return [
            np.full_like(laid.content, CANARY) if i in self.outputs else laid.content.copy()
            for i, laid in enumerate(self.arrays)
        ]

    def check(self, memory: list[np.ndarray]) -> None:
        """Compare outputs, and see that nothing else was written."""
        for i, laid in enumerate(self.arrays):
            if i not in self.outputs:
                assert np.array_equal(memory[i], laid.content), "an input was written"
                continue
            got, expected = laid.view(memory[i]), self.outputs[i]
            scale = float(np.abs(expected).max(initial=1e-30))
            if got.dtype == DTYPES["bf16"]:
                got, expected = got.astype(np.float64), expected.astype(np.float64)
            np.testing.assert_allclose(
                got, expected, rtol=0, atol=self.allowed * scale, err_msg=str(self.fields)
            )
            rest = memory[i].copy()
            laid.view(rest)[...] = np.full(1, CANARY * 0x0101010101010101, np.uint64).view(
                laid.dtype
            )[0]
            assert np.all(rest == CANARY), "wrote between the elements"


def error_of(dtype: np.dtype, times: int) -> float:
    """Error that some operations may have; those of bfloat16 are float32, rounded once."""
    if dtype == DTYPES["bf16"]:
        return float(ml_dtypes.finfo(dtype).eps) / 2 + error_of(DTYPES["f32"], times)
    return times * float(np.finfo(dtype).eps)


def drawn(rng: np.random.Generator, count: int, dtype: np.dtype) -> np.ndarray:
    """Numbers around zero, or any bytes."""
    if dtype.kind == "u":
        return rng.integers(0, 256, count, dtype)
    return rng.standard_normal(count).astype(dtype)


def lay(
    rng: np.random.Generator,
    shape: Sequence[int],
    dtype: np.dtype,
    *,
    inner: int = 1,
    repeat: Sequence[bool] | None = None,
    down: Sequence[bool] | None = None,
) -> Laid:
    """Draw an array: dimensions in any order, with gaps; the last `inner` ones lie as they are.

    Along some dimensions it may repeat elements, or walk down.
    """
    outer = len(shape) - inner
    order = [*(int(d) for d in rng.permutation(outer)), *range(outer, len(shape))]
    held = [1 if repeat is not None and repeat[d] else n for d, n in enumerate(shape)]
    strides, step = [0] * len(shape), dtype.itemsize
    for d in reversed(order):
        strides[d] = step
        step *= held[d]
        if d != len(shape) - 1 or not inner:
            step += int(rng.integers(0, 3)) * int(rng.integers(0, 2)) * dtype.itemsize
    extent = dtype.itemsize + sum((n - 1) * s for n, s in zip(held, strides, strict=True))
    if repeat is not None:
        strides = [0 if again else s for s, again in zip(strides, repeat, strict=True)]
    first = 0
    for d, back in enumerate(down or ()):
        if back:
            first += (shape[d] - 1) * strides[d]
            strides[d] = -strides[d]
    content = drawn(rng, extent // dtype.itemsize, dtype).view(np.uint8)
    return Laid(content, tuple(shape), tuple(strides), dtype, first)


def counts(rng: np.random.Generator, low: int, high: int, largest: int) -> tuple[int, ...]:
    """Some dimensions, many of them of one."""
    n = int(rng.integers(low, high + 1))
    return tuple(int(rng.integers(1, largest + 1)) * int(rng.integers(0, 2)) or 1 for _ in range(n))


def elementwise(rng: np.random.Generator, name: str) -> Case:
    """(a + b) * c and the larger of a and b, broadcast in any way.

    With bfloat16, some arrays are float32.
    """
    kinds = [name if rng.integers(0, 3) else "f32" for _ in range(5)] if name == "bf16" else []
    types = [DTYPES[kind] for kind in kinds or [name] * 5]
    dims, columns = counts(rng, 0, 5, 5), int(rng.integers(1, 150))
    shape = (*dims, columns)
    arrays = [lay(rng, shape, dtype) for dtype in types[:2]]
    for dtype in types[2:]:
        repeat = [bool(rng.integers(0, 3) == 0) for _ in shape]
        # One element for all of a row is no array with a stride.
        repeat[-1] = repeat[-1] or columns == 1
        arrays.append(lay(rng, shape, dtype, repeat=repeat))
    a, b, c = (array.view() for array in arrays[2:])
    streams: list[tuple[Any, ...]] = [
        (i, array.strides[:-1], int(i < 2 or array.strides[-1] > 0), register)
        for i, (array, register) in enumerate(zip(arrays, (4, 5, 0, 1, 2), strict=True))
    ]
    if kinds:
        a, b, c = (x.astype(np.float32) for x in (a, b, c))
        streams = [
            (*s, *(["bf16"] if k == "bf16" else [])) for s, k in zip(streams, kinds, strict=True)
        ]
    fields = {
        "dtype": "f32" if kinds else name, "dims": dims, "columns": columns, "outputs": streams[:2],
        "inputs": streams[2:],
        "code": [
            (INSTRUCTIONS["ADD"], 3, 0, 1, 0), (INSTRUCTIONS["MULTIPLY"], 4, 3, 2, 0),
            (INSTRUCTIONS["MAXIMUM"], 5, 0, 1, 0),
        ],
        "row_segment": int(rng.integers(1, 9)), "column_segment": int(rng.integers(1, 200)),
    }  # fmt: skip
    allowed = error_of(DTYPES[name], 0)
    return Case(Elementwise, fields, arrays, {0: (a + b) * c, 1: np.maximum(a, b)}, allowed)


def truths(rng: np.random.Generator, name: str) -> Case:
    """Where a truth and 0 < a are true, and a chosen by another truth; broadcast in any way."""
    dtype, byte = DTYPES[name], DTYPES["u8"]
    dims, columns = counts(rng, 0, 5, 5), int(rng.integers(1, 150))
    shape = (*dims, columns)
    kinds = [byte, dtype, dtype, byte, byte]
    arrays = [lay(rng, shape, kind) for kind in kinds[:2]]
    for kind in kinds[2:]:
        repeat = [bool(rng.integers(0, 3) == 0) for _ in shape]
        repeat[-1] = repeat[-1] or columns == 1
        arrays.append(lay(rng, shape, kind, repeat=repeat))
    for laid in arrays[3:]:
        laid.content[rng.random(laid.content.size) < 0.5] = 0
    a, one, two = (array.view() for array in arrays[2:])
    streams: list[tuple[Any, ...]] = [
        (i, array.strides[:-1], int(i < 2 or array.strides[-1] > 0), register)
        for i, (array, register) in enumerate(zip(arrays, (5, 6, 0, 1, 2), strict=True))
    ]
    for i, kind in enumerate(kinds):
        streams[i] += ("truth",) if kind == byte else ()
    fields = {
        "dtype": name, "dims": dims, "columns": columns, "outputs": streams[:2],
        "inputs": streams[2:],
        "code": [
            (INSTRUCTIONS["SUBTRACT"], 3, 0, 0, 0), (INSTRUCTIONS["LESS"], 4, 3, 0, 0),
            (INSTRUCTIONS["AND"], 5, 4, 1, 0), (INSTRUCTIONS["WHERE"], 6, 2, 0, 3),
        ],
        "row_segment": int(rng.integers(1, 9)), "column_segment": int(rng.integers(1, 200)),
    }  # fmt: skip
    wanted = {0: ((a > 0) & (one != 0)).astype(byte), 1: np.where(two != 0, a, 0)}
    return Case(Elementwise, fields, arrays, wanted)


def lookup(rng: np.random.Generator, name: str) -> Case:
    """Bytes by a table."""
    dtype = DTYPES["u8"]
    shape = (*counts(rng, 0, 5, 5), int(rng.integers(1, 300)))
    y, x = lay(rng, shape, dtype), lay(rng, shape, dtype)
    table = rng.permutation(256).astype(np.uint8)
    fields = {
        "dtype": "u8", "dims": shape[:-1], "columns": shape[-1],
        "outputs": [(0, y.strides[:-1], 1, 0)], "inputs": [(1, x.strides[:-1], 1, 0)],
        "code": [], "row_segment": int(rng.integers(1, 9)),
        "column_segment": int(rng.integers(1, 200)), "table": 2,
    }  # fmt: skip
    last = Laid(table, (256,), (1,), dtype)
    return Case(Elementwise, fields, [y, x, last], {0: table[x.view()]})


def copying(rng: np.random.Generator, name: str) -> Case:
    """Any strides on both sides; the source may repeat elements, and walk down."""
    shape = (*counts(rng, 0, 4, 4), *(int(n) for n in rng.integers(1, 40, 2)))
    repeat, down = ([bool(rng.integers(0, 4) == 0) for _ in shape] for _ in range(2))
    dst = lay(rng, shape, DTYPES[name], inner=int(rng.integers(0, 2)))
    src = lay(rng, shape, DTYPES[name], inner=int(rng.integers(0, 2)), repeat=repeat, down=down)
    fields = {
        "dtype": "s16" if name == "bf16" else name, "dims": shape, "src": src.strides,
        "dst": dst.strides,
        "row_segment": int(rng.integers(1, 30)), "lines": int(rng.integers(1, 12)),
    }  # fmt: skip
    return Case(Copy, fields, [dst, src], {0: src.view().copy()})


def converting(rng: np.random.Generator, name: str) -> Case:
    """The same without gaps in rows, to float32 from float16, or else back; or to bfloat16."""
    to, of = ("f32", "f16") if name == "f32" else ("bf16" if name == "bf16" else "f16", "f32")
    shape = (*counts(rng, 0, 4, 4), *(int(n) for n in rng.integers(1, 40, 2)))
    repeat, down = ([*(bool(rng.integers(0, 4) == 0) for _ in shape[1:]), False] for _ in range(2))
    dst = lay(rng, shape, DTYPES[to])
    src = lay(rng, shape, DTYPES[of], repeat=repeat, down=down)
    fields = {
        "dtype": to, "source": of, "dims": shape, "src": src.strides, "dst": dst.strides,
        "row_segment": int(rng.integers(1, 30)), "lines": int(rng.integers(1, 12)),
    }  # fmt: skip
    return Case(Copy, fields, [dst, src], {0: src.view().astype(DTYPES[to])})


def rows(rng: np.random.Generator, name: str) -> Case:
    """Reductions, softmax and normalization of matrices that lie anywhere.

    Results of bfloat16 may be float32.
    """
    dtype = DTYPES[name]
    op = str(rng.choice(["reduce_rows", "reduce_columns", "softmax", "layer_norm"]))
    around = counts(rng, 0, 4, 3)
    count, columns = int(rng.integers(1, 12)), int(rng.integers(1, 90))
    src = lay(rng, (*around, count, columns), dtype)
    x = src.view().astype(np.float64)
    own = DTYPES["f32"] if name == "bf16" else dtype
    wide = name == "bf16" and bool(rng.integers(0, 2))
    to = own if wide else dtype
    kind, epsilon, more = 0, 0.0, []
    scaled, moved = (bool(i) for i in rng.integers(0, 2, 2))
    if op.startswith("reduce"):
        which = str(rng.choice(list(REDUCTIONS)))
        kind = REDUCTIONS[which]
        axis = -2 if op == "reduce_rows" else -1
        x = x * x if which == "SQUARES" else x
        function = {"MAX": np.max, "MIN": np.min}.get(which, np.sum)
        expected = function(x, axis=axis)
        dst = lay(rng, (*around, columns if axis == -2 else count), to, inner=int(axis == -2))
    else:
        dst = lay(rng, (*around, count, columns), to)
        if op == "softmax":
            kind = int(rng.integers(0, 2))
            e = np.exp(x - x.max(-1, keepdims=True))
            expected = e / e.sum(-1, keepdims=True)
            expected = np.log(expected) if kind else expected
        else:
            epsilon = 0.125
            centred = x - x.mean(-1, keepdims=True)
            expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
            more = [lay(rng, (columns,), own) for _ in range(2)]
            more.append(numbers(np.array([epsilon])))
            expected = expected * more[0].view() if scaled else expected
            expected = expected + more[1].view() if moved else expected
    n = len(around)
    lines = op == "reduce_rows"
    fields = {
        "op": op, "dtype": name, "kind": kind, "dims": around,
        "src": src.strides[:n], "dst": dst.strides[:n], "rows": count, "columns": columns,
        "src_rs": src.strides[n], "dst_rs": 0 if lines else dst.strides[n],
        "segment": int(rng.integers(1, 40)), "scale": bool(more) and scaled,
        "offset": bool(more) and moved, "wide": wide,
    }  # fmt: skip
    return Case(Rows, fields, [dst, src, *more], {0: expected}, error_of(to, 64))


def numbers(values: np.ndarray) -> Laid:
    """Numbers that kernels take in double precision."""
    return Laid(values.astype(np.float64).view(np.uint8), values.shape, (8,), np.dtype(np.float64))


def images(rng: np.random.Generator, shape: tuple[int, int, int, int], dtype: np.dtype) -> Laid:
    """Images, rows and pixels in this order, channels side by side; gaps between all of them."""
    _, h, w, c = shape
    gaps = [int(g) * dtype.itemsize for g in rng.integers(0, 4, 3)]
    pixel = c * dtype.itemsize + gaps[0]
    row = w * pixel + gaps[1]
    image = h * row + gaps[2]
    strides = (image, row, pixel, dtype.itemsize)
    extent = dtype.itemsize + sum((m - 1) * s for m, s in zip(shape, strides, strict=True))
    content = drawn(rng, extent // dtype.itemsize, dtype).view(np.uint8)
    return Laid(content, shape, strides, dtype)


def pool(rng: np.random.Generator, name: str) -> Case:
    """Windows of any stride and dilation, partly outside of the image."""
    dtype = DTYPES[name]
    kind = str(rng.choice(list(POOLINGS)))
    while True:
        kernel, stride, dilation, pads = (
            tuple(int(i) for i in rng.integers(low, high, 2))
            for low, high in ((1, 4), (1, 4), (1, 3), (0, 3))
        )
        size = tuple(int(i) for i in rng.integers(1, 12, 2))
        out = tuple(
            (size[d] + 2 * pads[d] - (kernel[d] - 1) * dilation[d] - 1) // stride[d] + 1
            for d in range(2)
        )
        if min(out) < 1:
            continue
        seen = [
            sights(out[d], size[d], kernel[d], stride[d], dilation[d], (pads[d],) * 2, True)
            for d in range(2)
        ]
        if all((side[:, 0] < side[:, 1]).all() for side in seen):
            break
    sides = [listed(side) for side in seen]
    batch, channels = int(rng.integers(1, 3)), int(rng.integers(1, 40))
    src = images(rng, (batch, *size, channels), dtype)
    dst = images(rng, (batch, *out, channels), dtype)
    x = src.view().astype(np.float64)
    expected = np.empty(dst.shape)
    for (i, row), (j, column) in itertools.product(enumerate(sides[0]), enumerate(sides[1])):
        top, left = i * stride[0] - pads[0], j * stride[1] - pads[1]
        taps = np.stack([
            x[:, top + a * dilation[0], left + b * dilation[1]]
            for a in range(row[2], row[3]) for b in range(column[2], column[3])
        ])  # fmt: skip
        average = taps.sum(0) / (row[4] * column[4])
        expected[:, i, j] = taps.max(0) if kind == "MAX" else average
    fields = {
        "dtype": name, "kind": POOLINGS[kind], "batch": batch, "channels": channels,
        "ih": size[0], "iw": size[1], "oh": out[0], "ow": out[1], "stride": stride,
        "dilation": dilation, "pads": pads, "x": src.strides[:3], "y": dst.strides[:3],
        "rows": sides[0], "columns": joined(seen[1]), "row_segment": int(rng.integers(1, 5)),
    }  # fmt: skip
    counted = np.arange(max(s[4] for s in sides[0]) * max(s[4] for s in sides[1]) + 1)
    scales = numbers(1 / np.maximum(counted, 1))
    return Case(Pool, fields, [dst, src, scales], {0: expected}, error_of(dtype, 8))


def places(rng: np.random.Generator, name: str) -> Case:
    """Windows of three axes, partly or wholly outside of the image; the first of equal numbers."""
    dtype = DTYPES[name]
    kernel, stride, dilation, pads, size, out = (
        tuple(int(i) for i in rng.integers(low, high, 3))
        for low, high in ((1, 4), (1, 4), (1, 3), (0, 4), (1, 6), (1, 5))
    )
    batch, channels = int(rng.integers(1, 3)), int(rng.integers(1, 20))
    src = lay(rng, (batch, *size, channels), dtype)
    src.view()[...] = rng.integers(-2, 3, src.shape)
    dst = lay(rng, (batch, *out, channels), dtype)
    found = lay(rng, (batch, *out, channels), np.dtype(np.int64))
    steps = tuple(int(i) for i in rng.integers(0, 100, 5))
    x = src.view()
    largest = np.full(dst.shape, np.finfo(dtype).min)
    where = np.full(dst.shape, -1, np.int64)
    apart = np.add.outer(np.arange(batch) * steps[0], np.arange(channels) * steps[1])
    for at in itertools.product(*map(range, out)):
        for tap in itertools.product(*map(range, kernel)):
            spot = tuple(
                o * s - p + t * d
                for o, s, p, t, d in zip(at, stride, pads, tap, dilation, strict=True)
            )
            if all(0 <= i < n for i, n in zip(spot, size, strict=True)):
                here, place = (slice(None), *at), np.dot(spot, steps[2:])
                better = (where[here] < 0) | (x[(slice(None), *spot)] > largest[here])
                largest[here] = np.where(better, x[(slice(None), *spot)], largest[here])
                where[here] = np.where(better, apart + place, where[here])
    fields = {
        "dtype": name, "batch": batch, "channels": channels, "size": size, "out": out,
        "kernel": kernel, "stride": stride, "dilation": dilation, "pads": pads,
        "x": src.strides[:4], "y": dst.strides[:4], "places": found.strides[:4], "steps": steps,
        "row_segment": int(rng.integers(1, 5)),
    }  # fmt: skip
    return Case(PoolPlaces, fields, [dst, found, src], {0: largest, 1: where})


def _taps(
    rng: np.random.Generator, name: str, src: Laid, dst: Laid, taps: Any, weights: Any
) -> dict[str, Any]:
    """Fields of a work that takes rows and columns by weights."""
    batch, ih, iw, channels = src.shape
    return {
        "dtype": name, "batch": batch, "channels": channels, "ih": ih, "iw": iw,
        "x": src.strides[:3], "y": dst.strides[:3], "rows": taps[0], "columns": taps[1],
        "weights_y": weights[0], "weights_x": weights[1], "row_segment": int(rng.integers(1, 5)),
    }  # fmt: skip


def resample(rng: np.random.Generator, name: str) -> Case:
    """Any inputs in any order with any weights."""
    dtype = DTYPES[name]
    batch, channels, ih, iw, oh, ow = (
        int(n) for n in rng.integers(1, [3, 40, 8, 8, 10, 10], endpoint=True)
    )
    taps = (int(rng.integers(1, 6)), int(rng.integers(1, 6)))
    down, across = rng.integers(0, ih, (oh, taps[0])), rng.integers(0, iw, (ow, taps[1]))
    kind = np.float32 if name == "bf16" else dtype
    weights = [rng.standard_normal(i.shape).astype(kind) for i in (down, across)]
    if taps == (1, 1):
        # A copy, whatever the weights.
        weights = [np.ones_like(weight) for weight in weights]
    src = images(rng, (batch, ih, iw, channels), dtype)
    dst = images(rng, (batch, oh, ow, channels), dtype)
    x = src.view().astype(np.float64)
    lines = np.einsum("botwc,ot->bowc", x[:, down], weights[0].astype(np.float64))
    expected = np.einsum("bhotc,ot->bhoc", lines[:, :, across], weights[1].astype(np.float64))
    fields = _taps(rng, name, src, dst, (down, across), weights)
    return Case(Resample, fields, [dst, src], {0: expected}, error_of(dtype, 64))


def repeating(rng: np.random.Generator, name: str) -> Case:
    """Pixels of bytes, in any order."""
    dtype = DTYPES["u8"]
    batch, channels, ih, iw, oh, ow = (
        int(n) for n in rng.integers(1, [3, 150, 8, 8, 10, 10], endpoint=True)
    )
    down, across = rng.integers(0, ih, (oh, 1)), rng.integers(0, iw, (ow, 1))
    src = images(rng, (batch, ih, iw, channels), dtype)
    dst = images(rng, (batch, oh, ow, channels), dtype)
    fields = _taps(rng, "u8", src, dst, (down, across), [np.ones(i.shape) for i in (down, across)])
    expected = src.view()[:, down[:, 0]][:, :, across[:, 0]]
    return Case(Resample, fields, [dst, src], {0: expected})


def quantizing(rng: np.random.Generator, name: str) -> Case:
    """Bytes as float32 by a scale and a zero point, or for another type back."""
    shape = (*counts(rng, 0, 4, 5), int(rng.integers(1, 3000)))
    types = ["f32", "u8"] if name == "f32" else ["u8", "f32"]
    dst, src = (lay(rng, shape, DTYPES[kind]) for kind in types)
    pair = np.array([(0.0625, 100)], [("scale", np.float32), ("zero", np.int32)]).view(np.uint8)
    streams = [
        (i, laid.strides[:-1], 1, 0, *(["u8", 2] if laid.dtype.itemsize == 1 else []))
        for i, laid in enumerate((dst, src))
    ]
    x = src.view().astype(np.float64)
    expected = (x - 100) / 16 if name == "f32" else np.clip(np.rint(x * 16) + 100, 0, 255)
    fields = {
        "dtype": "f32", "dims": shape[:-1], "columns": shape[-1], "outputs": streams[:1],
        "inputs": streams[1:], "code": [], "row_segment": int(rng.integers(1, 9)),
        "column_segment": int(rng.integers(1, 2049)),
    }  # fmt: skip
    numbers = Laid(pair, (8,), (1,), np.dtype(np.uint8))
    return Case(Elementwise, fields, [dst, src, numbers], {0: expected})


def attention(rng: np.random.Generator, name: str) -> Case:
    """Attention of heads that lie anywhere, with a mask that may be broadcast.

    Of float32, some arrays are stored as float16; or products are of bfloat16, on a CPU that has
    them, and the result is of either type.
    """
    dtype = DTYPES[name]
    e = dtype.itemsize
    kinds = brain_kinds() if name == "f32" and rng.integers(0, 2) else ()
    around = counts(rng, 0, 4, 3)
    tile, keys, width, depth = (int(n) for n in rng.integers(1, [10, 40, 20, 20]))
    queries = tile * int(rng.integers(1, 6))
    queries -= int(rng.integers(0, tile)) if queries > tile else 0
    tiles = -(-queries // tile)
    shapes = [(queries, depth), (queries, width), (keys, width), (keys, depth)]
    narrow = [name == "f32" and not kinds and bool(rng.integers(0, 2)) for _ in shapes]
    types = [DTYPES["f16"] if half else dtype for half in narrow]
    operand, given = name, name
    if kinds:
        operand, given = "bf16", ("f32", "bf16")[int(rng.integers(0, 2))]
        types = [DTYPES[given], *[DTYPES[operand]] * 3]
    arrays = [lay(rng, (*around, *shape), own) for shape, own in zip(shapes, types, strict=True)]
    repeat = [bool(i) for i in rng.integers(0, 2, len(around) + 1)]
    arrays.append(lay(rng, (*around, queries, keys), dtype, repeat=[*repeat, False]))
    q, k, v, mask = (laid.view().astype(np.float64) for laid in arrays[1:])
    x = q @ k.swapaxes(-1, -2) + mask
    shares = np.exp(x - x.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    expected, terms = shares @ v, shares @ np.abs(v)
    n = len(around)
    rows = [laid.strides[n] for laid in arrays]
    score_row = keys * e + e * int(rng.integers(0, 3))
    inner = Strides(0, 0, score_row // e, 1)
    narrowed_row = 2 * (keys + int(rng.integers(0, 3))) if kinds else 0
    shared = Strides(0, 0, narrowed_row // 2, 1) if kinds else inner
    # Converted arrays have no gaps.
    apart = [
        shape[-1] if half else row // own.itemsize
        for shape, half, row, own in zip(shapes, narrow, rows[:4], types, strict=True)
    ]
    stored = tuple(
        ("f16", tile if i < 2 else keys, shape[-1], row) if half else None
        for i, (shape, half, row) in enumerate(zip(shapes, narrow, rows[:4], strict=True))
    )
    permitted = kinds or (name,)
    scores = MatrixProblem(
        tile, keys, width, dtype=operand, permitted=permitted, destination=name,
        a=Strides(0, 0, apart[1], 1), b=Strides(0, 0, 1, apart[2]), c=inner,
    )  # fmt: skip
    sums = MatrixProblem(
        tile, depth, keys, dtype=operand, permitted=permitted, destination=given, a=shared,
        b=Strides(0, 0, apart[3], 1), c=Strides(0, 0, apart[0], 1),
    )  # fmt: skip
    added = {
        "dtype": name, "dims": (tile,), "columns": keys, "outputs": [(0, (score_row,), 1, 2)],
        "inputs": [(0, (score_row,), 1, 0), (4, (rows[4],), 1, 1)],
        "code": [(INSTRUCTIONS["ADD"], 2, 0, 1, 1)], "row_segment": tile, "column_segment": keys,
    }  # fmt: skip

    def work(fields: dict[str, Any], isa: str) -> Any:
        first, second = (
            Prepared(problem, *make_cheapest_plan([problem], threads=1)[1:], 1)
            for problem in (scores, sums)
        )
        return first.attention_work(second, [Elementwise(added, isa)], [], fields, isa)

    fields = {
        "dtype": name, "dims": around, "strides": [laid.strides[:n] for laid in arrays],
        "rows": [*rows[:2], 0, 0, rows[4]], "queries": queries, "tile": tile,
        "chunks": 2 if 4 <= tiles <= tile else 1, "score_row": score_row, "stored": stored,
        "operands": operand, "narrowed_row": narrowed_row,
    }  # fmt: skip
    # Shares are rounded, and maybe the result.
    rounded = 2.0**-8 * (1.1 + terms.max() / max(np.abs(expected).max(), 1e-30))
    return Case(
        work,
        fields,
        arrays,
        {0: expected},
        rounded if kinds else 64 * float(np.finfo(types[0]).eps) / (1 + 63 * narrow[0]),
    )


KINDS: dict[str, Callable[[np.random.Generator, str], Case]] = {
    "elementwise": elementwise, "copying": copying, "converting": converting, "rows": rows,
    "pool": pool, "places": places, "resample": resample, "lookup": lookup, "repeating": repeating,
    "truths": truths, "quantizing": quantizing, "attention": attention,
}  # fmt: skip
# Loops that take bfloat16, too.
OF_BRAIN_FLOATS = ("elementwise", "copying", "converting", "rows", "pool", "resample")


def types_of(kind: str) -> tuple[str, ...]:
    """Names of the types that cases of a kind are drawn for."""
    return ("f32", "f64", *(("bf16",) if kind in OF_BRAIN_FLOATS else ()))
