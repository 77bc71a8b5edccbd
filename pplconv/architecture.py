"""Architectures by one name each, and the ladder of instruction sets that each has.

Systems name the same architecture differently: Linux says ``aarch64`` and ``x86_64``, macOS
``arm64``, Windows ``ARM64`` and ``AMD64``.  A 64-bit system tells even a 32-bit process its own
name, although the process has another architecture: ``armv7l``. Linux calls it ``armv8l`` where it
knows that the process has 32 bits.
"""

from __future__ import annotations

import os
import sys

__all__ = ["INSTRUCTION_SETS", "LADDERS", "canonical", "here", "ladder", "of_process", "owner"]

LADDERS = {
    "x86_64": (
        "portable", "avx2", "avxvnni", "avxvnniint8", "avx512", "avx512vnni", "avx512bf16", "amx",
    ),
    "aarch64": ("portable", "neon", "fp16", "dotprod", "i8mm", "bf16"),
    "armv7l": ("portable", "neon32", "half32"),
}  # fmt: skip
"""Instruction sets that ``PPLCONV_MAX_ISA`` may name, lowest first, by architecture.

A cap allows itself and all lower sets. A CPU need not have every set below its highest: many that
have AVX-512 lack AVX-VNNI.
"""

_FLOOR = ("portable",)

INSTRUCTION_SETS = tuple(dict.fromkeys(name for names in LADDERS.values() for name in names))
"""The instruction sets of all architectures, each once, in the order of their ladders."""

_SAME = {"amd64": "x86_64", "arm64": "aarch64", "armv8l": "armv7l"}
_OF_32_BITS = {"x86_64": "i686", "aarch64": "armv7l"}


def canonical(arch: str) -> str:
    """Name an architecture as `LADDERS` does; any other name in lower case."""
    name = arch.lower()
    return _SAME.get(name, name)


def ladder(arch: str) -> tuple[str, ...]:
    """Instruction sets of an architecture, lowest first; an unknown one has the floor only."""
    return LADDERS.get(canonical(arch), _FLOOR)


def owner(name: str) -> str | None:
    """Architecture whose ladder has the instruction set `name`; None if none has it."""
    return next((arch for arch, names in LADDERS.items() if name in names), None)


def here() -> str:
    """Architecture of this process, as the system names it; ``unknown`` if it does not."""
    uname = getattr(os, "uname", None)
    if uname is not None:  # ten milliseconds faster than importing platform
        return of_process(str(uname().machine), sys.maxsize)
    import platform

    return of_process(platform.machine() or "unknown", sys.maxsize)


def of_process(system: str, largest: int) -> str:
    """Architecture of a process.

    Parameters
    ----------
    system : str
        The machine name that the system reports.
    largest : int
        ``sys.maxsize`` of the process, which tells the size of its pointers.

    Returns
    -------
    str
        `system`; for a 32-bit process, the name of its own architecture.
    """
    name = canonical(system)
    if largest < 1 << 32:
        return _OF_32_BITS.get(name, name)
    return system
