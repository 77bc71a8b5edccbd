"""The layout of packed operands; the weights of every candidate have it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pplconv.algorithms import ALGORITHMS, Candidate, KernelKey, PlanContext
from pplconv.algorithms.panels import Panels
from pplconv.machine import Machine
from pplconv.numerics import Numerics, numerics_of
from pplconv.problem import ConvProblem

KERNEL = KernelKey("gemm", 6, 16, 4)
SINGLE = numerics_of("f32", "f32")
# Caches so small that candidates cut their sums over k.
MACHINE = Machine(
    arch="x86_64", isas=("avx512",), fma_per_cycle={"avx512": 2}, l1d_bytes=2048, l2_bytes=16384
)
SHAPES = (
    "mb1ic37ih9oc50kh3ph1", "mb2ic37ih9oc50kh1ph0", "g3mb1ic30ih9oc36kh3ph1", "mb1ic3ih9oc5kh5ph2",
)  # fmt: skip
# Layouts of arrays, and channels in a block.
LAYOUTS = (("NCHW", 0), ("NHWC", 0), ("NCHWc", 8), ("NCHWc", 16), ("NCHWc", 24))


def every_candidate(numerics: Numerics) -> Iterator[Candidate]:
    """Yield candidates of the algorithms whose weights are packed for GEMM kernels."""
    around = PlanContext(MACHINE, numerics, "avx512", {16: 28, 32: 14, 64: 6}, 16, 2)
    for shape in SHAPES:
        for layout, block in LAYOUTS:
            problem = ConvProblem.parse(shape, "f32", layout, block)
            for name, module in ALGORITHMS.items():
                if name not in ("depthwise", "gemm") and module.supports(problem, numerics) is None:
                    yield from module.candidates(problem, around)


def test_panels_have_the_side_of_the_tile_that_reads_them():
    assert Panels.of_rows(KERNEL) == Panels(6, 4)
    assert Panels.of_columns(KERNEL) == Panels(16, 4)


@pytest.mark.parametrize(
    ("width", "block", "expected"),
    [(16, 16, 16), (16, 8, 8), (48, 16, 16), (16, 24, 12), (16, 1, 1), (16, 7, 7), (16, 34, 2)],
)
def test_panels_inside_a_block_divide_it(width, block, expected):
    assert Panels(width, 2).inside(block) == Panels(expected, 2)


@pytest.mark.parametrize("kr", [1, 2, 4])
@pytest.mark.parametrize("width", [1, 6, 16])
def test_sizes_count_whole_panels_of_whole_groups(width, kr):
    panels = Panels(width, kr)
    for n in range(3 * width + 2):
        count = len(range(0, n, width))
        assert panels.padded(n) == count * width
        for k in range(3 * kr + 2):
            groups = len(range(0, k, kr))
            assert panels.depth(k) == groups * kr
            for element in (1, 2, 4, 8):
                assert panels.bytes(n, k, element) == count * groups * width * kr * element
    assert panels.ahead(4) == 24 * width * kr * 4


def test_zeros_behind_k_fill_whole_steps():
    panels = Panels(16, 4, 64)
    assert [panels.depth(k) for k in (0, 1, 64, 65, 147)] == [0, 64, 64, 128, 192]
    assert panels.bytes(17, 147, 1) == 2 * 16 * 192
    # Plans with the same format share packed weights, so the format states the layout.
    assert panels.name == "panels of 16, kr 4, k in steps of 64"


def test_names_of_kr_1_are_those_of_plans_and_wisdom():
    assert Panels(16).name == Panels(16, 1).name == "panels of 16"
    assert Panels(16, 4).name == "panels of 16, kr 4"


def test_loops_take_both_numbers():
    assert Panels(6, 2).fields == {"panel_width": 6, "kr": 2}


@pytest.mark.parametrize("kr", [1, 2, 4])
def test_candidates_pack_for_their_kernel(kr):
    """Types of another kr change the kernel's key and the panels."""
    found = set()
    for candidate in every_candidate(replace(SINGLE, kr=kr)):
        kernel, fields = candidate.kernel, candidate.own_fields()
        assert (kernel.op, kernel.kr, fields["kr"]) == ("gemm", kr, kr)
        by_pixels = candidate.blocks.get("orientation") == "pixels"
        side = kernel.mr if by_pixels else kernel.nr
        width = fields["panel_width"]
        assert width == side or (candidate.problem.block and width < side)
        depth = f", kr {kr}" if kr > 1 else ""
        assert f"panels of {width}{depth}, k = " in candidate.packing
        groups, p = candidate.problem.groups, candidate.problem
        ic, oc, taps = p.ic // groups, p.oc // groups, p.kh * p.kw
        if candidate.loops == "direct":  # each tap is a segment of the sum
            terms = -(-ic // fields["channels"]) * -(-fields["channels"] // kr) * kr * taps
        elif candidate.loops == "winograd":
            r = fields["r"]
            terms = ic * -(-p.kh // r) * -(-p.kw // r) * candidate.positions
        else:
            terms = -(-ic * taps // kr) * kr
            assert fields["k_block"] >= ic * taps or fields["k_block"] % kr == 0
        weights = groups * -(-oc // width) * width * terms * 4
        assert candidate.packed_weight_bytes == weights
        found.add(candidate.loops)
    # Winograd's transforms write no groups of k.
    assert found == ({"gemm", "direct", "winograd"} if kr == 1 else {"gemm", "direct"})
