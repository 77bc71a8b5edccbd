"""x86 CPUs as their CPUID instruction and XCR0 show them."""

from __future__ import annotations

from dataclasses import dataclass, field

Registers = tuple[int, int, int, int]


@dataclass
class FakeCpu:
    """A CPU as its CPUID instruction and XCR0 show it."""

    vendor: str
    signature: int  # leaf 1, EAX
    features1: int = 0  # leaf 1, ECX
    features7: int = 0  # leaf 7, EBX
    xcr0: int | None = None
    brand: str = ""
    last: int = 0x16
    last_extended: int = 0x80000008
    caches: dict[int, list[Registers]] = field(default_factory=dict)
    xgetbv_calls: int = 0

    def cpuid(self, leaf: int, subleaf: int) -> Registers:
        basic = leaf < 0x80000000
        if basic and leaf > self.last:
            return (0xDEADBEEF,) * 4  # as Intel does: something that belongs to another leaf
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
            return 0, self.features7, 0, 0
        if 0x80000002 <= leaf <= 0x80000004:
            part = _words(self.brand, 48)[(leaf - 0x80000002) * 4 :][:4]
            return part[0], part[1], part[2], part[3]
        rows = self.caches.get(leaf, [])
        return rows[subleaf] if subleaf < len(rows) else (0, 0, 0, 0)

    def xgetbv(self, index: int) -> int | None:
        assert index == 0
        self.xgetbv_calls += 1
        return self.xcr0


def _words(text: str, length: int) -> list[int]:
    raw = text.encode().ljust(length, b"\0")
    return [int.from_bytes(raw[i : i + 4], "little") for i in range(0, length, 4)]


FMA, OSXSAVE, AVX, F16C = 1 << 12, 1 << 27, 1 << 28, 1 << 29
AVX2, BMI2 = 1 << 5, 1 << 8
AVX512F, AVX512DQ, AVX512BW, AVX512VL = 1 << 16, 1 << 17, 1 << 30, 1 << 31
AVX512 = AVX512F | AVX512DQ | AVX512BW | AVX512VL

CPUS: dict[str, dict[str, object]] = {
    "zen4": {
        "vendor": "AuthenticAMD",
        "signature": 0x00A10F11,
        "features1": FMA | OSXSAVE | AVX | F16C,
        "features7": AVX2 | BMI2 | AVX512,
        "xcr0": 0x2E7,
        "brand": "AMD EPYC 9654 96-Core Processor                ",
    },
    "skylake_x": {
        "vendor": "GenuineIntel",
        "signature": 0x00050654,
        "features1": FMA | OSXSAVE | AVX | F16C,
        "features7": AVX2 | BMI2 | AVX512,
        "xcr0": 0x2FF,
        "brand": "   Intel(R) Xeon(R) Platinum 8180 CPU @ 2.50GHz",
    },
    "haswell": {
        "vendor": "GenuineIntel",
        "signature": 0x000306C3,
        "features1": FMA | OSXSAVE | AVX | F16C,
        "features7": AVX2 | BMI2,
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
