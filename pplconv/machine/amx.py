"""Tile registers (AMX) of x86: whether CPU and system have them, and the permission to use them.

A CPU with the instructions is not enough. Some virtual machines announce them without any palette,
that is without a tile configuration that LDTILECFG would accept (uxlfoundation/oneDNN#5689). And
Linux saves the 8 KiB of tile registers only for processes that have asked for it: before that, the
first tile instruction ends the process. The request is refused by systems that do not know it, by
filters of system calls, and if a thread has an alternate stack for signals (``sigaltstack``, as
Python's ``faulthandler`` installs) that is too small for the registers that a signal would save
there. Then the machine counts as one without tile registers.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18, and
volume 2, CPUID, leaves 07H, 1DH; Linux documentation, arch/x86/xstate.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

Permit = Callable[[], bool]

# Leaf 7, EDX.
FEATURES = 1 << 22 | 1 << 24 | 1 << 25  # AMX-BF16, AMX-TILE, AMX-INT8
# XCR0: the tile configuration, and the tile data.
TILE_STATE = 0b11 << 17
_PALETTES = 0x1D
# The tile configuration that kernels need: palette 1.
_ROW_BYTES, _TILES, _ROWS = 64, 8, 16


def has_tiles(cpuid: Callable[[int, int], tuple[int, int, int, int] | None], xcr0: int) -> bool:
    """Whether the CPU has tile registers as the kernels need them, and the system saves them.

    Parameters
    ----------
    cpuid : callable
        ``cpuid(leaf, subleaf)`` gives (eax, ebx, ecx, edx), or None where there is no CPUID.
    xcr0 : int
        Which registers the system saves.

    Returns
    -------
    bool
        True for bytes and bfloat16 in palette 1 with eight tiles of 16 rows of 64 bytes.
    """
    last = cpuid(0, 0)
    # For a leaf above its last one, the CPU would return another leaf.
    if last is None or last[0] < _PALETTES or xcr0 & TILE_STATE != TILE_STATE:
        return False
    if (cpuid(7, 0) or (0,) * 4)[3] & FEATURES != FEATURES:
        return False
    if (cpuid(_PALETTES, 0) or (0,) * 4)[0] < 1:
        return False
    _, ebx, ecx, _ = cpuid(_PALETTES, 1) or (0,) * 4
    return (ebx & 0xFFFF, ebx >> 16, ecx & 0xFFFF) == (_ROW_BYTES, _TILES, _ROWS)


@lru_cache(maxsize=1)
def permitted() -> bool:
    """Whether the system lets this process use tile registers; it is asked once, at the first call.

    A refused request is not repeated, since plans must not change while they are used.
    """
    from pplconv import _kernels

    return _kernels.permit_tiles()


def never() -> bool:
    """Refuse; for descriptions of machines other than this one."""
    return False
