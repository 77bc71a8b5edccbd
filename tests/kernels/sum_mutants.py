"""Kernels with one instruction of the sum wrong, for tests that their judge refuses each."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from asm.build import generated
from asm.registry import kernels
from kernel_checker import compile_library
from kernel_table import MACHINE, every_row

X86_ONLY = [
    pytest.mark.skipif(MACHINE != "x86_64", reason="mutates x86-64 assembly"),
    pytest.mark.unemulated("mutates x86-64 assembly"),
]


def each_of(mutants: list[tuple[str, str, str, str]]) -> pytest.MarkDecorator:
    """Give a test each of them: kernel, instruction, and what stands there instead."""
    return pytest.mark.parametrize(
        ("symbol", "instruction", "instead"),
        [
            pytest.param(
                *mutant[1:],
                id=mutant[0].replace(" ", "_"),
                marks=pytest.mark.needs_isa(mutant[1].rpartition("_")[2]),
            )
            for mutant in mutants
        ],
    )


def assert_refused(
    judge: Callable[[dict], None], directory: Path, symbol: str, instruction: str, instead: str
) -> None:
    """Assert that a judge takes a kernel, and refuses it with the instruction replaced."""
    (kernel,) = [k for k in kernels(MACHINE) if k.symbol == symbol]
    (row,) = [r for r in every_row(kernel.op) if r["symbol"] == symbol]
    text = generated(kernel).replace(f".hidden {symbol}\n", "")
    judge(row | load(directory, f"{symbol}_right", text, symbol))
    wrong, count = re.subn(instruction, instead, text, flags=re.MULTILINE)
    assert count, f"{symbol} has no {instruction}"
    mutant = row | load(directory, f"{symbol}_wrong", wrong, symbol)
    with pytest.raises(AssertionError, match=symbol):
        judge(mutant)


def load(directory: Path, name: str, text: str, symbol: str) -> dict[str, int]:
    """Assemble and load a kernel; give its address as a row of the table has it."""
    source = directory / f"{name}.s"
    source.write_text(text)
    library = compile_library(directory, name, [source])
    return {"address": ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value}
