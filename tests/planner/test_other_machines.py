"""Plans for machines that are not here: AArch64 servers and an Apple M1, with their kernels.

No such machine runs these tests. They check that the blocks which the cost model chooses fit the
caches and registers of each machine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import pplconv
from asm.registry import ISAS
from benchmarks.problems import load_nets
from pplconv.algorithms import Candidate, CoreModel, KernelKey
from pplconv.algorithms.core_model import step_cycles
from pplconv.config import Settings
from pplconv.planner import Request, Target, plan_problem
from pplconv.planner.estimating import Ranked, estimate_plan
from pplconv.problem import ConvProblem
from pplconv.wisdom import cpu_model
from tests.planner.targets import recorded, table

KIB = 1 << 10
LINE = 64
WINDOW = 24  # steps of k that a tile's vector operand is read ahead

# L1D, and each core's share of L2, in KiB; FMAs a cycle and their latency.
NAMES = {
    "kunpeng": (64, 512, 2, 5),
    "graviton_2": (64, 1024, 2, 2),
    "graviton_3": (64, 1024, 4, 2),
    "graviton_4": (64, 2048, 4, 2),
    "a64fx": (64, 8192 // 12, 2, 9),
    "apple_m1": (128, 3072, 4, 4),
}
LAYERS = sorted(
    {layer.sizes for net in ("resnet_50", "vgg_19", "mobilenet") for layer in load_nets()[net]}
)


TABLE = list(table("aarch64"))


@pytest.fixture(params=NAMES)
def target(request: pytest.FixtureRequest) -> Target:
    machine = recorded(request.param)
    l1d, l2_share, fma, latency = NAMES[request.param]
    assert (machine.l1d_bytes // KIB, machine.l2_share // KIB) == (l1d, l2_share)
    assert (machine.fma_per_cycle["neon"], machine.fma_latency) == (fma, latency)
    return Target.of(machine, TABLE)


def chosen(text: str, layout: str, target: Target, threads: int) -> list[Candidate]:
    """Return the candidates of one thread and of a team."""
    problem = ConvProblem.parse(text, layout=layout)
    asked = Request(problem, threads=threads, target=target)
    assert asked.context().isa == "neon"
    best: list[Ranked] = [ranked[0] for ranked in estimate_plan(asked)]
    return [each.candidate for each in best]


def check_registers(tile: tuple[int, int], lanes: int, enough: int, free: bool) -> None:
    """The tile, a row of B and a column of A fit the register file; and hide the FMAs' latency."""
    mr, nr = tile
    vectors = nr // lanes
    assert mr * vectors + vectors + -(-mr // lanes) <= ISAS["neon"].vector_registers
    if free:
        assert mr * vectors >= enough


def check_nest(nest: Any, core: CoreModel) -> None:
    """A panel of weights and the passing operand fit L1; packed pixels fit their share of L2.

    A sum that is left whole, which spares passes over C, may have its panel in L2, if a row of it
    comes in less time than a step of the tile takes.
    """
    e, blocks = nest.numerics.operand_bytes, nest.blocks
    by_pixels = nest.orientation == "pixels"
    panel = nest.panels.width * blocks["k_block"] * e
    passing = WINDOW * blocks["nr"] * e if by_pixels else blocks["mr"] * LINE
    if panel + passing > core.l1_bytes:
        assert blocks["k_block"] == nest.problem.k
        assert panel <= core.l2_bytes // 4
        step = step_cycles(core, blocks["mr"], blocks["nr"] // nest.lanes)
        assert nest.panels.width * e / core.l2_rate <= step
    if nest.packed:
        # Segments are rounded up to whole register tiles.
        pixels = min(blocks["hw_segment"], nest.pixels) - (0 if by_pixels else blocks["mr"])
        packed = pixels * blocks["k_block"] * e
        assert packed <= core.l2_bytes // (2 if by_pixels else 4)


def check_direct(direct: Any, core: CoreModel) -> None:
    """The rows of a task fit half of L2, and a panel of weights fits L2 beside them.

    A sum over all channels and taps is not cut, so that its panel may be larger than L1.
    """
    e = direct.numerics.operand_bytes
    rows = direct.slab_rows * direct.geometry[1] * direct.ic * e
    if direct.row_segment > 1:
        l2 = core.l2_bytes
        assert direct.panels.width * direct.k_packed * e + min(rows, l2 // 2) <= l2
        assert rows <= l2 // 2 or not direct.slab


def check_winograd(winograd: Any, core: CoreModel) -> None:
    """V and M fit L2; in stages, V of one position fits half of it. The slab of NCHW fits L1."""
    e, blocks = winograd.numerics.operand_bytes, winograd.blocks
    channels = blocks["ic_segment"] + blocks["oc_block"]
    if winograd.staged:
        tiles = blocks["tile_block"] - blocks["mr"]  # rounded up to whole register tiles
        assert tiles * winograd.ic * e <= core.l2_bytes // 2
    else:
        assert winograd.positions * blocks["tile_block"] * channels * e <= core.l2_bytes
    if winograd.by_planes:
        assert winograd.t * winograd.memory["slab_row"] <= core.l1_bytes


CHECKS = {"gemm": check_nest, "direct": check_direct, "winograd": check_winograd}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_blocks_fit_caches_and_registers(target: Target, layout: str) -> None:
    machine = target.machine
    lanes = ISAS["neon"].vector_bytes // 4
    core = CoreModel.of(Request(ConvProblem.parse(LAYERS[0]), target=target).context())
    enough = machine.fma_per_cycle["neon"] * machine.fma_latency
    seen = set()
    for text in LAYERS:
        for candidate in chosen(text, layout, target, threads=4):
            seen.add(candidate.loops)
            p, blocks = candidate.problem, candidate.blocks
            # One thread's scratch passes through its own L2.
            assert candidate.scratch_bytes <= machine.l2_share
            assert target.symbol(candidate.kernel, "f32", "neon") in SYMBOLS
            if candidate.loops == "depthwise":
                continue
            # Blocks of few pixels or channels cannot use more accumulators.
            rows = {"gemm": "hw_segment", "winograd": "tile_block"}.get(candidate.loops)
            free = min(int(blocks[rows]) if rows else p.ow, p.oc // p.groups) >= 32
            check_registers((int(blocks["mr"]), int(blocks["nr"])), lanes, enough, free)
            if p.oh * p.ow > 1:  # a single pixel uses no weight twice
                CHECKS[candidate.loops](candidate, core)
    assert seen == {"gemm", "direct", "winograd", "depthwise"}


SYMBOLS = {row["symbol"] for row in TABLE}


def test_kernels_of_another_kr_are_others(target: Target) -> None:
    """For example kernels of integers, which take four k together."""
    fours = [
        row | {"kr": 4, "symbol": f"{row['symbol']}_4"}
        for row in TABLE
        if (row["op"], row["dtype"], row["isa"]) == ("gemm", "f32", "neon") and row["mr"] <= 4
    ]
    both = Target.of(target.machine, [*TABLE, *fours])
    assert both.tiles("f32", "neon") == target.tiles("f32", "neon")
    assert both.tiles("f32", "neon", 4) == (4, dict.fromkeys((4, 8, 12, 16), 4))
    assert both.isas("f32", kr=4) == ("neon",)
    key = KernelKey("gemm", 4, 8, 1)
    assert both.symbol(key, "f32", "neon") == target.symbol(key, "f32", "neon")
    assert both.symbol(key._replace(kr=4), "f32", "neon") in {row["symbol"] for row in fours}
    with pytest.raises(LookupError, match="no kernel for gemm 4x8 of kr 4 in f32"):
        target.symbol(key._replace(kr=4), "f32", "neon")


@pytest.mark.parametrize("text", ["mb1ic64ih56oc64kh3ph1", "mb1ic256ih14oc1024kh1"])
def test_the_workspace_is_bounded_there_too(target: Target, text: str) -> None:
    problem = ConvProblem.parse(text)
    asked = Request(problem, threads=8, target=target)
    free = plan_problem(asked).plan
    bound = max(free.scratch_bytes // 2, 1 << 16)
    plan = plan_problem(replace(asked, max_workspace=bound)).plan
    assert plan.scratch_bytes <= bound
    assert (plan.isa, plan.threads >= 1) == ("neon", True)


def test_a_plan_is_the_machine_s_own() -> None:
    """It depends on nothing of this process: neither its machine, nor kernels, nor settings."""
    plans = {}
    problem = ConvProblem.parse("mb1ic256ih56oc256kh3ph1")
    for name in ("kunpeng", "graviton_4", "a64fx"):
        machine = recorded(name)
        target = Target.of(machine, TABLE, Settings(team_start_us=4))
        plans[name] = plan_problem(Request(problem, threads=4, target=target)).plan
        assert plans[name] == plan_problem(Request(problem, threads=4, target=target)).plan
    assert {plan.isa for plan in plans.values()} == {"neon"}
    assert len({str(plan.blocks) for plan in plans.values()}) > 1


@pytest.mark.parametrize("name", ["kunpeng", "apple_m1"])
def test_default_team_of_the_other_machine(name: str) -> None:
    machine = recorded(name)
    asked = Request(ConvProblem.parse("mb1ic512ih112oc512kh3ph1"), target=Target.of(machine, TABLE))
    assert asked.context().threads == len(machine.cores)
    assert asked.machine is machine


def test_its_settings_cap_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PPLCONV_MAX_ISA", "portable")  # this process's cap is not the other's
    machine = recorded("graviton_3")
    problem = ConvProblem.parse("mb1ic64ih28oc64kh1")
    free = Target.of(machine, TABLE)
    capped = Target.of(machine, TABLE, Settings(max_isa="portable", team_start_us=4))
    foreign = Target.of(machine, TABLE, Settings(max_isa="avx2", team_start_us=4))
    assert plan_problem(Request(problem, threads=1, target=free)).plan.isa == "neon"
    assert plan_problem(Request(problem, threads=1, target=capped)).plan.isa == "portable"
    with pytest.raises(ValueError, match="cap is 'avx2': expected one of portable, neon"):
        plan_problem(Request(problem, threads=1, target=foreign))


@pytest.mark.parametrize(
    ("text", "computed"), [("mb1ic256ih28oc256kh3ph1", "f32"), ("mb1ic256ih28oc256kh1", "f16")]
)
def test_half_precision_is_weighed_against_winograd(text: str, computed: str) -> None:
    """Winograd in float32 has fewer products; float16 has twice as many elements in a vector."""
    problem = replace(ConvProblem.parse(text), permitted=("f16", "f32"))
    target = Target.of(recorded("graviton_3"), TABLE)
    plan = plan_problem(Request(problem, threads=1, target=target)).plan
    assert (plan.compute, plan.algorithm == "winograd") == (computed, computed == "f32")
    teamed = plan_problem(Request(problem, threads=4, target=target)).plan
    assert (teamed.bits, teamed.numerics) == (plan.bits, plan.numerics)


@pytest.mark.parametrize(
    ("name", "cap", "isa"),
    [
        ("graviton_3", None, "bf16"),
        ("graviton_3", "i8mm", "neon"),
        ("graviton_3", "portable", "portable"),
        ("graviton_2", None, "neon"),
    ],
)
def test_steps_round_to_bfloat16_by_an_instruction(name: str, cap: str | None, isa: str) -> None:
    """Where CPU and cap permit: Graviton 3 has BFCVTN, Graviton 2 has not."""
    assert Target.of(recorded(name), TABLE).brain_isa(cap) == isa


def test_x86_rounds_steps_by_integers() -> None:
    """Its instruction flushes subnormal numbers, which no other level does."""
    machine = recorded("xeon")
    able = replace(machine, isas=(*machine.isas, "avx512bf16"))
    assert Target.of(able, list(table("x86_64"))).brain_isa() == "avx512"


def test_nothing_is_measured_for_another_machine() -> None:
    target = Target.of(recorded("graviton_2"), TABLE)
    asked = Request(ConvProblem.parse("mb1ic64ih28oc64kh1"), threads=1, target=target)
    for search in ("measure", "exhaustive"):
        with pytest.raises(ValueError, match=f"search is '{search}': expected 'estimate'"):
            plan_problem(asked, search=search)


def test_wisdom_of_the_other_machine_is_found() -> None:
    """Measurements from a Graviton serve plans that are made for it elsewhere."""
    target = Target.of(recorded("graviton_2"), TABLE)
    problem = ConvProblem.parse("mb1ic64ih28oc64kh3ph1")
    asked = Request(problem, threads=1, target=target)
    before = plan_problem(asked).plan
    single = estimate_plan(asked, slack=10.0)[0]
    other = next(r.candidate for r in single if r.candidate.bits != before.bits)
    key = pplconv.wisdom.Key(
        str(problem), "f32", problem.layout_text, "none", asked.tolerance,
        cpu_model(target.machine), "neon",
    )  # fmt: skip
    blocks = {"algorithm": other.algorithm, **other.blocks}
    pplconv.wisdom.remember(key, {"bits": other.bits}, 1, blocks, 1e-3, search="measure")
    plan = plan_problem(asked).plan
    assert (plan.search, plan.bits, plan.isa) == ("wisdom", other.bits, "neon")
    # Plans of a third machine ignore it. (This machine may be a Graviton 2 itself.)
    third = Target.of(recorded("kunpeng"), TABLE)
    assert plan_problem(Request(problem, threads=1, target=third)).plan.search == "estimate"


def test_a_plan_names_the_variant_that_runs() -> None:
    """In-order cores with half precision have kernels of their own, here a Cortex-A55's."""
    problem = ConvProblem.parse("mb1ic64ih28oc64kh1")
    machine = recorded("graviton_2")
    for in_order in (False, True):
        target = Target.of(replace(machine, in_order=in_order), TABLE)
        plan = plan_problem(Request(problem, threads=1, target=target)).plan
        assert plan.kernel.endswith("_neon_inorder" if in_order else "_neon")
        assert plan.kernel in SYMBOLS
    grouped = ConvProblem.parse("mb1g64ic64ih28oc64kh3ph1")
    plan = plan_problem(Request(grouped, algorithm="depthwise", threads=1, target=target)).plan
    assert plan.kernel in SYMBOLS  # depthwise kernels have no variant


@pytest.mark.sampled(9)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_cold_weights_come_from_memory(target: Target, layout: str) -> None:
    """With cold weights, fewer bytes may beat fewer products; all other costs stay."""
    saved = 0
    for text in LAYERS:
        problem = ConvProblem.parse(text, layout=layout)
        hot = plan_problem(Request(problem, threads=1, target=target)).plan
        cold = plan_problem(Request(problem, threads=1, target=target), search_context="cold").plan
        assert "cold" not in hot.cost
        core = CoreModel.of(Request(problem, target=target).context())
        arrive = cold.packed_weight_bytes / core.memory_rate
        assert cold.cost["cold"] >= arrive
        assert cold.packed_weight_bytes <= hot.packed_weight_bytes
        saved += hot.packed_weight_bytes - cold.packed_weight_bytes
        if hot.blocks == cold.blocks:
            assert hot.cost == {k: v for k, v in cold.cost.items() if k != "cold"}
    assert saved > 0
