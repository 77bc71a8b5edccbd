"""Identity of the CPU, and the instruction sets that the CPU and the system support.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, CPUID, and
volume 1, chapter 13 (XCR0); AMD64 Architecture Programmer's Manual, volume 3, appendix E.
"""

from __future__ import annotations

from collections.abc import Callable

from .._records import NamedTuple
from .amx import Permit, has_tiles, never
from .kernel_files import read_text, to_int, under

Registers = tuple[int, int, int, int]
Cpuid = Callable[[int, int], "Registers | None"]
Xgetbv = Callable[[int], "int | None"]

_X86 = frozenset({"x86_64", "amd64", "i386", "i486", "i586", "i686", "x86"})

# Leaf 1, ECX.
_FMA = 1 << 12
_OSXSAVE = 1 << 27
_AVX = 1 << 28
_F16C = 1 << 29
# Leaf 7, EBX.
_AVX2 = 1 << 5
_BMI2 = 1 << 8
_AVX512 = 1 << 16 | 1 << 17 | 1 << 30 | 1 << 31  # F, DQ, BW, VL
# Leaf 7, ECX.
_AVX512_VNNI = 1 << 11
# Leaf 7, subleaf 1, EAX and EDX.
_AVX_VNNI = 1 << 4
_AVX512_BF16 = 1 << 5
_AVX_VNNI_INT8 = 1 << 4
# XCR0: which registers the system saves when it switches threads.
AVX2_STATE = 0b11 << 1  # SSE, AVX
_ZMM_STATE = 0b111 << 5  # opmask, upper halves of zmm0-15, zmm16-31
AVX512_STATE = AVX2_STATE | _ZMM_STATE


class Cpu(NamedTuple):
    """Identity and instruction sets of a CPU; fields as in `Machine`."""

    vendor: str = "unknown"
    name: str = ""
    family: int = 0
    model: int = 0
    isas: tuple[str, ...] = ("portable",)


def is_x86(arch: str) -> bool:
    """Whether an architecture of this name has the CPUID instruction."""
    return arch.lower() in _X86


def leaf(cpuid: Cpuid, number: int, sub: int = 0) -> Registers:
    """Read a CPUID leaf as (eax, ebx, ecx, edx), zeros if the CPU does not have it.

    For a leaf above its last one, an Intel CPU returns its last one, so the range is checked first.
    """
    last = cpuid(number & 0x80000000, 0)
    # Without extended leaves, 0x80000000 itself is out of range and may return anything.
    if last is None or not number <= last[0] <= (number & 0x80000000) + 0xFFFF:
        return (0, 0, 0, 0)
    return cpuid(number, sub) or (0, 0, 0, 0)


def identify(cpuid: Cpuid, xgetbv: Xgetbv, permit: Permit = never) -> Cpu:
    """Decode CPUID and XCR0.

    Parameters
    ----------
    cpuid : callable
        ``cpuid(leaf, subleaf)`` gives (eax, ebx, ecx, edx), or None where there is no CPUID.
    xgetbv : callable
        ``xgetbv(0)`` gives XCR0 or None; called only if the system has enabled XSAVE, as the
        instruction faults otherwise.
    permit : callable, optional
        ``permit()`` asks the system for tile registers; called only if all other conditions hold.

    Returns
    -------
    Cpu
    """
    _, ebx, ecx, edx = leaf(cpuid, 0)
    vendor = _text((ebx, edx, ecx))
    if not vendor:
        return Cpu()
    version, _, features1, _ = leaf(cpuid, 1)
    xcr0 = (xgetbv(0) or 0) if features1 & _OSXSAVE else 0
    family, model = _family_model(version)
    isas = _isas(cpuid, xcr0, permit)
    return Cpu(vendor, _brand(cpuid), family, model, isas)


def announces(cpuid: Cpuid) -> tuple[dict[str, bool], bool]:
    """Whether CPUID reports ``"avx2"`` and ``"avx512"``, and if the system has enabled XSAVE.

    A CPU may have instructions whose registers the system does not save.
    """
    features1, (_, ebx, _, _) = leaf(cpuid, 1)[2], leaf(cpuid, 7)
    avx2 = _all(features1, _FMA | _AVX | _F16C) and _all(ebx, _AVX2 | _BMI2)
    found = {"avx2": avx2, "avx512": avx2 and _all(ebx, _AVX512)}
    return found, bool(features1 & _OSXSAVE)


def from_cpuinfo(root: str) -> Cpu:
    """Identity of a CPU without CPUID or MIDR from /proc/cpuinfo; portable kernels only."""
    entries: dict[str, str] = {}
    for line in read_text(under(root, "/proc/cpuinfo")).splitlines():
        key, _, value = line.partition(":")
        entries.setdefault(key.strip().lower(), value.strip())
    implementer = _number(entries.get("cpu implementer", ""))
    from .arm_cores import IMPLEMENTERS

    vendor = IMPLEMENTERS.get(implementer) or entries.get("vendor_id") or "unknown"
    name = entries.get("model name") or entries.get("cpu model") or entries.get("cpu") or ""
    return Cpu(
        vendor,
        name,
        _number(entries.get("cpu architecture", "")),
        _number(entries.get("cpu part", "")),
    )


def threads_per_core(cpuid: Cpuid) -> int:
    """Hardware threads of the calling core; 0 if CPUID does not report them."""
    _, threads, level, _ = leaf(cpuid, 0xB)
    if level >> 8 & 0xFF == 1:  # the lowest level of the topology: hardware threads
        return threads & 0xFFFF
    # AMD before Zen 2; leaf 0x8000001E exists if 0x80000001 says so (ECX, bit 22).
    if leaf(cpuid, 0x80000001)[2] >> 22 & 1:
        return (leaf(cpuid, 0x8000001E)[1] >> 8 & 0xFF) + 1
    return 0


def _isas(cpuid: Cpuid, xcr0: int, permit: Permit) -> tuple[str, ...]:
    """Levels that CPU and system have, lowest first; see `pplconv.architecture.LADDERS`.

    Each level includes the lower ones, since a compiler that may use AVX-512 may use AVX2 too.
    """
    highest, _, ecx, _ = leaf(cpuid, 7)
    eax1, _, _, edx1 = leaf(cpuid, 7, 1) if highest else (0, 0, 0, 0)
    there, _ = announces(cpuid)
    avx2 = there["avx2"] and _all(xcr0, AVX2_STATE)
    avxvnni = avx2 and _all(eax1, _AVX_VNNI)
    avx512 = there["avx512"] and _all(xcr0, AVX512_STATE)
    vnni = avx512 and _all(ecx, _AVX512_VNNI)
    bf16 = vnni and _all(eax1, _AVX512_BF16)
    found = {
        "portable": True,
        "avx2": avx2,
        "avxvnni": avxvnni,
        "avxvnniint8": avxvnni and _all(edx1, _AVX_VNNI_INT8),
        "avx512": avx512,
        "avx512vnni": vnni,
        "avx512bf16": bf16,
        "amx": bf16 and has_tiles(cpuid, xcr0) and permit(),
    }
    return tuple(name for name, there in found.items() if there)


def _all(word: int, bits: int) -> bool:
    return word & bits == bits


def _family_model(version: int) -> tuple[int, int]:
    family = version >> 8 & 0xF
    model = version >> 4 & 0xF
    if family in (0x6, 0xF):
        model |= (version >> 16 & 0xF) << 4
    if family == 0xF:
        family += version >> 20 & 0xFF
    return family, model


def _brand(cpuid: Cpuid) -> str:
    words: list[int] = []
    for number in (0x80000002, 0x80000003, 0x80000004):
        words += leaf(cpuid, number)
    return " ".join(_text(tuple(words)).split())


def _text(words: tuple[int, ...]) -> str:
    raw = b"".join((word & 0xFFFFFFFF).to_bytes(4, "little") for word in words)
    return raw.split(b"\0", 1)[0].decode("ascii", "replace").strip()


def _number(text: str) -> int:
    if text.lower().startswith("0x"):
        try:
            return int(text, 16)
        except ValueError:
            return 0
    return to_int(text) or 0
