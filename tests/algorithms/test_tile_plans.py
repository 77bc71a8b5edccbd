"""Plans for tile registers (AMX): steps that need no copies, and sums that stay out of `direct`.

No such machine is needed: plans name kernels, and only running them needs addresses.
"""

from __future__ import annotations

import pytest

import pplconv  # noqa: F401  # before `benchmarks`, which would look for an installed one
from benchmarks.corpus import kernel_rows
from pplconv.algorithms import Candidate, CoreModel
from pplconv.algorithms.core_model import (
    PART_CYCLES,
    TILE_GROUPS,
    WHOLE_CYCLES,
    segment_cycles,
    tile_steps,
)
from pplconv.machine import Machine
from pplconv.planner import Request, Target
from pplconv.planner.estimating import estimate_plan
from pplconv.problem import ConvProblem

XEON = Machine(
    arch="x86_64",
    isas=("portable", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"),
    fma_per_cycle={"avx2": 2, "avx512": 2, "avx512vnni": 2, "avx512bf16": 0.5, "amx": 16},
    l1d_bytes=48 << 10,
    l2_bytes=2 << 20,
)
TARGET = Target.of(XEON, list(kernel_rows("x86_64")))
TILED = CoreModel(16.0, 48 << 10, 2 << 20, broadcasts=TILE_GROUPS)


def best_of(sizes: str, dtype: str, layout: str = "NHWC") -> dict[str, tuple[float, Candidate]]:
    """Estimate and candidate of each algorithm's best way on tile registers."""
    problem = ConvProblem.parse(sizes, layout=layout, dtype=dtype)
    single, _ = estimate_plan(Request(problem, threads=1, target=TARGET), slack=1e9)
    found: dict[str, tuple[float, Candidate]] = {}
    for each in single:
        if each.candidate.numerics.product.endswith("t"):
            found.setdefault(each.candidate.algorithm, (each.total, each.candidate))
    return found


@pytest.mark.parametrize(
    ("groups", "rounded", "exact"),
    [
        (0, (0, False), (0, False)),
        (1, (1, False), (1, False)),
        (15, (1, False), (1, False)),
        (16, (1, False), (1, False)),
        (17, (2, True), (2, True)),
        (24, (2, True), (2, False)),
        (32, (2, False), (2, False)),
        (40, (3, True), (4, False)),  # four times ten
        (35, (3, True), (3, True)),  # five times seven would be two steps more
    ],
)
def test_steps_of_a_segment(groups, rounded, exact):
    assert tile_steps(groups, exact=False) == rounded
    assert tile_steps(groups, exact=True) == exact
    steps, copied = rounded
    assert segment_cycles(TILED, groups, 4.0) == WHOLE_CYCLES * steps + PART_CYCLES * copied


def test_other_registers_take_groups_one_by_one():
    assert segment_cycles(CoreModel(2.0, 1 << 15, 1 << 20), 24, 4.0) == 96.0


@pytest.mark.parametrize(
    ("channels", "dtype", "together"),
    [
        (8, "bf16", True),  # 12 groups
        (16, "bf16", False),  # 24 groups: a step and half of one, which is copied
        (24, "bf16", False),
        (32, "bf16", True),  # 48 groups
        (40, "bf16", True),  # single taps have 20 groups: each would be copied, too
        (16, "u8", True),  # 12 groups
        (32, "u8", True),  # 24 groups, twice 12
    ],
)
def test_taps_are_one_segment_unless_that_brings_a_copy(channels, dtype, together):
    _, direct = best_of(f"mb1ic{channels}ih28iw28oc32kh3kw3ph1pw1", dtype)["direct"]
    assert direct.own_fields()["taps_touch"] == together
    if dtype == "bf16":
        whole = channels * (3 if together else 1) % 32 == 0
        said = "" if whole else (", by taps that touch" if together else ", by taps")
        assert (f"inside the image{said}, pairs of bf16") in direct.bits
    for threads in (1, 3):
        problem = direct.problem
        request = Request(problem, algorithm="direct", threads=threads, target=TARGET)
        taps = {
            each.candidate.own_fields()["taps_touch"]
            for each in estimate_plan(request)[0]
            if each.candidate.numerics == direct.numerics
        }
        assert taps == {together}, "the order of a sum depends on the tile"


@pytest.mark.parametrize(("channels", "step"), [(4, 1), (16, 1), (60, 1), (64, 1), (68, 64)])
def test_only_sums_of_several_steps_are_padded(channels, step):
    """Their weights; a tile then reads nothing behind its rows of pixels."""
    found = best_of(f"mb1ic{channels}ih28iw28oc64kh1kw1", "u8")
    _, pointwise = found["pointwise"]
    assert pointwise.panels.step == step
    assert pointwise.packed_weight_bytes == pointwise.panels.padded(64) * (
        channels if step == 1 else 128
    )


def test_long_rows_of_a_1x1_layer_are_not_direct():
    """They do not stay in L1; the nest cuts them into blocks of k, and moves those across lines."""
    found = best_of("mb1ic2048ih7iw7oc512kh1kw1", "u8")
    assert found["pointwise"][0] < found["direct"][0]
    assert found["pointwise"][1].blocks["k_block"] < 2048
    # The same work has about the same price in both.
    work = {name: found["direct"][1].cost(TILED, 1)[name] for name in ("fma", "stream")}
    assert work["stream"] > work["fma"] / 3


@pytest.mark.parametrize(
    ("channels", "pixels", "outputs"),
    [
        (64, 56, 64),
        (64, 56, 256),
        (256, 56, 64),
        (128, 28, 512),
        (512, 28, 128),
        (256, 14, 1024),
        (1024, 14, 256),
        (512, 7, 2048),
        (2048, 7, 512),
    ],
)
def test_no_1x1_layer_of_resnet_50_is_direct_in_bytes(channels, pixels, outputs):
    found = best_of(f"mb1ic{channels}ih{pixels}iw{pixels}oc{outputs}kh1kw1", "u8")
    assert found["pointwise"][0] <= found["direct"][0]
