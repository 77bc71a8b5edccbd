"""Element-wise programs that read and write integers, and sums of them that are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pplconv import planner
from pplconv._kernels import INSTRUCTIONS
from pplconv.arguments import checks
from pplconv.memory.dtypes import DTYPES
from pplconv.network import integers
from pplconv.network.operators.elementwise_steps import numbers_of
from pplconv.numerics import default_permission
from pplconv.ops.prepared import PackedWeights, Prepared
from pplconv.ops.program import Program
from pplconv.ops.quantized.rescaling import Rescaling
from pplconv.schedules.elementwise_loops import TILE_ELEMENTS, Elementwise
from pplconv.schedules.zero_point_loops import ZeroPoint
from tests.levels import allowed_isas
from tests.network.loop_cases import run

INTEGERS = {"u8": np.uint8, "s8": np.int8, "s32": np.int32}


def line(op: str, to: int, *operands: int) -> tuple[int, ...]:
    return (INSTRUCTIONS[op], to, *(*operands, operands[0], operands[0])[:3])


def pair(scale: float, zero: int) -> np.ndarray:
    return numbers_of(scale, zero).buffer.array.copy()


@pytest.mark.parametrize("isa", allowed_isas())
@pytest.mark.parametrize(("first", "second", "stored"), [
    ("u8", "s8", "u8"), ("s8", "u8", "s8"), ("s32", "u8", "u8"), ("u8", "s32", "s8"),
])  # fmt: skip
@pytest.mark.parametrize("rows", [1, 3, 150])
def test_sums_of_integers(isa, first, second, stored, rows, rng):
    """Rows with gaps, one number a row, tiles that are not full, and the same for each team."""
    for columns in (1, 7, 200, TILE_ELEMENTS):
        a, b = (
            rng.integers(*((-999, 999) if k == "s32" else (np.iinfo(INTEGERS[k]).min, 128)),
                         (rows, columns + gap)).astype(INTEGERS[k])
            for k, gap in ((first, 5), (second, 0))
        )  # fmt: skip
        each = rng.integers(0, 100, (rows, 1)).astype(np.uint8)
        numbers = rng.standard_normal((rows, columns)).astype(np.float32)
        scales = [(0.031, 7), (0.017, -2), (0.4, 50), (0.043, 3)]
        expected = integers.dequantize(a[:, :columns], np.float32(0.031), 7)
        expected = expected + integers.dequantize(b, np.float32(0.017), -2)
        expected = expected + integers.dequantize(each, np.float32(0.4), 50)
        expected = integers.quantize(
            expected + numbers, np.float32(0.043), 3, np.dtype(INTEGERS[stored])
        )
        results = []
        for threads in (1, 3):
            y = np.full((rows, columns + 3), 0x5A, INTEGERS[stored])
            arrays = [a, b, each, numbers, y, *(pair(*scale) for scale in scales)]
            fields = {
                "dtype": "f32", "dims": (rows,), "columns": columns,
                "inputs": [
                    (0, (a.strides[0],), 1, 0, first, 5), (1, (b.strides[0],), 1, 1, second, 6),
                    (2, (1,), 0, 2, "u8", 7), (3, (4 * columns,), 1, 3),
                ],
                "outputs": [(4, (columns + 3,), 1, 6, stored, 8)],
                # Registers of inputs keep what they hold for the next chunk.
                "code": [line("ADD", 4, 0, 1), line("ADD", 5, 4, 2), line("ADD", 6, 5, 3)],
                "row_segment": 40, "column_segment": columns,
            }  # fmt: skip
            memory = [array.reshape(-1).view(np.uint8) for array in arrays]
            run(Elementwise(fields, isa), threads, memory)
            assert (y[:, columns:] == 0x5A).all()
            results.append(y[:, :columns])
        np.testing.assert_array_equal(results[0], expected)
        np.testing.assert_array_equal(results[0], results[1])


# Instructions on inputs 0 and 1, bytes, 2, a number for each column, and 3, one number; and the
# registers of the outputs.
PROGRAMS = {
    "in place": ([line("MULTIPLY", 0, 0, 2), line("ADD", 0, 0, 1)], [0]),
    "inputs are read again": (
        [line("ADD", 4, 0, 1), line("MULTIPLY", 5, 4, 0), line("SUBTRACT", 6, 5, 4)], [6]),
    "two outputs": (
        [line("MULTIPLY", 4, 0, 2), line("ADD", 5, 4, 1), line("MULTIPLY", 6, 4, 3)], [5, 6]),
    "one operand": ([line("ADD", 4, 2, 2), line("MULTIPLY", 4, 4, 4), line("ADD", 5, 4, 0)], [5]),
    "three operands": (
        [line("CLIP", 4, 0, 3, 2), line("HARDSWISH", 5, 4), line("CLIP", 5, 5, 3, 1)], [5]),
    "an input is an output": ([line("ADD", 4, 0, 1), line("ADD", 4, 4, 2)], [4, 0]),
    "instructions without loops of their own": (
        [line("MAXIMUM", 4, 0, 1), line("ADD", 4, 4, 2)], [4]),
    "many": ([line("ADD", 0, 0, 1)] + 8 * [line("ADD", 0, 0, 3)], [0]),
}  # fmt: skip


def computed(code: list[tuple[int, ...]], registers: dict[int, np.ndarray]) -> None:
    """Run instructions on whole arrays."""
    names = {number: name for name, number in INSTRUCTIONS.items()}
    for op, to, a, b, c in code:
        x, y, z = (registers[reg] for reg in (a, b, c))
        results = {
            "ADD": lambda x, y, z: x + y,
            "SUBTRACT": lambda x, y, z: x - y,
            "MULTIPLY": lambda x, y, z: x * y,
            "MAXIMUM": lambda x, y, z: np.maximum(x, y),
            "CLIP": lambda x, y, z: np.minimum(np.maximum(x, y), z),
            "HARDSWISH": lambda x, y, z: x * np.clip(x / 6 + 0.5, 0, 1),
        }
        registers[to] = results[names[op]](x, y, z)


@pytest.mark.parametrize("isa", allowed_isas())
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_of_integers(isa, program, rng):
    """Instructions on whole tiles, whatever their operands are; the same bits for each team."""
    code, outputs = PROGRAMS[program]
    for rows, columns in ((1, 1), (3, 5), (67, 24), (30, 96), (5, 700), (2, TILE_ELEMENTS)):
        a = rng.integers(0, 256, (rows, columns)).astype(np.uint8)
        wide = rng.integers(-128, 128, (rows, columns + 3)).astype(np.int8)
        each, one = rng.standard_normal(columns), np.full(1, -0.75)
        each, one = each.astype(np.float32), one.astype(np.float32)
        each[::7] = np.inf
        registers = {
            0: integers.dequantize(a, np.float32(0.031), 7),
            1: integers.dequantize(wide[:, :columns], np.float32(0.017), -2),
            2: np.broadcast_to(each, (rows, columns)),
            3: np.broadcast_to(one, (rows, columns)),
        }
        with np.errstate(invalid="ignore", over="ignore"):
            computed(code, registers)
        results = []
        for threads in (1, 3):
            stored = [np.full((rows, columns), 0x5A, np.uint8) for _ in outputs]
            numbers = [pair(0.031, 7), pair(0.017, -2), pair(0.043, 100)]
            arrays = [a, wide, each, one, *numbers, *stored]
            fields = {
                "dtype": "f32", "dims": (rows,), "columns": columns,
                "inputs": [
                    (0, (columns,), 1, 0, "u8", 4), (1, (columns + 3,), 1, 1, "s8", 5),
                    (2, (0,), 1, 2), (3, (0,), 0, 3),
                ],
                "outputs": [
                    (7 + i, (columns,), 1, reg, "u8", 6) for i, reg in enumerate(outputs)
                ],
                "code": code, "row_segment": 20, "column_segment": columns,
            }  # fmt: skip
            memory = [array.reshape(-1).view(np.uint8) for array in arrays]
            run(Elementwise(fields, isa), threads, memory)
            for reg, found in zip(outputs, stored, strict=True):
                expected = integers.quantize(
                    registers[reg], np.float32(0.043), 100, np.dtype(np.uint8)
                )
                # HardSwish rounds otherwise than these formulas.
                near = 1 if program == "three operands" else 0
                assert np.abs(found.astype(int) - expected).max() <= near
            results.append(stored)
        for first, second in zip(*results, strict=True):
            np.testing.assert_array_equal(first, second)


# Programs of one pass, and some that are nearly such: on inputs 0 and 1, bytes, 2, a number for
# each column, 3, one for each row, and 4 and 5, bounds.
PASSES = {
    "product": [line("MULTIPLY", 6, 2, 0)],
    "sum": [line("ADD", 0, 1, 0)],
    "sum of rows and columns": [line("ADD", 2, 2, 3)],
    "product and sum": [line("MULTIPLY", 6, 0, 2), line("ADD", 6, 1, 6)],
    "all": [line("MULTIPLY", 6, 3, 0), line("ADD", 7, 2, 6), line("CLIP", 6, 7, 4, 5)],
    "bytes are multiplied": [line("MULTIPLY", 0, 0, 1), line("CLIP", 0, 0, 4, 5)],
    "sum, then product": [line("ADD", 6, 0, 2), line("MULTIPLY", 6, 6, 2)],
    "a product with itself": [line("MULTIPLY", 6, 0, 0), line("ADD", 6, 6, 1)],
    "the first result again": [line("MULTIPLY", 6, 0, 2), line("ADD", 7, 6, 6)],
    "an input that was overwritten": [line("MULTIPLY", 1, 0, 2), line("ADD", 6, 1, 1)],
    "bounds for each column": [line("ADD", 6, 0, 1), line("CLIP", 6, 6, 4, 2)],
    "a bound is clipped": [line("ADD", 6, 0, 1), line("CLIP", 6, 4, 6, 5)],
}


@pytest.mark.parametrize("isa", allowed_isas())
@pytest.mark.parametrize("program", PASSES)
def test_programs_of_one_pass(isa, program, rng):
    """Products, sums and bounds on the way to bytes, of long rows and of short ones."""
    for rows, columns in ((1, 1), (67, 24), (5, 700), (131, 3)):
        bytes_read = [rng.integers(0, 256, (rows, columns)).astype(np.uint8) for _ in range(2)]
        floats = [rng.standard_normal(shape).astype(np.float32) for shape in (columns, (rows, 1))]
        bounds = [np.full(1, bound, np.float32) for bound in (-1.25, 2.5)]
        registers = dict(enumerate([
            *(integers.dequantize(q, np.float32(0.031), 7) for q in bytes_read), *floats, *bounds,
        ]))  # fmt: skip
        registers = {i: np.broadcast_to(x, (rows, columns)) for i, x in registers.items()}
        computed(PASSES[program], registers)
        reg = PASSES[program][-1][1]
        expected = integers.quantize(registers[reg], np.float32(0.043), 100, np.dtype(np.uint8))
        for threads in (1, 3):
            y = np.full((rows, columns), 0x5A, np.uint8)
            arrays = [*bytes_read, *floats, *bounds, y, pair(0.031, 7), pair(0.043, 100)]
            fields = {
                "dtype": "f32", "dims": (rows,), "columns": columns,
                "inputs": [
                    *((i, (columns,), 1, i, "u8", 7) for i in range(2)),
                    (2, (0,), 1, 2), (3, (4,), 0, 3), (4, (0,), 0, 4), (5, (0,), 0, 5),
                ],
                "outputs": [(6, (columns,), 1, reg, "u8", 8)],
                "code": PASSES[program], "row_segment": 20, "column_segment": columns,
            }  # fmt: skip
            run(Elementwise(fields, isa), threads, [a.reshape(-1).view(np.uint8) for a in arrays])
            np.testing.assert_array_equal(y, expected)


def fields_of(**changes: Any) -> dict[str, Any]:
    """A conversion of 4 rows of 8, with something else about it."""
    return {
        "dtype": "f32", "dims": (4,), "columns": 8, "inputs": [(1, (32,), 1, 0)],
        "outputs": [(0, (8,), 1, 0, "u8", 2)], "code": [], "row_segment": 4, "column_segment": 8,
    } | changes  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dtype": "f64", "inputs": [(1, (64,), 1, 0)]}, "integers are converted"),
        ({"outputs": [(0, (8,), 1, 0, "u8", 99)]}, "integers are converted"),
        ({"outputs": [(0, (8,), 1, 0, "u8", -1)]}, "integers are converted"),
        ({"outputs": [(0, (8,), 1, 0, "truths")]}, "any other stream a type or none"),
        ({"outputs": [(0, (8,), 1, "truth")]}, "a stream has an array"),
        ({"dtype": "u8", "table": 2, "inputs": [(1, (8,), 1, 0)],
          "outputs": [(0, (8,), 1, 0, "truth")]}, "a table is looked up"),
        ({"columns": 4096, "column_segment": 4096, "inputs": [(1, (16384,), 1, 0)],
          "outputs": [(0, (4096,), 1, 0, "u8", 2)]}, "longer than a tile"),
    ],
)  # fmt: skip
def test_programs_that_are_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        Elementwise(fields_of(**changes), allowed_isas()[-1])


def test_types_without_conversions_are_refused():
    for kind in ("s16", "truth"):
        with pytest.raises((ValueError, LookupError)):
            Elementwise(fields_of(outputs=[(0, (8,), 1, 0, kind, 2)]), allowed_isas()[-1])


def test_numbers_that_are_too_small_are_refused():
    work = Elementwise(fields_of(), allowed_isas()[-1])
    sizes = [32, 128, 4]
    places = [("external", i, 0, size) for i, size in enumerate(sizes)]
    with pytest.raises(ValueError, match="beyond"):
        Program([(work, {"arrays": places})], 0, sizes, 1, 1)


def convolution(out: str = "") -> tuple[Prepared, np.ndarray]:
    weight = np.arange(-36, 36, dtype=np.int8).reshape(2, 4, 3, 3)
    problem = checks.make_problem(
        (1, 6, 5, 4), weight.shape, "u8", stride=1, padding=1, dilation=1, groups=1,
        layout="NHWC", permitted=default_permission("u8"),
    )  # fmt: skip
    if out:
        problem = replace(problem, destination=out)
    plan, fields = planner.make_plan(problem, threads=1)
    return Prepared(problem, plan, fields, 1), weight


def test_sums_that_are_not_rescaled_are_refused():
    prepared, weight = convolution()
    packed = PackedWeights(prepared, weight.astype(DTYPES[prepared.plan.numerics.weights]))
    x, y = ("external", 0, 0, 120), ("external", 1, 0, 240)
    places = {"x": x, "y": y, "weights": packed}
    with pytest.raises(ValueError, match="sums of integers, and no others, are rescaled"):
        Program([(prepared, places)], 0, [120, 240], 1, 1)
    rescaling = Rescaling(prepared, weight, np.zeros(2, np.int32), 3, np.ones(2, np.float32))
    Program([(prepared, {**places, "rescaling": rescaling})], 0, [120, 240], 1, 1)
    other = Rescaling(
        prepared, np.tile(weight, (2, 1, 1, 1)), np.zeros(4, np.int32), 3, np.ones(4, np.float32)
    )
    with pytest.raises(ValueError, match="numbers of other weights"):
        Program([(prepared, {**places, "rescaling": other})], 0, [120, 240], 1, 1)


@pytest.mark.parametrize("out", ["f32", "u8", "s8"])
def test_outputs_without_a_multiplier_are_refused(out):
    """Sums are outputs without one, numbers and bytes are not."""
    prepared, weight = convolution(out)
    packed = PackedWeights(prepared, weight.astype(DTYPES[prepared.plan.numerics.weights]))
    size = 60 * (4 if out == "f32" else 1)
    places = {"x": ("external", 0, 0, 120), "y": ("external", 1, 0, size), "weights": packed}
    places["rescaling"] = Rescaling(prepared, weight, np.zeros(2, np.int32), 3)
    with pytest.raises(ValueError, match="have a multiplier, known or computed"):
        Program([(prepared, places)], 0, [120, size, 8], 1, 1)
    computed = {**places, "multiplier": ("external", 2, 0, 8)}
    Program([(prepared, computed)], 0, [120, size, 8], 1, 1)


@pytest.mark.parametrize(("offsets", "multipliers"), [(1, 2), (2, 3), (2, 1)])
def test_numbers_for_each_channel(offsets, multipliers):
    prepared, weight = convolution()
    with pytest.raises(ValueError, match="for each output channel"):
        Rescaling(
            prepared, weight, np.zeros(offsets, np.int32), 0, np.ones(multipliers, np.float32)
        )


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_offsets_of_a_computed_zero_point(dtype, rng):
    """Sums wrap around, as int32 does."""
    limits = np.iinfo(np.int32)
    base, slope = rng.integers(limits.min, limits.max, (2, 19), np.int32, endpoint=True)
    for zero in (np.iinfo(dtype).min, 0, np.iinfo(dtype).max):
        y = np.zeros(19, np.int32)
        arrays = [y, np.array([zero], dtype), base, slope]
        work = ZeroPoint(19, np.dtype(dtype) == np.int8)
        run(work, 1, [array.view(np.uint8) for array in arrays])
        expected = base.astype(np.int64) + zero * slope.astype(np.int64)
        np.testing.assert_array_equal(y, expected.astype(np.int32))


def test_offsets_without_channels_are_refused():
    with pytest.raises(ValueError, match="an offset for each channel"):
        ZeroPoint(0, False)
    with pytest.raises(ValueError, match="negative"):
        ZeroPoint(-1, False)


def test_computed_numbers_that_are_missing_or_too_few_are_refused():
    prepared, weight = convolution()
    packed = PackedWeights(prepared, weight.astype(DTYPES[prepared.plan.numerics.weights]))
    known, computed = (
        Rescaling(prepared, weight, np.zeros(2, np.int32), zero, np.ones(2, np.float32))
        for zero in (3, None)
    )
    places = {"x": ("external", 0, 0, 120), "y": ("external", 1, 0, 240), "weights": packed}

    def made(rescaling: Rescaling, **more: Any) -> None:
        step = prepared, {**places, "rescaling": rescaling, **more}
        Program([step], 0, [120, 240, 4096], 1, 1)

    base, _ = computed.computed
    made(known)
    made(computed, offsets=("external", 2, 0, base.nbytes))
    for rescaling, more in ((known, {"offsets": ("external", 2, 0, 4096)}), (computed, {})):
        with pytest.raises(ValueError, match="computed where a zero point is"):
            made(rescaling, **more)
    with pytest.raises(ValueError, match="a step takes"):
        made(computed, offsets=("external", 2, 0, base.nbytes - 1))
    with pytest.raises(ValueError, match="a step takes"):
        made(known, multiplier=("external", 2, 0, 7))
