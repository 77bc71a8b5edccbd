"""The kernels under test: the rows of the installed table that this CPU can execute."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

import numpy as np

from levels import MACHINE, executable_isas
from pplconv import _kernels

__all__ = ["BITS", "DTYPES", "MACHINE", "executable_isas", "rows", "symbol", "tried_isas"]

DTYPES = {
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
# The same bits as integers, for comparisons that tell -0.0 from 0.0 and keep NaNs.
BITS = {
    "f16": np.dtype(np.uint16),
    "f32": np.dtype(np.uint32),
    "f64": np.dtype(np.uint64),
}

# Executes one instruction, and is stopped where the CPU has it not: vadd.f16 q0, q0, q0; bx lr.
_TRY_HALF = """
import ctypes, mmap
code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("400d10f2 1eff2fe1"))
ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
"""


@cache
def tried_isas() -> list[str]:
    """Levels that this CPU executes and this system does not announce.

    Arithmetic in half precision of 32-bit Arm: Linux announces it since 6.2, QEMU since 8.1.
    """
    if MACHINE != "armv7l" or "half32" in executable_isas() or "neon32" not in executable_isas():
        return []
    tried = subprocess.run([sys.executable, "-c", _TRY_HALF], stderr=subprocess.DEVNULL)
    return ["half32"] if tried.returncode == 0 else []


@cache
def rows(op: str | None = None, isa: str | None = None) -> list[dict]:
    """Rows of the table that this machine can execute."""
    isas = [*executable_isas(), *tried_isas()]
    return [
        row
        for row in _kernels.rows()
        if row["isa"] in isas and op in (None, row["op"]) and isa in (None, row["isa"])
    ]


def symbol(row: dict) -> str:
    """Name of a row in test ids."""
    return row["symbol"].removeprefix("pplconv_")
