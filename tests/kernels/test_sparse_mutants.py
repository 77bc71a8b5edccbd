"""Kernels of sparse weights with one instruction of the sum wrong: their judge refuses each.

Those of what stands around the sum are in ``test_edge_mutants.py``.
"""

from __future__ import annotations

import pytest

from gemm_case import ANYWHERE
from sparse_case import draw_case, judge
from sum_mutants import X86_ONLY, assert_refused, each_of

pytestmark = X86_ONLY

PIXELS = "pplconv_sparse_pixels_f32_4x24_avx2"
ONE = "pplconv_sparse_pixels_f64_1x8_avx2"
PIXELS_512 = "pplconv_sparse_pixels_f64_4x48_avx512"
ONE_512 = "pplconv_sparse_pixels_f32_1x112_avx512"
CHANNELS = "pplconv_sparse_channels_f32_6x16_avx2"
TALL = "pplconv_sparse_channels_f32_28x16_avx512"
BYTES = "pplconv_sparse_pixels_u8_4x64_avx512vnni"
BYTES_32 = "pplconv_sparse_pixels_u8_8x32_avx512vnni"
BYTES_16 = "pplconv_sparse_pixels_u8_16x16_avx512vnni"
BYTES_256 = "pplconv_sparse_pixels_u8_4x16_avxvnni"
ONE_256 = "pplconv_sparse_pixels_u8_1x32_avxvnni"
EIGHT_256 = "pplconv_sparse_pixels_u8_8x8_avxvnni"
WORDS = "pplconv_sparse_pixels_s16_4x64_avx512"
WORDS_256 = "pplconv_sparse_pixels_s16_4x16_avx2"

# What goes wrong, in which kernel, the instruction, and what stands there instead.
MUTANTS = [
    ("steps of elements", PIXELS, "imul rax, rdx", "lea rax, [rax*4]"),
    ("steps of 16 bits", ONE, r"movsxd rax, dword", "movsx rax, word"),
    ("places of 32 bits", PIXELS, "imul rax, rdx", "imul eax, edx; cdqe"),
    ("a step of a turn twice", PIXELS, r"dword ptr \[rcx \+ 4\]", "dword ptr [rcx + 0]"),
    ("a step left out", PIXELS_512, r"add rcx, 4$", "nop"),
    ("weights left behind", PIXELS_512, r"add r10, 32$", "add r10, 24"),
    ("weights of another channel", PIXELS, r"\[r10 \+ 12\]", "[r10 + 8]"),
    ("weights of another term", PIXELS, r"\[r10 \+ 16\]", "[r10 + 0]"),
    ("places counted from the first", PIXELS, "add rsi, rax", "mov rsi, [rdi + 24]; add rsi, rax"),
    ("the input beyond n", PIXELS_512, r"jne \.Ltail$", "nop"),
    ("the input beyond n of one channel", ONE, r"jne \.Ltail$", "nop"),
    ("a tail without its mask", ONE_512, r"zmm7\{k7\}\{z\}, \[rsi", "zmm7, [rsi"),
    ("a tail with another mask", PIXELS_512, r"\{k6\}\{z\}, \[rsi", "{k5}{z}, [rsi"),
    ("terms without any", PIXELS, r"jz \.Lterms_done\n(\.Lwhole)", r"nop\n\1"),
    ("a turn too many", PIXELS, r"sub r9, (\d)\n    jge", r"sub r9, \1\n    cmp r9, -1\n    jge"),
    ("a pixel twice", CHANNELS, r"\[rsi \+ rcx\*2 \+ 0\]", "[rsi + rcx + 0]"),
    ("the second pointer left behind", TALL, "add r14, rax", "nop"),
    ("rows of the second pointer", TALL, r"lea r14, \[rsi \+ rcx\]", "lea r14, [rsi]"),
    ("rows' stride lost", TALL, r"lea r8, \[rcx \+ rcx\*2\]", "nop"),
    ("weights of half a panel", CHANNELS, r"\[r10 \+ 32\]", "[r10 + 0]"),
    ("terms of the next panel", PIXELS, r"sub r9, \[rax\]$", "nop"),
    ("weights of the first panel again", PIXELS, r"mov \[rsp - 56\], r10", "nop"),
    ("steps of the first panel again", BYTES, r"mov \[rsp - 48\], rcx", "nop"),
    ("the input where the panel before left it", CHANNELS, r"mov rsi, \[rdi \+ 32\]", "nop"),
    ("an odd channel left out", ONE, r"je \.Lleave", "jmp .Lleave"),
    ("lists of a pair as long as the first", ONE, "cmovg r9, rax", "nop"),
    ("what the second of a pair has more", ONE, r"jnz \.Lnear_second", "nop"),
    ("weights of the second of a pair", ONE_512, r"lea rbx, \[r10 \+ r9\*4\]", "lea rbx, [r10]"),
    ("signs mixed up", BYTES, r"(vpdpbusd \w+), (\w+), (\w+)", r"\1, \3, \2"),
    ("signs mixed up at 256 bits", EIGHT_256, r"(vpdpbusd \w+), (\w+), (\w+)", r"\1, \3, \2"),
    ("sums saturated", BYTES_16, "vpdpbusd", "vpdpbusds"),
    ("products of words in 16 bits", WORDS_256, "vpaddd", "vpaddw"),
    ("the third term left out", BYTES, r"(\[rcx \+ 8\]\n.*\n    )add rsi, rax", r"\1nop"),
    ("bytes in another order", BYTES, "vpunpcklbw", "vpunpckhbw"),
    ("sums in the order of shuffles", BYTES, r"vshufi64x2 (\w+), \w+, \w+, 0x88", r"nop"),
    ("sums of pairs in another order", WORDS, r", 0xd8$", ", 0xe4"),
    ("sums of halves in another order", BYTES_256, r"ymm0, ymm1, 0x31$", "ymm1, ymm1, 0x31"),
    ("C in the order of pixels", WORDS, r"(vshufi64x2 \w+, \w+, \w+), 0xdd$", r"\1, 0x88"),
    ("words of another row", BYTES_32, r"(words_of_1:\n    .long )4,", r"\g<1>5,"),
    ("bytes of another term", BYTES_16, r"(transposed:\n    .byte )0, 4,", r"\g<1>0, 5,"),
    ("a row's mask too wide", BYTES, r"kmovq k5, rax", "kxnorq k5, k5, k5"),
    ("the second mask of a row", WORDS, r"shr rax, 32\n", "nop\n"),
    ("the last word left out", ONE_256, r"vblendvps.*$", "nop"),
    ("the last word not shifted", ONE_256, r"vpsrld.*$", "nop"),
    ("words before a short row", EIGHT_256, r"jl \.Lshort$", "nop"),
    ("the last byte of a short row", EIGHT_256, r"r12, \[rax - 1\]", "r12, [rax]"),
    ("shift of a short row", EIGHT_256, r"shl r14, 3", "shl r14, 2"),
]  # fmt: skip


@pytest.mark.sampled(7)
@each_of(MUTANTS)
def test_mutant_is_refused(checker, rng, tmp_path, symbol, instruction, instead):
    def judge_row(row: dict) -> None:
        judge_many(checker, row, rng)

    assert_refused(judge_row, tmp_path, symbol, instruction, instead)


def judge_many(checker, row: dict, rng) -> None:
    """Enough cases for each way that terms and the input may lie, short tails and long ones."""
    kinds = ("random", "extreme") if row["kr"] > 1 else ("random",)
    for i, place in enumerate(("start", "end", ANYWHERE) * 25):
        tails = {}
        if i % 5 == 0:
            tails["n"] = 1 + i % 7
        elif place == "end":
            tails["n"] = max(row["nr"] - 1 - i % 7, 1)  # the last vectors' masks, before a guard
        case = draw_case(rng, row, place=place, kind=kinds[i % len(kinds)], **tails)
        judge(checker, row, case, rng)
