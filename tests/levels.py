"""Levels of the registry that this machine can execute, and the levels that this run tests.

The operating system is asked what the CPU can execute, not the package under test: a detection
that forgets an instruction set cannot hide its kernels from the tests. A run tests the levels that
``PPLCONV_MAX_ISA`` allowed when it began: a test may change the variable for itself.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from functools import cache
from pathlib import Path

from asm.registry import ISAS, kernels
from pplconv import config
from pplconv.architecture import here, ladder
from tests import absent

MACHINE = here()
CAP = config.current().max_isa
_BUILT = {kernel.isa for kernel in kernels(MACHINE)}
# Levels that are built for this machine, lowest first.
LADDER = tuple(name for name in ISAS if name in _BUILT)

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

    On Arm the bits of getauxval(3) are read: under emulation /proc/cpuinfo is the host's.
    """
    hwcaps = {"aarch64": _HWCAPS, "armv7l": _HWCAPS_32}.get(MACHINE)
    if hwcaps:
        getauxval = ctypes.CDLL(None).getauxval
        getauxval.restype, getauxval.argtypes = ctypes.c_ulong, (ctypes.c_ulong,)
        return frozenset(name for name, (word, bit) in hwcaps.items() if getauxval(word) >> bit & 1)
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return frozenset(value.split()) - absent.flags()
    return frozenset()


# Linux's arch/x86/include/uapi/asm/prctl.h and unistd_64.h: the request for tile registers.
_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _TILE_DATA = 158, 0x1023, 18


@cache
def tiles_permitted() -> bool:
    """Whether the system lets this process use the tile registers of AMX."""
    asked = ctypes.CDLL(None, use_errno=True).syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _TILE_DATA)
    return int(asked) == 0


# Executes vadd.f16 q0, q0, q0; bx lr. A signal ends the process if the CPU lacks the first.
_TRY_HALF = """
import ctypes, mmap
code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("400d10f2 1eff2fe1"))
ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
"""


@cache
def tried_isas() -> list[str]:
    """Levels that this CPU executes but this system does not announce.

    Arithmetic in half precision of 32-bit Arm: Linux announces it since 6.2, QEMU since 8.1.
    """
    if MACHINE != "armv7l" or "half32" in executable_isas() or "neon32" not in executable_isas():
        return []
    tried = subprocess.run([sys.executable, "-c", _TRY_HALF], stderr=subprocess.DEVNULL)
    return ["half32"] if tried.returncode == 0 else []


def executable_isas() -> list[str]:
    """Levels of the ladder that this machine can execute, lowest first."""
    return [name for name in LADDER if not _lacking(name)]


def _lacking(name: str) -> str:
    """Say why this machine cannot execute a level; empty if it can."""
    flags = [flag for flag in ISAS[name].features if flag not in cpu_flags()]
    if flags:
        return f"the CPU has no {', '.join(flags)}"
    refused = "amx_tile" in ISAS[name].features and not tiles_permitted()
    return "the system permits no tile registers" if refused else ""


def narrow_isas() -> list[str]:
    """Levels with kernels of narrow types only; they change nothing for tests of other types."""
    return [name for name in LADDER if not ISAS[name].dtypes]


def allowed_isas() -> list[str]:
    """Levels whose kernels this run may call: the CPU's, up to the cap; lowest first."""
    return [name for name in LADDER if not why_not(name)]


@cache
def why_not(name: str) -> str:
    """Say why this run does not test a level of the ladder; empty if it does."""
    if CAP is not None and ladder(MACHINE).index(name) > ladder(MACHINE).index(CAP):
        return f"PPLCONV_MAX_ISA={CAP} caps it"
    if name in absent.names():
        return f"{absent.VARIABLE}={','.join(absent.names())} leaves it out"
    return _lacking(name) if name not in tried_isas() else ""


def serving(isas: list[str] | tuple[str, ...], dtype: str) -> list[str]:
    """Levels of `isas` that have GEMM kernels for `dtype`, named as in the registry."""
    found = {k.isa for k in kernels(MACHINE) if (k.op, k.dtype) == ("gemm", dtype)}
    return [name for name in isas if name in found]
