"""Vector features that an Arm system announces.

These are features that CPU *and* system support, like CPUID together with XCR0 on x86. Their names
are those in Linux's /proc/cpuinfo. That file itself is not read: under user-mode emulation it
describes the host.

Source: Linux documentation, arch/arm64/elf_hwcaps, and uapi/asm/hwcap.h of arm64 and arm for the
bits (a 64-bit kernel announces those of arm to 32-bit programs);
getauxval(3); Apple's documentation of ``sysctlbyname``, "Determining instruction set
characteristics", for the names that macOS 12 has and those of earlier releases.
"""

from __future__ import annotations

from collections.abc import Callable

from .sysctl import Sysctl, number

Auxval = Callable[[int], int]

_AT_HWCAP, _AT_HWCAP2 = 16, 26
_BITS = {
    "asimd": (_AT_HWCAP, 1),
    "fphp": (_AT_HWCAP, 9),
    "asimdhp": (_AT_HWCAP, 10),
    "asimddp": (_AT_HWCAP, 20),
    "sve": (_AT_HWCAP, 22),
    "asimdfhm": (_AT_HWCAP, 23),
    "sve2": (_AT_HWCAP2, 1),
    "i8mm": (_AT_HWCAP2, 13),
    "bf16": (_AT_HWCAP2, 14),
    "sme": (_AT_HWCAP2, 23),
}
# Programs of 32 bits. Half precision is announced since Linux 6.2.
_BITS_32 = {
    "neon": (_AT_HWCAP, 12),
    "vfpv4": (_AT_HWCAP, 16),
    "fphp": (_AT_HWCAP, 22),
    "asimdhp": (_AT_HWCAP, 23),
}
_SYSCTLS = {
    "asimd": ("hw.optional.AdvSIMD", "hw.optional.neon"),
    "fphp": ("hw.optional.arm.FEAT_FP16", "hw.optional.neon_fp16"),
    "asimdhp": ("hw.optional.arm.FEAT_FP16", "hw.optional.neon_fp16"),
    "asimddp": ("hw.optional.arm.FEAT_DotProd",),
    "asimdfhm": ("hw.optional.arm.FEAT_FHM", "hw.optional.armv8_2_fhm"),
    "i8mm": ("hw.optional.arm.FEAT_I8MM",),
    "bf16": ("hw.optional.arm.FEAT_BF16",),
    "sme": ("hw.optional.arm.FEAT_SME",),
}
# Programs for AArch64 pass floating-point arguments in vector registers, so every system has at
# least these.
_FLOOR = ("asimd",)


def read(auxval: Auxval, ask: Sysctl, arch: str = "aarch64") -> tuple[str, ...]:
    """Vector features of an Arm system.

    Parameters
    ----------
    auxval : callable
        ``getauxval``; 0 where the system has no auxiliary vector.
    ask : callable
        ``sysctl`` by name.
    arch : {"aarch64", "armv7l"}, optional
        Architecture of the process.

    Returns
    -------
    tuple of str
        In the order of the bits. If the system reports nothing, ``("asimd",)`` on aarch64.
    """
    if arch == "armv7l":
        word = auxval(_AT_HWCAP)
        return tuple(name for name, (_, bit) in _BITS_32.items() if word >> bit & 1)
    words = {word: auxval(word) for word in (_AT_HWCAP, _AT_HWCAP2)}
    if words[_AT_HWCAP]:
        return tuple(name for name, (word, bit) in _BITS.items() if words[word] >> bit & 1)
    said = {name for name, keys in _SYSCTLS.items() if any(number(ask, key) == 1 for key in keys)}
    return tuple(name for name in _BITS if name in said) or _FLOOR
