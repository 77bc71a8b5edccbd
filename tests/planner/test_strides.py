"""Where plans put rows, planes and slabs, for images whose planes share few sets of a cache."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pplconv.planner import Request
from pplconv.planner.estimating import Ranked
from pplconv.problem import ConvProblem
from pplconv.sparsity import Sparsity
from targets import TARGETS, target_of

PAGE = 4096
# Bytes, or elements, from one of many rows that a tile visits to the next, in each kind of loops.
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
