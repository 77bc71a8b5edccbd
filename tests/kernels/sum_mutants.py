"""Kernels with one instruction of the sum wrong, for tests that their judge refuses each."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from asm.build import generated
from asm.registry import kernels
from kernel_checker import compile_library
from kernel_table import MACHINE, every_row
from patience import PATIENCE

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
    assert_refused_alone(judge, row | load(directory, f"{symbol}_wrong", wrong, symbol), symbol)


def assert_refused_alone(judge: Callable[[dict], None], mutant: dict, symbol: str) -> None:
    """Assert that a judge refuses a kernel, in a child: a wrong address may be anybody's memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # this process has threads
        child = os.fork()
    if child == 0:
        verdict = 3
        try:
            signal.alarm(int(PATIENCE))
            judge(mutant)
            verdict = 0
        except AssertionError as error:
            verdict = 1 if symbol in str(error) else 3
        finally:
            os._exit(verdict)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # What it wrote may have ended the child before the judge has spoken.
    assert ended == 1 or -ended in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT), ended


def load(directory: Path, name: str, text: str, symbol: str) -> dict[str, int]:
    """Assemble and load a kernel; give its address as a row of the table has it."""
    source = directory / f"{name}.s"
    source.write_text(text)
    library = compile_library(directory, name, [source])
    return {"address": ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value}
