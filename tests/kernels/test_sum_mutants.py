"""The judge refuses kernels with one wrong instruction in the sum.

Mutants of the code around the sum are in ``test_edge_mutants.py``.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import warnings
from functools import partial
from pathlib import Path

import pytest

from asm.build import generated
from asm.contract import GEMM
from asm.registry import PRODUCTS, kernels
from tests.kernels.gemm_case import ANYWHERE
from tests.kernels.kernel_checker import compile_library
from tests.kernels.kernel_table import MACHINE, every_row
from tests.kernels.narrow_gemm import is_integer
from tests.kernels.product_case import judge
from tests.patience import PATIENCE

pytestmark = [
    pytest.mark.skipif(MACHINE != "x86_64", reason="mutates x86-64 assembly"),
    pytest.mark.unemulated("mutates x86-64 assembly"),
]

# GEMM kernels: the largest of a level, with two pointers to A, or with four vectors.
TALL, WIDE, NARROW = "gemm_f32_28x16_avx512", "gemm_f64_6x32_avx512", "gemm_f32_6x16_avx2"
BYTES, BYTES_256 = "gemm_u8_14x32_avx512vnni", "gemm_u8_6x16_avxvnni"
WORDS, BFLOATS = "gemm_s16_6x16_avx2", "gemm_bf16_28x16_avx512bf16"
PAIRS, PAIRS_512 = "gemm_u8p_5x16_avx2", "gemm_u8p_13x32_avx512"
C_VS, RESIDUAL_VS = (rf"\[rdi \+ {GEMM.offset(name)}\]" for name in ("c_vs", "residual_vs"))
COUNT = rf"\[rdi \+ {GEMM.offset('segment_count')}\]"
# Kernels of sparse weights.
FOUR, FOUR_512 = "sparse_pixels_f32_4x24_avx2", "sparse_pixels_f64_4x48_avx512"
ONE, ONE_512 = "sparse_pixels_f64_1x8_avx2", "sparse_pixels_f32_1x112_avx512"
CHANNELS, CHANNELS_512 = "sparse_channels_f32_6x16_avx2", "sparse_channels_f32_28x16_avx512"
BYTES_64, BYTES_32, BYTES_16 = (
    f"sparse_pixels_u8_{tile}_avx512vnni" for tile in ("4x64", "8x32", "16x16")
)
FOUR_256, ONE_256, EIGHT_256 = (
    f"sparse_pixels_u8_{tile}_avxvnni" for tile in ("4x16", "1x32", "8x8")
)
WORDS_64, WORDS_256 = "sparse_pixels_s16_4x64_avx512", "sparse_pixels_s16_4x16_avx2"

# The mistake, a pattern of the instruction, its replacement, and the kernels.
MUTANTS = [
    ("signs mixed up", r"(vpdpbusd \w+), (\w+), (\w+)", r"\1, \3, \2",
     BYTES, BYTES_256, BYTES_64, EIGHT_256),
    ("sums saturated", "vpdpbusd", "vpdpbusds", BYTES, BYTES_16),
    ("sums in 16 bits", "vpaddd", "vpaddw", WORDS, PAIRS_512, WORDS_256),
    ("rows' stride lost", r"lea r8, \[rcx \+ rcx\*2\]", "nop", NARROW, CHANNELS_512),
    ("rows of the second pointer", r"lea r14, \[(r10|rsi) \+ rcx\]", r"lea r14, [\1]",
     TALL, CHANNELS_512),
    *(
        ("last group", rf"add rax, {PRODUCTS[symbol.split('_')[1]].kr - 1}$", "nop", symbol)
        for symbol in (BYTES, WORDS, BFLOATS, PAIRS_512)
    ),

    ("A of a segment", r"add r10, \[rax\]", "add r10, [rax + 8]", NARROW),
    ("B of a segment", r"add rsi, \[rax \+ 8\]", "add rsi, [rax]", NARROW),
    ("next segment", r"add qword ptr \[rsp - 8\], 16", "add qword ptr [rsp - 8], 8", NARROW),
    ("last segment left out", rf"mov rax, {COUNT}", r"\g<0>; sub rax, 1; adc rax, 0", NARROW),
    ("a segment too many", r"jg \.Lnext_segment", "jge .Lnext_segment", NARROW),
    ("segments looked at without any", r"jz \.Lsegment$", "nop", NARROW),
    ("vectors of C", rf"mov rsi, {C_VS}", "mov rsi, 32", NARROW),
    ("vectors of the residual", rf"mov rsi, {RESIDUAL_VS}", "mov rsi, 32", NARROW),
    ("fourth vector", r"lea rcx, \[rsi \+ rsi\*2\]", "lea rcx, [rsi + rsi*4]", WIDE),
    ("a product lost", r"vpaddd (\w+), \1, ymm15", "nop", WORDS),
    ("signs of pairs mixed up", r"(vpmaddubsw \w+), (\w+), (\w+)", r"\1, \3, \2", PAIRS),
    ("the second of a pair alone", "mov eax, 65537", "mov eax, 65536", PAIRS),
    ("pairs multiplied by themselves", r"(vpmaddwd \w+, (\w+)), zmm31", r"\1, \2", PAIRS_512),
    ("the first of a pair alone", r"vdpbf16ps zmm27, (\w+), (.*)$", r"vpxord zmm27, \1, \1",
     BFLOATS),

    ("steps of elements", "imul rax, rdx", "lea rax, [rax*4]", FOUR),
    ("steps of 16 bits", r"movsxd rax, dword", "movsx rax, word", ONE),
    ("places of 32 bits", "imul rax, rdx", "imul eax, edx; cdqe", FOUR),
    ("a step of a turn twice", r"dword ptr \[rcx \+ 4\]", "dword ptr [rcx + 0]", FOUR),
    ("a step left out", r"add rcx, 4$", "nop", FOUR_512),
    ("weights left behind", r"add r10, 32$", "add r10, 24", FOUR_512),
    ("weights of another channel", r"\[r10 \+ 12\]", "[r10 + 8]", FOUR),
    ("weights of another term", r"\[r10 \+ 16\]", "[r10 + 0]", FOUR),
    ("places counted from the first", "add rsi, rax", "mov rsi, [rdi + 24]; add rsi, rax", FOUR),
    ("the input beyond n", r"jne \.Ltail$", "nop", FOUR_512, ONE),
    ("a tail without its mask", r"zmm7\{k7\}\{z\}, \[rsi", "zmm7, [rsi", ONE_512),
    ("a tail with another mask", r"\{k6\}\{z\}, \[rsi", "{k5}{z}, [rsi", FOUR_512),
    ("terms without any", r"jz \.Lterms_done\n(\.Lwhole)", r"nop\n\1", FOUR),
    ("a turn too many", r"sub r9, (\d)\n    jge", r"sub r9, \1\n    cmp r9, -1\n    jge", FOUR),
    ("a pixel twice", r"\[rsi \+ rcx\*2 \+ 0\]", "[rsi + rcx + 0]", CHANNELS),
    ("the second pointer left behind", "add r14, rax", "nop", CHANNELS_512),
    ("weights of half a panel", r"\[r10 \+ 32\]", "[r10 + 0]", CHANNELS),
    ("terms of the next panel", r"sub r9, \[rax\]$", "nop", FOUR),
    ("weights of the first panel again", r"mov \[rsp - 56\], r10", "nop", FOUR),
    ("steps of the first panel again", r"mov \[rsp - 48\], rcx", "nop", BYTES_64),
    ("the input where the panel before left it", r"mov rsi, \[rdi \+ 32\]", "nop", CHANNELS),
    ("an odd channel left out", r"je \.Lleave", "jmp .Lleave", ONE),
    ("lists of a pair as long as the first", "cmovg r9, rax", "nop", ONE),
    ("what the second of a pair has more", r"jnz \.Lnear_second", "nop", ONE),
    ("weights of the second of a pair", r"lea rbx, \[r10 \+ r9\*4\]", "lea rbx, [r10]", ONE_512),
    ("the third term left out", r"(\[rcx \+ 8\]\n.*\n    )add rsi, rax", r"\1nop", BYTES_64),
    ("bytes in another order", "vpunpcklbw", "vpunpckhbw", BYTES_64),
    ("sums in the order of shuffles", r"vshufi64x2 (\w+), \w+, \w+, 0x88", r"nop", BYTES_64),
    ("sums of pairs in another order", r", 0xd8$", ", 0xe4", WORDS_64),
    ("sums of halves in another order", r"ymm0, ymm1, 0x31$", "ymm1, ymm1, 0x31", FOUR_256),
    ("C in the order of pixels", r"(vshufi64x2 \w+, \w+, \w+), 0xdd$", r"\1, 0x88", WORDS_64),
    ("words of another row", r"(words_of_1:\n    .long )4,", r"\g<1>5,", BYTES_32),
    ("bytes of another term", r"(transposed:\n    .byte )0, 4,", r"\g<1>0, 5,", BYTES_16),
    ("a row's mask too wide", r"kmovq k5, rax", "kxnorq k5, k5, k5", BYTES_64),
    ("the second mask of a row", r"shr rax, 32\n", "nop\n", WORDS_64),
    ("the last word left out", r"vblendvps.*$", "nop", ONE_256),
    ("the last word not shifted", r"vpsrld.*$", "nop", ONE_256),
    ("words before a short row", r"jl \.Lshort$", "nop", EIGHT_256),
    ("the last byte of a short row", r"r12, \[rax - 1\]", "r12, [rax]", EIGHT_256),
    ("shift of a short row", r"shl r14, 3", "shl r14, 2", EIGHT_256),
]  # fmt: skip


@pytest.mark.sampled(13)
@pytest.mark.parametrize(
    ("symbol", "instruction", "instead"),
    [
        pytest.param(
            f"pplconv_{symbol}",
            instruction,
            instead,
            id=f"{what}-{symbol}".replace(" ", "_"),
            marks=pytest.mark.needs_isa(symbol.rpartition("_")[2]),
        )
        for what, instruction, instead, *symbols in MUTANTS
        for symbol in symbols
    ],
)
def test_mutant_is_refused(checker, rng, tmp_path, symbol, instruction, instead):
    (kernel,) = [k for k in kernels(MACHINE) if k.symbol == symbol]
    (row,) = [r for r in every_row(kernel.op) if r["symbol"] == symbol]
    text = generated(kernel).replace(f".hidden {symbol}\n", "")
    judge_row = partial(judge_many, checker, rng=rng)
    judge_row(row | load(tmp_path, f"{symbol}_right", text, symbol))
    wrong, count = re.subn(instruction, instead, text, flags=re.MULTILINE)
    assert count, f"{symbol} has no {instruction}"
    mutant = row | load(tmp_path, f"{symbol}_wrong", wrong, symbol)
    # In a child process: a mutant may write anywhere.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # this process has threads
        child = os.fork()
    if child == 0:
        verdict = 3
        try:
            signal.alarm(int(PATIENCE))
            judge_row(mutant)
            verdict = 0
        except AssertionError as error:
            verdict = 1 if symbol in str(error) else 3
        finally:
            os._exit(verdict)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # The mutant may have crashed the child before the judge refused it.
    assert ended == 1 or -ended in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT), ended


def judge_many(checker, row: dict, rng) -> None:
    """Judge enough cases for each kind of segment, of terms and of C, and for sums that overflow.

    With sparse weights, there are short tails and long ones.
    """
    kinds = ("random", "extreme") if is_integer(row) else ("random",)
    sparse = row["op"] != "gemm"
    for i, place in enumerate(("start", "end", ANYWHERE) * (25 if sparse else 20)):
        fixed = {"place": place, "kind": kinds[i % len(kinds)]}
        if sparse and i % 5 == 0:
            fixed["n"] = 1 + i % 7
        elif sparse and place == "end":
            fixed["n"] = max(row["nr"] - 1 - i % 7, 1)  # the last vectors' masks, before a guard
        judge(checker, row, rng, **fixed)


def load(directory: Path, name: str, text: str, symbol: str) -> dict[str, int]:
    """Assemble and load a kernel; give its address as a member of a table row."""
    source = directory / f"{name}.s"
    source.write_text(text)
    library = compile_library(directory, name, [source])
    return {"address": ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value}
