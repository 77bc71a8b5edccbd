"""GEMM kernels with one instruction of the sum wrong: the judge of the right ones refuses each.

Those of what stands around the sum are in ``test_edge_mutants.py``.
"""

from __future__ import annotations

import pytest

from asm.contract import GEMM
from gemm_case import ANYWHERE, draw_case
from narrow_gemm import is_integer
from sum_mutants import X86_ONLY, assert_refused, each_of
from test_gemm_kernels import judge

pytestmark = X86_ONLY

# The largest of each level that the table below applies to: two pointers of A, four vectors.
TALL = "pplconv_gemm_f32_28x16_avx512"
WIDE = "pplconv_gemm_f64_6x32_avx512"
NARROW = "pplconv_gemm_f32_6x16_avx2"
BYTES = "pplconv_gemm_u8_14x32_avx512vnni"
BYTES_256 = "pplconv_gemm_u8_6x16_avxvnni"
WORDS = "pplconv_gemm_s16_6x16_avx2"
PAIRS = "pplconv_gemm_u8p_5x16_avx2"
PAIRS_512 = "pplconv_gemm_u8p_13x32_avx512"
BFLOATS = "pplconv_gemm_bf16_28x16_avx512bf16"
C_VS, RESIDUAL_VS = (rf"\[rdi \+ {GEMM.offset(name)}\]" for name in ("c_vs", "residual_vs"))
COUNT = rf"\[rdi \+ {GEMM.offset('segment_count')}\]"

# What goes wrong, in which kernel, the instruction, and what stands there instead.
MUTANTS = [
    ("A of a segment", NARROW, r"add r10, \[rax\]", "add r10, [rax + 8]"),
    ("B of a segment", NARROW, r"add rsi, \[rax \+ 8\]", "add rsi, [rax]"),
    ("next segment", NARROW, r"add qword ptr \[rsp - 8\], 16", "add qword ptr [rsp - 8], 8"),
    ("last segment left out", NARROW, rf"mov rax, {COUNT}", r"\g<0>; sub rax, 1; adc rax, 0"),
    ("a segment too many", NARROW, r"jg \.Lnext_segment", "jge .Lnext_segment"),
    ("segments looked at without any", NARROW, r"jz \.Lsegment$", "nop"),
    ("rows' stride lost", NARROW, r"lea r8, \[rcx \+ rcx\*2\]", "nop"),
    ("rows of the second pointer", TALL, r"lea r14, \[r10 \+ rcx\]", "lea r14, [r10]"),
    ("vectors of C", NARROW, rf"mov rsi, {C_VS}", "mov rsi, 32"),
    ("vectors of the residual", NARROW, rf"mov rsi, {RESIDUAL_VS}", "mov rsi, 32"),
    ("fourth vector", WIDE, r"lea rcx, \[rsi \+ rsi\*2\]", "lea rcx, [rsi + rsi*4]"),
    ("signs mixed up", BYTES, r"(vpdpbusd \w+), (\w+), (\w+)", r"\1, \3, \2"),
    ("signs mixed up at 256 bits", BYTES_256, r"(vpdpbusd \w+), (\w+), (\w+)", r"\1, \3, \2"),
    ("sums saturated", BYTES, "vpdpbusd", "vpdpbusds"),
    ("last group of bytes", BYTES, "add rax, 3$", "nop"),
    ("last group of words", WORDS, "add rax, 1$", "nop"),
    ("last group of bfloat16", BFLOATS, "add rax, 1$", "nop"),
    ("a product lost", WORDS, r"vpaddd (\w+), \1, ymm15", "nop"),
    ("products of words in 16 bits", WORDS, "vpaddd", "vpaddw"),
    ("signs of pairs mixed up", PAIRS, r"(vpmaddubsw \w+), (\w+), (\w+)", r"\1, \3, \2"),
    ("the second of a pair alone", PAIRS, "mov eax, 65537", "mov eax, 65536"),
    ("pairs multiplied by themselves", PAIRS_512, r"(vpmaddwd \w+, (\w+)), zmm31", r"\1, \2"),
    ("sums of pairs in 16 bits", PAIRS_512, "vpaddd", "vpaddw"),
    ("last group of pairs", PAIRS_512, "add rax, 3$", "nop"),
    (
        "the first of a pair alone",
        BFLOATS,
        r"vdpbf16ps zmm27, (\w+), (.*)$",
        r"vpxord zmm27, \1, \1",
    ),
]


@pytest.mark.sampled(6)
@each_of(MUTANTS)
def test_mutant_is_refused(checker, rng, tmp_path, symbol, instruction, instead):
    def judge_row(row: dict) -> None:
        judge_many(checker, row, rng)

    assert_refused(judge_row, tmp_path, symbol, instruction, instead)


def judge_many(checker, row: dict, rng) -> None:
    """Enough cases that each kind of segment and of C comes by, and integers that overflow."""
    kinds = ("random", "extreme") if is_integer(row) else ("random",)
    for i, place in enumerate(("start", "end", ANYWHERE) * 20):
        kind = kinds[i % len(kinds)]
        judge(checker, row, draw_case(rng, row, place=place, kind=kind), rng)
