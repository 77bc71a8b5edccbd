"""Instructions that a CPU announces and its system does not let a process use.

Source: as of `cpu` and `amx`.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import amx
from .cpu import AVX2_STATE, AVX512_STATE, Cpuid, Xgetbv, announces, leaf


def withheld(cpuid: Cpuid, xgetbv: Xgetbv, isas: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return instruction sets that the CPU has but the machine may not use, and why.

    Parameters
    ----------
    cpuid : callable
        ``cpuid(leaf, subleaf)`` gives (eax, ebx, ecx, edx) or None.
    xgetbv : callable
        ``xgetbv(0)`` gives XCR0 or None; called only where the system has enabled XSAVE.
    isas : iterable of str
        Instruction sets that the machine may use.

    Returns
    -------
    tuple of (str, str)
        Names and reasons, lowest first.
    """
    had, found = set(isas), []
    there, saves = announces(cpuid)
    xcr0 = (xgetbv(0) or 0) if saves else 0
    for name, state in (("avx2", AVX2_STATE), ("avx512", AVX512_STATE)):
        if there[name] and name not in had and xcr0 & state != state:
            found.append((name, "the system does not save its registers"))
    if leaf(cpuid, 7)[3] & amx.FEATURES == amx.FEATURES and "amx" not in had:
        if xcr0 & amx.TILE_STATE != amx.TILE_STATE:
            found.append(("amx", "the system does not save tile registers"))
        elif not amx.has_tiles(cpuid, xcr0):
            found.append(("amx", "the CPU, or a virtual machine's, announces no usable palette"))
        else:
            found.append(("amx", "the system refused this process the tile registers"))
    return tuple(found)
