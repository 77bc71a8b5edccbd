"""Arm cores by their MIDR: name, rates and caches, one row a core.

Nothing here was measured by this project.  Sources, by column:

names and numbers
    Linux, asm/cputype.h of arm64 and arm; util-linux, lscpu-arm.c.
core, latencies
    Arm's software optimization guides (rows "ASIMD FP multiply accumulate, Q-form", the accumulate
    latency in parentheses, and "Load vector reg"); for cores of other makers Fujitsu's *A64FX
    Microarchitecture Manual*, Dougall Johnson's *Apple M1 Firestorm Microarchitecture*, and the
    scheduling models of LLVM (tsv110, thunderx2t99, exynos-m3 to m5, falkor, kryo, ampere1).
    tsv110's latency is what the OpenPPL Arm Server slides state.
products of narrow types
    The same models, read by llvm-mca 19: SDOT, BFDOT, SMMLA, USMMLA and BFMMLA start as often as
    FMAs on neoverse-n2, -v1, -v2, -n3 and cortex-a510 (SDOT also on tsv110 and neoverse-n1), the
    last three half as often on ampere1; SMLAL and SMLAL2 half as often, on a64fx as often.
caches
    Technical reference manuals of the cores, which allow several sizes for most caches: a row has
    the size in a well-known product, or the smaller one if products differ. sysfs comes first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from . import midr as registers
from .machine import CacheLevel

IMPLEMENTERS = {
    0x41: "ARM",
    0x42: "Broadcom",
    0x43: "Cavium",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x50: "APM",
    0x51: "Qualcomm",
    0x53: "Samsung",
    0x56: "Marvell",
    0x61: "Apple",
    0x69: "Intel",
    0x6D: "Microsoft",
    0x70: "Phytium",
    0xC0: "Ampere",
}


@dataclass(frozen=True, slots=True)
class ArmCore:
    """Properties of a core that the planner needs and that no system reports.

    Parameters
    ----------
    name : str
        Name for people.
    fma : int
        FMAs of 128-bit vectors that start in a cycle.
    latency : int
        Cycles from one FMA to the next into the same accumulator.
    loads : float
        Loads of 128-bit vectors that start in a cycle.
    l1d, l2, l3 : int
        KiB of the level-1 data, level-2 and level-3 caches; 0 where there is none, or not known.
    l2_cpus : int
        CPUs that share an L2; an L3 is shared by all.
    line : int
        Cache line in bytes.
    v8_2 : bool
        Whether the core is of ARMv8.2 or later: no earlier one has a vector extension.
    in_order : bool
        Whether instructions execute in the order of the program.
    smlal : float
        SMLAL that start in a cycle, see `smlal_rate`; 0: as many as on most cores.
    matrix : float
        SMMLA or BFMMLA that start in a cycle; 0: as many as FMAs, or none at all.
    """

    name: str
    fma: int = 2
    latency: int = 4
    loads: float = 2.0
    l1d: int = 0
    l2: int = 0
    l3: int = 0
    l2_cpus: int = 1
    line: int = 64
    v8_2: bool = True
    in_order: bool = False
    smlal: float = 0
    matrix: float = 0

    @property
    def smlal_rate(self) -> float:
        """Long products of four halves that start in a cycle, half as many as FMAs mostly."""
        return self.smlal or max(1, self.fma // 2)

    def caches(self, online: int) -> dict[int, CacheLevel]:
        """Caches by level, on a machine with so many CPUs online."""
        found = {
            1: CacheLevel(self.l1d << 10),
            2: CacheLevel(self.l2 << 10, min(self.l2_cpus, max(online, 1))),
            3: CacheLevel(self.l3 << 10, max(online, 1)),
        }
        return {level: cache for level, cache in found.items() if cache.bytes}


# fmt: off Cores of ARMv7, and one of ARMv8 without AArch64. The smallest do less than one FMA a
# cycle.
_V7_IN_ORDER = ArmCore("", 1, 8, 0.5, 32, 512, l2_cpus=4, v8_2=False, in_order=True)
_V7 = ArmCore("", 1, 8, 1, 32, 1024, l2_cpus=4, v8_2=False)
_A53 = ArmCore("Cortex-A53", 1, 4, 0.5, 32, 512, l2_cpus=4, v8_2=False, in_order=True)
_A55 = ArmCore("Cortex-A55", 1, 4, 0.5, 32, 128, in_order=True)
_A73 = ArmCore("Cortex-A73", 1, 4, 1, 32, 1024, l2_cpus=4, v8_2=False)
_A75 = ArmCore("Cortex-A75", 1, 4, 1, 64, 256, 1024)
_A76 = ArmCore("Cortex-A76", 2, 2, 2, 64, 512, 2048)
_A77 = ArmCore("Cortex-A77", 2, 2, 2, 64, 512, 4096)
_X1 = ArmCore("Cortex-X1", 4, 2, 2, 64, 1024, 4096)
_N2 = ArmCore("Neoverse-N2", 2, 2, 2, 64, 1024, 32768)
_FIRE = ArmCore("Firestorm", 4, 4, 3, 128, 12288, l2_cpus=4, line=128)
_ICE = ArmCore("Icestorm", 2, 4, 2, 64, 4096, l2_cpus=4, line=128)
_AVALANCHE = ArmCore("Avalanche", 4, 4, 3, 128, 16384, l2_cpus=4, line=128)
_BLIZZARD = ArmCore("Blizzard", 2, 4, 2, 64, 4096, l2_cpus=4, line=128)

_CORES = {
    0x41: {  # ARM
        0xC05: replace(_V7_IN_ORDER, name="Cortex-A5", line=32),
        0xC07: replace(_V7_IN_ORDER, name="Cortex-A7"),
        0xC08: replace(_V7_IN_ORDER, name="Cortex-A8", l2=256, l2_cpus=1),
        0xC09: replace(_V7, name="Cortex-A9", line=32),
        0xC0D: replace(_V7, name="Cortex-A12"),
        0xC0E: replace(_V7, name="Cortex-A17"),
        0xC0F: replace(_V7, name="Cortex-A15"),
        0xD01: replace(_V7_IN_ORDER, name="Cortex-A32"),
        0xD03: _A53,
        0xD04: ArmCore("Cortex-A35", 1, 4, 0.5, 32, 512, l2_cpus=4, v8_2=False, in_order=True),
        0xD05: _A55,
        0xD07: ArmCore("Cortex-A57", 1, 4, 1, 32, 2048, l2_cpus=4, v8_2=False),
        0xD08: ArmCore("Cortex-A72", 1, 3, 1, 32, 1024, l2_cpus=4, v8_2=False),
        0xD09: _A73,
        0xD0A: _A75,
        0xD0B: _A76,
        0xD0C: ArmCore("Neoverse-N1", 2, 2, 2, 64, 1024, 32768),
        0xD0D: _A77,
        0xD0E: ArmCore("Cortex-A76AE", 2, 2, 2, 64, 512, 2048),
        0xD40: ArmCore("Neoverse-V1", 4, 2, 2, 64, 1024, 32768),
        0xD41: ArmCore("Cortex-A78", 2, 2, 2, 64, 512, 4096),
        0xD42: ArmCore("Cortex-A78AE", 2, 2, 2, 64, 256, 2048),
        0xD44: _X1,
        0xD46: ArmCore("Cortex-A510", 1, 4, 1, 32, 128, l2_cpus=2, in_order=True),
        0xD47: ArmCore("Cortex-A710", 2, 2, 2, 64, 512, 4096),
        0xD48: ArmCore("Cortex-X2", 4, 2, 2, 64, 1024, 4096),
        0xD49: _N2,
        0xD4B: ArmCore("Cortex-A78C", 2, 2, 2, 64, 512, 4096),
        0xD4C: ArmCore("Cortex-X1C", 4, 2, 2, 64, 1024, 4096),
        0xD4D: ArmCore("Cortex-A715", 2, 2, 2, 64, 512, 4096),
        0xD4E: ArmCore("Cortex-X3", 4, 2, 2, 64, 1024, 4096),
        0xD4F: ArmCore("Neoverse-V2", 4, 2, 2, 64, 1024, 36864),
        0xD80: ArmCore("Cortex-A520", 1, 4, 1, 32, 128, l2_cpus=2, in_order=True),
        0xD81: ArmCore("Cortex-A720", 2, 2, 2, 64, 512, 4096),
        0xD82: ArmCore("Cortex-X4", 4, 2, 2, 64, 1024, 4096),
        0xD84: ArmCore("Neoverse-V3", 4, 2, 2, 64, 2048, 32768),
        0xD8E: ArmCore("Neoverse-N3", 2, 2, 2, 64, 1024, 32768),
    },
    0x43: {0x0AF: ArmCore("ThunderX2", 2, 6, 2, 32, 256, 32768, v8_2=False)},
    0x46: {0x001: ArmCore("A64FX", 2, 9, 2, 64, 8192, l2_cpus=12, line=256, smlal=2)},
    0x48: {
        0xD01: ArmCore("Kunpeng 920 (TaiShan v110)", 2, 5, 2, 64, 512, 32768),
        0xD40: _A76,  # of the Kirin 980
    },
    0x4E: {0x004: ArmCore("Carmel", 2, 4, 2, 64, 2048, 4096, l2_cpus=2)},
    0x51: {
        0x201: ArmCore("Kryo", 1, 5, 2, 32, 512, l2_cpus=2, v8_2=False),
        0x205: ArmCore("Kryo", 1, 5, 2, 32, 1024, l2_cpus=2, v8_2=False),
        0x211: ArmCore("Kryo", 1, 5, 2, 32, 512, l2_cpus=2, v8_2=False),
        0x800: _A73,  # Kryo 2XX Gold, and so on: Arm's cores under the licensee's numbers
        0x801: _A53,
        0x802: _A75,
        0x803: _A55,
        0x804: _A76,
        0x805: _A55,
        0xC00: ArmCore("Falkor", 1, 5, 1, 32, 512, 61440, l2_cpus=2, v8_2=False),
    },
    0x53: {
        0x001: ArmCore("Exynos-M1", 1, 5, 1, 32, 2048, l2_cpus=4, v8_2=False),
        0x002: ArmCore("Exynos-M3", 3, 5, 2, 64, 512, 4096, v8_2=False),
        0x003: ArmCore("Exynos-M4", 3, 4, 2, 64, 1024, 3072),
        0x004: ArmCore("Exynos-M5", 3, 4, 2, 64, 2048, 3072, l2_cpus=2),
    },
    0x61: {
        **dict.fromkeys((0x020, 0x022, 0x024, 0x028), _ICE),
        **dict.fromkeys((0x021, 0x023, 0x025, 0x029), _FIRE),
        **dict.fromkeys((0x030, 0x032, 0x034, 0x038), _BLIZZARD),
        **dict.fromkeys((0x031, 0x033, 0x035, 0x039), _AVALANCHE),
    },
    0x6D: {0xD49: ArmCore("Cobalt 100 (Neoverse-N2)", 2, 2, 2, 64, 1024, 32768)},
    0xC0: {0xAC3: ArmCore("Ampere-1", 2, 5, 2, 64, 2048, 65536, matrix=1)},
}
# fmt: on

# Apple's systems report a family, ``hw.cpufamily``, instead of MIDR; the large core represents it.
_APPLE_FAMILIES = {0x1B588BB3: _FIRE, 0xDA33D83D: _AVALANCHE}


def find(midr: int) -> ArmCore:
    """Row of a core; its number and average rates if the table does not have it."""
    maker, number = registers.implementer(midr), registers.part(midr)
    found = _CORES.get(maker, {}).get(number)
    return found or ArmCore(f"part {number:#05x}")


def find_apple(family: int) -> ArmCore | None:
    """Row of the large core of one of Apple's families; None if the table does not have it."""
    return _APPLE_FAMILIES.get(family)


def core_name(midr: int) -> str:
    """Name of a core for people."""
    return find(midr).name


def vendor(midr: int) -> str:
    """Who made a core; ``unknown`` if the code is."""
    return IMPLEMENTERS.get(registers.implementer(midr), "unknown")
