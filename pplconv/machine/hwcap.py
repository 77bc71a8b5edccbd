"""Vector features that the kernel of an ARM system announces (HWCAP).

They say what CPU *and* system support, like CPUID together with XCR0 on x86.

Source: Linux documentation, arch/arm64/elf_hwcaps; the kernel's uapi/asm/hwcap.h for the bits;
getauxval(3) for the auxiliary vector.
"""

from __future__ import annotations

import struct

from .files import read_bytes, read_text, under

_AT_HWCAP, _AT_HWCAP2 = 16, 26
_ENTRY = struct.Struct("<QQ")
_BITS = {
    "asimd": (_AT_HWCAP, 1),
    "asimdhp": (_AT_HWCAP, 10),
    "asimddp": (_AT_HWCAP, 20),
    "sve": (_AT_HWCAP, 22),
    "asimdfhm": (_AT_HWCAP, 23),
    "sve2": (_AT_HWCAP2, 1),
    "i8mm": (_AT_HWCAP2, 13),
    "bf16": (_AT_HWCAP2, 14),
    "sme": (_AT_HWCAP2, 23),
}


def read(root: str, arch: str) -> tuple[str, ...]:
    """Vector features of a 64-bit ARM machine, by the names of /proc/cpuinfo.

    Parameters
    ----------
    root : str
        Directory that holds ``proc``.
    arch : str
        Architecture; the bits mean other things on others.

    Returns
    -------
    tuple of str
        In the order of the bits; () on other architectures, and where nothing tells.
    """
    if arch.lower() not in ("aarch64", "arm64"):
        return ()
    raw = read_bytes(under(root, "/proc/self/auxv"))
    whole = len(raw) - len(raw) % _ENTRY.size
    words: dict[int, int] = dict(_ENTRY.iter_unpack(raw[:whole]))
    found = tuple(name for name, (word, bit) in _BITS.items() if words.get(word, 0) >> bit & 1)
    return found or _from_cpuinfo(root)


def _from_cpuinfo(root: str) -> tuple[str, ...]:
    # A process that may not be dumped cannot read its own auxiliary vector.
    for line in read_text(under(root, "/proc/cpuinfo")).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "Features":
            words = set(value.split())
            return tuple(name for name in _BITS if name in words)
    return ()
