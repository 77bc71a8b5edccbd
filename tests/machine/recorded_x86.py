"""x86 CPUs as their CPUID instruction and XCR0 show them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Registers = tuple[int, int, int, int]


@dataclass
class FakeCpu:
    """A CPU as its CPUID instruction and XCR0 show it."""

    vendor: str
    signature: int  # leaf 1, EAX
    features1: int = 0  # leaf 1, ECX
    features7: int = 0  # leaf 7, EBX
    features7c: int = 0  # ECX
    features7d: int = 0  # EDX
    features7_1: tuple[int, int] | None = None  # subleaf 1, EAX and EDX; None: no such subleaf
    tiles: tuple[int, int, int] = (0, 0, 0)  # leaf 0x1D, subleaf 1, EAX, EBX, ECX
    xcr0: int | None = None
    brand: str = ""
    last: int = 0x16
    last_extended: int = 0x80000008
    caches: dict[int, list[Registers]] = field(default_factory=dict)
    xgetbv_calls: int = 0

    def cpuid(self, leaf: int, subleaf: int) -> Registers:
        basic = leaf < 0x80000000
        if basic and leaf > self.last:
            return (0xDEADBEEF,) * 4  # like Intel: values of another leaf
        if not basic and leaf > self.last_extended:
            return (0xDEADBEEF,) * 4
        if leaf == 0:
            b, d, c = _words(self.vendor, 12)
            return self.last, b, c, d
        if leaf == 0x80000000:
            return self.last_extended, 0, 0, 0
        if leaf == 1:
            return self.signature, 0, self.features1, 0
        if leaf == 7 and subleaf == 0:
            subleaves = int(self.features7_1 is not None)
            return subleaves, self.features7, self.features7c, self.features7d
        if leaf == 7 and subleaf == 1:
            # Beyond the last subleaf an answer would mean nothing.
            eax, edx = self.features7_1 or (0xDEADBEEF, 0xDEADBEEF)
            return eax, 0, 0, edx
        if leaf == 0x1D:
            return (int(any(self.tiles)), 0, 0, 0) if subleaf == 0 else (*self.tiles, 0)
        if 0x80000002 <= leaf <= 0x80000004:
            part = _words(self.brand, 48)[(leaf - 0x80000002) * 4 :][:4]
            return part[0], part[1], part[2], part[3]
        rows = self.caches.get(leaf, [])
        return rows[subleaf] if subleaf < len(rows) else (0, 0, 0, 0)

    def xgetbv(self, index: int) -> int | None:
        assert index == 0
        self.xgetbv_calls += 1
        return self.xcr0


Cpus = Callable[..., FakeCpu]
"""What the fixture `fake_cpu` is: it builds a CPU by name, some of its registers changed."""


def _words(text: str, length: int) -> list[int]:
    raw = text.encode().ljust(length, b"\0")
    return [int.from_bytes(raw[i : i + 4], "little") for i in range(0, length, 4)]


SAPPHIRE_RAPIDS = {
    (0, 0): (0x20, 0x756E6547, 0x6C65746E, 0x49656E69),
    (1, 0): (0x806F8, 0, 1 << 12 | 1 << 27 | 1 << 28 | 1 << 29, 0),
    # EDX has more bits than are asked for.
    (7, 0): (2, 0xF1BF07AB, 0x1B415F6E, 0xBFC14410 | 1 << 22 | 1 << 24 | 1 << 25),
    (0x1D, 0): (1, 0, 0, 0),
    (0x1D, 1): (8192 | 1024 << 16, 64 | 8 << 16, 16, 0),
}
"""Its answers by leaf and subleaf; others are zero."""

FMA, OSXSAVE, AVX, F16C = 1 << 12, 1 << 27, 1 << 28, 1 << 29
AVX2, BMI2 = 1 << 5, 1 << 8
AVX512F, AVX512DQ, AVX512BW, AVX512VL = 1 << 16, 1 << 17, 1 << 30, 1 << 31
AVX512 = AVX512F | AVX512DQ | AVX512BW | AVX512VL
AVX512_VNNI = 1 << 11
AMX_BF16, AMX_TILE, AMX_INT8 = 1 << 22, 1 << 24, 1 << 25
AVX_VNNI, AVX512_BF16, AVX_VNNI_INT8 = 1 << 4, 1 << 5, 1 << 4

NARROW = {"features1": FMA | OSXSAVE | AVX | F16C, "features7": AVX2 | BMI2, "xcr0": 0x207}
WIDE = {**NARROW, "features7": AVX2 | BMI2 | AVX512, "xcr0": 0x2E7}

CPUS: dict[str, dict[str, object]] = {
    "zen4": {
        **WIDE,
        "vendor": "AuthenticAMD",
        "signature": 0x00A10F11,
        "brand": "AMD EPYC 9654 96-Core Processor                ",
    },
    "genoa": {  # Zen 4 with its narrow products
        **WIDE,
        "vendor": "AuthenticAMD",
        "signature": 0x00A10F11,
        "features7c": AVX512_VNNI,
        "features7_1": (AVX512_BF16, 0),
    },
    "granite_rapids": {
        "vendor": "GenuineIntel",
        **WIDE,
        "signature": 0x000A06D1,
        "features7c": AVX512_VNNI,
        "features7d": AMX_BF16 | AMX_TILE | AMX_INT8,
        "features7_1": (AVX_VNNI | AVX512_BF16, 0),
        "xcr0": 0x602E7,
        "last": 0x20,
        "tiles": (1024 << 16 | 8192, 8 << 16 | 64, 16),
    },
    "ice_lake": {
        "vendor": "GenuineIntel",
        **WIDE,
        "signature": 0x000606A6,
        "features7c": AVX512_VNNI,
        "last": 0x1B,
    },
    "alder_lake": {
        "vendor": "GenuineIntel",
        **NARROW,
        "signature": 0x00090672,
        "features7_1": (AVX_VNNI, 0),
        "last": 0x20,
    },
    "sierra_forest": {
        "vendor": "GenuineIntel",
        **NARROW,
        "signature": 0x000A06F3,
        "features7_1": (AVX_VNNI, AVX_VNNI_INT8),
        "last": 0x24,
    },
    "skylake_x": {
        "vendor": "GenuineIntel",
        **WIDE,
        "signature": 0x00050654,
        "xcr0": 0x2FF,
        "brand": "   Intel(R) Xeon(R) Platinum 8180 CPU @ 2.50GHz",
    },
    "haswell": {
        "vendor": "GenuineIntel",
        **NARROW,
        "signature": 0x000306C3,
        "xcr0": 0x7,
        "brand": "Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz",
        "last": 0xD,
    },
    "sandy_bridge": {
        "vendor": "GenuineIntel",
        "signature": 0x000206A7,
        "features1": OSXSAVE | AVX,
        "features7": 0,
        "xcr0": 0x7,
        "brand": "Intel(R) Core(TM) i7-2600 CPU @ 3.40GHz",
        "last": 0xD,
    },
    "core2": {  # no XSAVE, and its last leaf lies below 7
        "vendor": "GenuineIntel",
        "signature": 0x000006F6,
        "features1": 0,
        "xcr0": None,
        "brand": "Intel(R) Core(TM)2 CPU 6600 @ 2.40GHz",
        "last": 0x2,
    },
}
