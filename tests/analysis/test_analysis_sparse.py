"""Loops of products with sparse weights: their instructions, and how near their limit they are."""

from __future__ import annotations

import dataclasses

import pytest

from asm.registry import SPARSE_PANELS, kernels
from benchmarks.analysis import limits, loops, mca, page, sparse
from benchmarks.analysis.cores import CORES, cores_of

OF_SPARSE = [k for k in kernels("aarch64") if k.op in sparse.OPERATIONS and k.source == "generator"]


def _tool():
    try:
        return mca.find()
    except mca.ToolError as error:
        return str(error)


TOOL = _tool()
WITH_TOOL = pytest.mark.skipif(isinstance(TOOL, str), reason=str(TOOL))


def test_every_kernel_has_its_loop():
    """One chain for each vector of the tile; each term loads each vector of pixels once."""
    assert len(OF_SPARSE) > 100
    for kernel in OF_SPARSE:
        (loop,) = loops.loops_of(kernel)
        assert loop.name == kernel.op.removeprefix("sparse_")
        assert loop.accumulators == kernel.mr * kernel.vectors, kernel.symbol
        assert set(loop.sums.values()) == {loop.chain}
        shared = kernel.vectors if kernel.op == "sparse_pixels" else kernel.mr
        of_quads = kernel.dtype == "s8"
        assert loop.loads >= loop.chain * (kernel.kr if of_quads else shared)
        assert bool(loop.shuffles) == of_quads


def test_the_widest_tile_of_each_panel_is_shown():
    shown = sparse.sparse_tiles()
    of_pixels = {k.mr for k in shown if (k.op, k.dtype) == ("sparse_pixels", "f32")}
    assert of_pixels == set(SPARSE_PANELS)
    for kernel in OF_SPARSE:
        rows = kernel.op == "sparse_pixels"
        alike = [
            k
            for k in shown
            if (k.op, k.dtype) == (kernel.op, kernel.dtype)
            and (k.mr == kernel.mr if rows else k.nr == kernel.nr)
        ]
        assert len(alike) == 1
        assert alike[0].mr * alike[0].nr >= kernel.mr * kernel.nr
    for dtype in ("f32", "f64", "f16", "s8", "s16"):
        assert {loop.kernel.dtype for loop in sparse.sparse_loops(dtype)} == {dtype}
    assert not sparse.sparse_loops("bf16")


def test_limits_are_of_loads_and_of_units(recorded):
    core, loop, answer = recorded("fma")
    verdict = dataclasses.replace(limits.judge(core, loop, answer), rate=1.5, peak=2.0)
    text = "    ldr q0, [x1]\n" * 4 + "    fmla v1.4s, v0.4s, v2.s[0]\n" * 6
    plain = dataclasses.replace(loop, text=text)
    assert sparse.limit(plain, verdict, 1.0) == pytest.approx(1.5)
    assert sparse.limit(plain, verdict, 2.0) == pytest.approx(2.0)
    zipped = dataclasses.replace(loop, text=text + "    zip1 v3.8h, v4.8h, v5.8h\n" * 2)
    assert sparse.limit(zipped, verdict, 2.0) == pytest.approx(2 * 6 / 8)
    shown = sparse.table("f32", [page.Row(plain, [verdict], [core])], [1.0]).markdown()
    assert "| 1.50 | 1.50 of 1.50 " in shown


@WITH_TOOL
@pytest.mark.unemulated("asks models of other cores, which no emulated CPU changes")
def test_panels_of_several_channels_reach_what_is_wanted():
    """The fp32 tiles with 24 accumulators and vectors of pixels, on cores with a target figure."""
    wide = [o for o in sparse.sparse_loops("f32") if o.name == "pixels" and o.accumulators == 24]
    assert {o.kernel.mr for o in wide} == {4, 8}
    for core in cores_of("aarch64"):
        for loop in wide if core.wanted else []:
            rate = limits.judge(core, loop, mca.ask(TOOL, core, loop)).rate
            assert rate >= core.wanted, (core.name, loop.title, rate)


@WITH_TOOL
@pytest.mark.unemulated("asks models of other cores, which no emulated CPU changes")
@pytest.mark.parametrize("name", ["neoverse-n2", "neoverse-v1"])
def test_dot_products_reach_what_zips_leave(name):
    (core,) = (core for core in CORES if core.name == name)
    rate = sparse.load_rate(TOOL, core)
    assert rate >= 2 * 0.97
    for loop in sparse.sparse_loops("s8"):
        if loop.accumulators == 16:
            verdict = limits.judge(core, loop, mca.ask(TOOL, core, loop))
            assert verdict.rate >= 0.93 * sparse.limit(loop, verdict, rate), loop.title
