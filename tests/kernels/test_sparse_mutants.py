"""Kernels of sparse weights with one instruction of the sum wrong: their judge refuses each.

Those of what stands around the sum are in ``test_edge_mutants.py``.
"""

from __future__ import annotations

import importlib
import re

import pytest

from asm.registry import kernels
from gemm_case import ANYWHERE
from kernel_table import MACHINE, every_row
from sparse_case import draw_case, judge
from test_gemm_mutants import load

pytestmark = [
    pytest.mark.skipif(MACHINE != "x86_64", reason="mutates x86-64 assembly"),
    pytest.mark.unemulated("mutates x86-64 assembly"),
]

PIXELS = "pplconv_sparse_pixels_f32_4x24_avx2"
ONE = "pplconv_sparse_pixels_f64_1x8_avx2"
PIXELS_512 = "pplconv_sparse_pixels_f64_4x48_avx512"
ONE_512 = "pplconv_sparse_pixels_f32_1x112_avx512"
CHANNELS = "pplconv_sparse_channels_f32_6x16_avx2"
TALL = "pplconv_sparse_channels_f32_28x16_avx512"

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
]  # fmt: skip


@pytest.mark.parametrize(
    ("symbol", "instruction", "instead"),
    [
        pytest.param(
            *mutant[1:],
            id=mutant[0].replace(" ", "_"),
            marks=pytest.mark.needs_isa(mutant[1].rpartition("_")[2]),
        )
        for mutant in MUTANTS
    ],
)
def test_mutant_is_refused(checker, rng, tmp_path, symbol, instruction, instead):
    (kernel,) = [k for k in kernels(MACHINE) if k.symbol == symbol]
    (row,) = [r for r in every_row(kernel.op) if r["symbol"] == symbol]
    generated = importlib.import_module(f"asm.x86_64.{kernel.op}").generate(kernel)
    text = generated.replace(f".hidden {symbol}\n", "")
    judge_many(checker, row | load(tmp_path, f"{symbol}_right", text, symbol), rng)
    wrong, count = re.subn(instruction, instead, text, flags=re.MULTILINE)
    assert count, f"{symbol} has no {instruction}"
    mutant = row | load(tmp_path, f"{symbol}_wrong", wrong, symbol)
    with pytest.raises(AssertionError, match=symbol):
        judge_many(checker, mutant, rng)


def judge_many(checker, row: dict, rng) -> None:
    """Enough cases that each way that terms and the input may lie comes by."""
    for place in ("start", "end", ANYWHERE) * 25:
        judge(checker, row, draw_case(rng, row, place=place, kind="random"), rng)
