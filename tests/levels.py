"""Levels of the registry that this machine can execute, asked of the system.

What the CPU can execute is not asked of the package under test, so that a detection which forgets
an instruction set cannot hide its kernels from the tests.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from asm.registry import ISAS, kernels
from pplconv.architecture import here

MACHINE = here()
# Levels that are built for this machine, lowest first.
LADDER = tuple(isa.name for isa in ISAS.values() if isa.machine in (None, MACHINE))

# Linux's include/uapi/asm/hwcap.h for arm64: AT_HWCAP and AT_HWCAP2 by getauxval(3).
_AT_HWCAP, _AT_HWCAP2 = 16, 26
_HWCAPS = {
    "asimd": (_AT_HWCAP, 1),
    "atomics": (_AT_HWCAP, 8),
    "fphp": (_AT_HWCAP, 9),
    "asimdhp": (_AT_HWCAP, 10),
    "asimddp": (_AT_HWCAP, 20),
    "sve": (_AT_HWCAP, 22),
    "asimdfhm": (_AT_HWCAP, 23),
    "sve2": (_AT_HWCAP2, 1),
    "i8mm": (_AT_HWCAP2, 13),
    "bf16": (_AT_HWCAP2, 14),
}
_HWCAPS_32 = {
    "neon": (_AT_HWCAP, 12),
    "vfpv4": (_AT_HWCAP, 16),
    "fphp": (_AT_HWCAP, 22),
    "asimdhp": (_AT_HWCAP, 23),
}


@cache
def cpu_flags() -> frozenset[str]:
    """Names of the CPU's features, as the operating system lists them.

    On Arm by the bits that the list is made of: under emulation /proc/cpuinfo is the host's.
    """
    hwcaps = {"aarch64": _HWCAPS, "armv7l": _HWCAPS_32}.get(MACHINE)
    if hwcaps:
        getauxval = ctypes.CDLL(None).getauxval
        getauxval.restype, getauxval.argtypes = ctypes.c_ulong, (ctypes.c_ulong,)
        return frozenset(name for name, (word, bit) in hwcaps.items() if getauxval(word) >> bit & 1)
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return frozenset(value.split())
    return frozenset()


def executable_isas() -> list[str]:
    """Levels of the ladder that this machine can execute, lowest first."""
    return [name for name in LADDER if cpu_flags().issuperset(ISAS[name].features)]


def serving(isas: list[str] | tuple[str, ...], dtype: str) -> list[str]:
    """Those of `isas` that have GEMM kernels for `dtype`, a name as in the registry."""
    found = {k.isa for k in kernels(MACHINE) if (k.op, k.dtype) == ("gemm", dtype)}
    return [name for name in isas if name in found]
