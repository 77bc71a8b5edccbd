"""The kernels under test: the rows of the installed table that this CPU can execute.

What the CPU can execute is read from the kernel's list of flags, not asked of the package, so
that a detection which forgets an instruction set cannot hide its kernels from the tests.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

import numpy as np

from asm.registry import ISAS
from pplconv import _kernels

MACHINE = platform.machine()
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


@cache
def cpu_flags() -> frozenset[str]:
    """Names of the CPU's features, as the operating system lists them."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def executable_isas() -> list[str]:
    """Levels of the ladder that this machine can execute, lowest first."""
    return [
        isa.name
        for isa in ISAS.values()
        if isa.machine in (None, MACHINE) and cpu_flags().issuperset(isa.features)
    ]


@cache
def rows(op: str | None = None, isa: str | None = None) -> list[dict]:
    """Rows of the table that this machine can execute."""
    isas = executable_isas()
    return [
        row
        for row in _kernels.rows()
        if row["isa"] in isas and op in (None, row["op"]) and isa in (None, row["isa"])
    ]


def symbol(row: dict) -> str:
    """Name of a row in test ids."""
    return row["symbol"].removeprefix("pplconv_")
