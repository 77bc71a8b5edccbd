"""Where plans put rows, planes and slabs, for images whose planes share few sets of a cache."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pplconv._trial import Trial
from pplconv.planner import Request
from pplconv.planner.estimating import Ranked
from pplconv.problem import ConvProblem
from pplconv.schedules import compile_plan
from pplconv.sparsity import Sparsity
from tests.planner.targets import TARGETS, target_of

PAGE, LINE = 4096, 64
# Distances, in bytes or elements, of rows that a tile visits, for each kind of loops.
PITCHES = {
    "gemm": ("packed_row", "tile_row", "plane_row", "moved_row"),
    "planes": ("slab_width",),
    "sparse": ("packed_row", "laid_plane"),
    "winograd": ("v_row", "v_position", "m_row", "m_position", "slab_row"),
}
IN_ELEMENTS = ("slab_width", "laid_plane")


def problem_of(
    channels: tuple[int, int], size: tuple[int, int], kernel: int, layout: str = "NCHW",
    sparsity: Sparsity | None = None, dtype: str = "f32",
) -> ConvProblem:  # fmt: skip
    (ic, oc), (h, w), pad = channels, size, kernel // 2
    text = f"mb1ic{ic}ih{h}iw{w}oc{oc}oh{h}ow{w}kh{kernel}kw{kernel}ph{pad}pw{pad}"
    plain = ConvProblem.parse(text, dtype, layout, 16 if layout == "NCHWc" else 0)
    return replace(plain, sparsity=sparsity)


def ranked(problem: ConvProblem, machine: str, algorithm: str = "auto") -> list[Ranked]:
    return Request(problem, algorithm, 1e-1, 1, target=target_of(machine)).ranked(1, slack=10.0)


@pytest.mark.parametrize(("machine", "layout", "dtype"), [
    ("xeon", "NCHW", "f32"), ("epyc", "NHWC", "f64"), ("graviton_3", "NCHWc", "f32"),
])  # fmt: skip
def test_rows_of_scratch_are_no_pages_apart(machine: str, layout: str, dtype: str) -> None:
    seen = set()
    for channels, n, kernel, sparsity in (
        ((3, 16), 128, 3, None), ((64, 64), 64, 3, None), ((64, 64), 64, 1, None),
        ((256, 128), 32, 3, None), ((1024, 512), 16, 1, None), ((64, 64), 64, 3, Sparsity(1, 250)),
        ((64, 64), 64, 1, Sparsity(4, 250)),
    ):  # fmt: skip
        problem = problem_of(channels, (n, n), kernel, layout, sparsity, dtype)
        for candidate in (r.candidate for r in ranked(problem, machine)):
            fields, size = candidate.fields(1), candidate.numerics.operand_bytes
            for name in PITCHES.get(candidate.loops, ()):
                apart = fields[name] * (size if name in IN_ELEMENTS else 1)
                assert apart == 0 or apart % PAGE, (str(problem), name, candidate.blocks)
                seen.add((candidate.loops, name))
    assert ("gemm", "packed_row") in seen
    assert ("winograd", "v_position") in seen


@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_sparse_weights_have_planes_packed_that_share_sets(machine: str, dtype: str) -> None:
    """Single channels have a load for each FMA, and all would miss L1."""
    for width, apart in ((128, True), (124, False)):
        problem = problem_of((64, 64), (16, width), 1, "NCHW", Sparsity(1, 250), dtype)
        assert (16 * width * (8 if dtype == "f64" else 4) % PAGE == 0) is apart
        best = ranked(problem, machine, "sparse")[0].candidate
        assert best.blocks["rows"] == ("packed" if apart else "in place"), best.blocks


def slabs(fields: dict[str, Any], tiles_of_row: int, tiles: int) -> list[tuple[int, int]]:
    """Return the output column where each slab ends, and whether it ends inside row and block."""
    found, tile, n = [], 0, fields["n"]
    while tile < tiles:
        block_end = (tile // fields["tile_block"] + 1) * fields["tile_block"]
        column = tile % tiles_of_row
        count = fields["slab_tiles"] - column % fields["line_tiles"]
        end = min(column + count, tiles_of_row, column + block_end - tile)
        inside = end not in (tiles_of_row, column + block_end - tile)
        found.append((end * n, inside))
        tile += end - column
    return found


@pytest.mark.parametrize("machine", ["xeon", "epyc", "graviton_3"])
def test_slabs_of_planes_that_share_sets_end_with_lines(machine: str) -> None:
    """A line that two slabs share leaves L1 between them, as lines of all channels do."""
    count = 0
    for size in ((32, 256), (64, 64)):
        problem = problem_of((16, 16), size, 3)
        plans = [r.candidate.fields(1) for r in ranked(problem, machine, "winograd")]
        for fields in plans:
            unit = fields["line_tiles"]
            if unit == 1:  # the slab has no room for whole lines
                continue
            assert unit * fields["n"] * 4 % LINE == 0
            row = math.ceil(size[1] / fields["n"])
            ends = slabs(fields, row, row * math.ceil(size[0] / fields["n"]))
            assert all(end * 4 % LINE == 0 for end, inside in ends if inside)
            count += 1
    assert count > 0
    for size in ((32, 250), (30, 248)):
        plain = [r.candidate.fields(1) for r in ranked(problem_of((16, 16), size, 3), machine,
                                                       "winograd")]  # fmt: skip
        assert {fields["line_tiles"] for fields in plain} == {1}


def sums(problem: ConvProblem, arrays: list[Any], fields: dict[str, Any], isa: str) -> Any:
    """Return the outputs of a plan that its fields describe."""
    y = np.full(problem.output_shape, np.nan, np.float32)
    Trial(fields, isa, arrays[1]).seconds(arrays[0], y)
    return y


@pytest.mark.parametrize("batch", [1, 3])
def test_slabs_that_end_with_lines_have_the_same_bits(batch: int) -> None:
    """Where a slab ends changes no sum; sums are those of float64."""
    rng = np.random.default_rng()
    problem = replace(problem_of((19, 35), (32, 64), 3), batch=batch)
    arrays = [rng.standard_normal(s, np.float32) for s in (problem.input_shape,
                                                           problem.weight_shape)]  # fmt: skip
    x, w = (a.astype(np.float64) for a in arrays)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    expected = np.einsum("nchwij,ocij->nohw", windows, w, optimize=True)
    request = Request(problem, "winograd", 1e-1, 1)
    isas = {around.numerics: around.isa for around in request.contexts()}
    seen = set()
    for candidate in (r.candidate for r in request.ranked(1)):
        fields, isa = candidate.fields(1), isas[candidate.numerics]
        if (fields["n"], fields["line_tiles"]) in seen:
            continue
        seen.add((fields["n"], fields["line_tiles"]))
        got = sums(problem, arrays, fields, isa)
        bound = candidate.error_bound * np.abs(expected).max()
        assert np.abs(got - expected).max() <= bound
        for tiles in {1, 2, min(3, fields["slab_tiles"]), fields["slab_tiles"]}:
            if tiles <= fields["slab_tiles"]:
                other = sums(problem, arrays, fields | {"line_tiles": tiles}, isa)
                np.testing.assert_array_equal(other, got)
        with pytest.raises(ValueError, match="must hold tiles of whole lines"):
            compile_plan(fields | {"line_tiles": fields["slab_tiles"] + 1}, isa)
    assert seen
