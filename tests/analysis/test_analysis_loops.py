"""Loops are found by their labels, and their instructions are counted."""

from __future__ import annotations

import pytest

from asm.aarch64.products import BY_MATRIX
from asm.registry import ISAS, Kernel, kernels
from benchmarks.analysis import loops
from benchmarks.analysis.loops import Loop, LoopError, extract

ARM = Kernel("gemm", "f32", "neon", 2, 8, 1, "generator")
X86 = Kernel("gemm", "f32", "avx512", 2, 16, 1, "generator")
GENERATED = ("aarch64", "x86_64")


def test_a_loop_ends_with_the_branch_back():
    text = "    a\n.Lone:\n    b x1\n    cbz x2, .Lout\n    b.ne .Lone // again\n    c\n.Lout:\n"
    assert extract(text, "one") == ".Lone:\n    b x1\n    cbz x2, .Lout\n    b.ne .Lone // again\n"
    assert extract(".Lx:\n    dec rax\n    jnz .Lx\n", "x").endswith("jnz .Lx\n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("    b.ne .Lone\n", "no label"),
        (".Lone:\n    b.ne .Lone2\n", "no branch"),
        (".Lone:\n    nop\n.Linner:\n    b.ne .Linner\n    b.ne .Lone\n", "inside"),
    ],
)
def test_what_is_no_innermost_loop_is_refused(text, reason):
    with pytest.raises(LoopError, match=reason):
        extract(text, "one")


def test_vectors_and_elements_loaded_are_counted():
    loop = Loop(
        ARM,
        "rows",
        ".Lrows_loop:\n"
        "    prfm pldl1keep, [x2, x6]\n"
        "    ld1 {v2.4s, v3.4s}, [x2], x3\n"
        "    ldur q0, [x1, #16] // of q9\n"
        "    ldp d4, d5, [x7]\n"
        "    ldr s1, [x4]\n"
        "    fmla v16.4s, v2.4s, v0.s[0]\n"
        "    fmla v17.4s, v3.4s, v0.s[0]\n"
        "    fmla v16.4s, v2.4s, v1.s[0]\n"
        "    b.ne .Lrows_loop\n",
    )
    assert (loop.loads, loop.fmas, loop.accumulators, loop.chain) == (6, 3, 2, 2)
    loop = Loop(
        X86,
        "k",
        ".Lk_fetched:\n"
        "    vmovups zmm30, [rsi]\n"
        "    prefetcht0 [r11]\n"
        "    vbroadcastss zmm31, [r10 + rcx*2 + 4]\n"
        "    vfmadd231ps zmm0, zmm31, zmm30\n"
        "    vfmadd231ps zmm1, zmm30, [r10]{1to16}\n"
        "    lea rsi, [rsi + rdx*2]\n"
        "    jnz .Lk_fetched\n",
    )
    assert (loop.loads, loop.fmas, loop.accumulators, loop.chain) == (3, 2, 2, 1)


@pytest.mark.parametrize("arch", GENERATED)
def test_every_generated_tile_has_its_loops(arch):
    found = [k for k in kernels(arch) if loops.analysed(k)]
    assert len(found) > 60
    for kernel in found:
        steps = set()
        for loop in loops.loops_of(kernel):
            # One chain for each vector of the tile, all with the same number of steps. Matrix
            # instructions take rows in pairs.
            rows = kernel.mr + kernel.mr % 2 * (kernel.dtype in BY_MATRIX)
            assert loop.accumulators == rows * kernel.vectors, loop.kernel.symbol
            assert set(loop.sums.values()) == {loop.chain}
            steps_of_turn = loop.chain // loops.PARTS.get(kernel.dtype, 1)
            assert loop.loads >= steps_of_turn * kernel.vectors
            steps.add(loop.name)
        assert steps == {"rows", "k"}


@pytest.mark.parametrize("arch", GENERATED)
def test_the_main_tiles_are_the_largest_of_each_width(arch):
    main = loops.main_tiles(arch)
    for kernel in kernels(arch):
        if loops.analysed(kernel):
            key = kernel.dtype, kernel.isa, kernel.tuning, kernel.nr
            (best,) = (k for k in main if (k.dtype, k.isa, k.tuning, k.nr) == key)
            assert best.mr >= kernel.mr
    assert {ISAS[k.isa].machine for k in main} == {arch}
    # Only kernels on tile registers are left out: the models of cores do not have them.
    gemm = {k.dtype for k in kernels(arch) if k.op == "gemm" and k.source == "generator"}
    assert {k.dtype for k in main} == gemm - {"u8t", "s8t", "bf16t"}
    # Levels of narrow types have only kernels of those.
    wide = {k.isa for k in main if ISAS[k.isa].dtypes}
    assert {loop.kernel.isa for loop in loops.peak_loops(arch)} == wide


@pytest.mark.parametrize(
    ("dtype", "mnemonic", "macs"),
    [
        ("f32", "fmla", 4),
        ("s8", "sdot", 16),
        ("s8m", "smmla", 32),
        ("u8m", "usmmla", 32),
        ("bf16", "bfdot", 8),
        ("bf16m", "bfmmla", 16),
        ("s16", "smlal", 4),
    ],
)
def test_what_adds_products_of_narrow_types(dtype, mnemonic, macs):
    """Arithmetic of an instruction, and the instructions of a turn."""
    for loop in loops.tile_loops("aarch64", dtype):
        assert any(name == mnemonic for name, _ in loop.instructions)
        assert loop.macs == macs
        kernel = loop.kernel
        per_group = kernel.mr * kernel.nr * kernel.kr
        groups, rest = divmod(loop.fmas * loop.macs, per_group)
        # A tile with an odd number of rows computes one more.
        assert groups >= 2
        assert not rest or kernel.mr % 2


def test_tiles_with_a_register_for_each_row_are_those_of_the_slides():
    held = {(k.mr, k.vectors) for k in loops.held_tiles("aarch64") if k.dtype == "f32"}
    assert held >= {(15, 1), (10, 2), (7, 3)}
    by_k = [o for o in loops.tile_loops("aarch64", "f32") if o.name == "k"]
    ratio = {(o.kernel.mr, o.kernel.vectors): o.fmas / o.loads for o in by_k}
    # The slides' figures, truncated after the second digit.
    assert int(100 * ratio[15, 1]) == 315
    assert int(100 * ratio[10, 2]) == 444
    assert int(100 * ratio[7, 3]) == 442
