"""x86 cores by vendor, family and model: name and rates, one row a core.

A rate of 0 was not found anywhere, or there are no vectors of that width; then the constants of
``algorithms/core_model.py`` apply.  Sources, by column:

numbers
    Linux, asm/intel-family.h and kernel/cpu/amd.c of x86.  Names of products are not from there.
    Family 6, model 0x55 is Skylake, Cascade Lake or Cooper Lake, which /proc/cpuinfo tells apart by
    the stepping, and which the second digit of a product's number tells, too.
fma, latency
    Scheduling models of LLVM (haswell to icelake-server, znver1 to 3) and OSACA's machine files
    (icx, spr, zen4, zen5); FMAs of Zen 1 and of clients' AVX-512 by Agner Fog, *Instruction
    tables*.  Mobile Zen 5 does no more 512-bit operations than Zen 4 (D. Huang on Strix Point, as
    reported).  Gracemont's pipes have 128 bits (hwcooling.net).  Golden Cove of clients has its
    AVX-512 switched off.
unchecked
    Common knowledge of product lists that was not looked up: that Skylake and Cascade Lake Xeons of
    the series Bronze, Silver and Gold 5000 have one 512-bit unit, but for the 5122 and 5222; L2 of
    Raptor Cove; L3 of Emerald and Granite Rapids, and of compact and mobile Zen.
loads, stores
    The same models; stores of Ice Lake, Golden Cove and Zen 5 by OSACA, whose two 256-bit stores a
    cycle have to meet in a line.
l1d, ways, l2, l3_share
    As such machines report them; AnandTech on Skylake-SP and Ice Lake.
    Where cores share an L3 as a whole (Zen), the share is that of one among all; elsewhere it is
    the slice beside a core.
l2_read, l2_write, l3_read, memory
    Rates that one core reached with streaming loads, in bytes a cycle.  Haswell to Cascade Lake,
    Zen 1 and 2: kerncraft's machine files (E5-2695 v3, E5-2697 v4, Gold 6148, Gold 6248, EPYC 7451,
    EPYC 7452; "load", and for writes "update" less the time of its reads) at the clocks they name.
    What Zen 4 writes to its L2: AIDA64 on a Ryzen 7600X at its turbo.
    Memory is nominal: it depends on the machine more than on the core.
masked256, masked512
    Cycles of a store under a mask, ``vmaskmovps`` of 256 bits and AVX-512's of 512.  Haswell:
    measured by lemaitre for WebAssembly's flexible vectors; all others: LLVM (AlderlakeP and Znver4
    in its llvm-mca tests).  Its figures of Zen 3 stand for Zen 4 and 5 too, which measurement
    contradicts: a store under AVX-512's masks costs what any other does there, and on Zen 5
    ``vmaskmovps`` as well.
split
    Cycles of a 256-bit store, of 512 bits on Zen 4, that crosses cache lines: AIDA64's tables of
    unaligned VMOVUPS; that of Haswell agrees with A. Ertl, *Cost of unaligned stores*.
page
    Cycles of a store that crosses pages: known only for measured cores. A store counts as crossing
    even if its mask leaves out all elements on the second page.
taken
    Cycles to get a cache line that another core has written: half of the loss of a team of two for
    each line that both threads store into, as its neighbour comes along, from differences between
    candidates in this project's corpora.
words, pairs, bf16
    Ports of the instructions by Agner Fog's tables and uops.info, as the larger share of one
    port; words measured on Zen 3 (2.0), Skylake (1.5), pairs there too (1.0 and 1.0), words of 512
    bits on Zen 4, in Winograd's products (0.8), and of bf16 on Zen 4 and Granite Rapids, whose rate
    stands for Sapphire and Emerald Rapids too. Of Zen 5 nothing was found: words as its FMAs, pairs
    half of that, as they take two multiplications.
moves
    Ports by the same tables: Intel's second FMA of 512 bits has the port that moves lanes. Measured
    on Zen 5, which starts 36 FMAs and 8 moves in the time of the FMAs. That of Zen 4 is not.
measured
    Measured by this project, on the date that the row has: of Zen 3 fma, l2, l3, memory, masked and
    split, of Zen 4 fma, the loads, stores and split of 512 bits, l2_read, l3, memory, masked and
    page, of Zen 5 fma, l2, l3, memory, masked, split and page, of Granite Rapids fma, l2, l3,
    memory, masked, split and page, each on a virtual machine of 2 cores whose neighbours are not
    known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .._records import NamedTuple


class X86Core(NamedTuple):
    """Properties of a core that no CPU reports; 0 if unknown.

    Parameters
    ----------
    name : str
        Name for people.
    fma256, fma512 : int
        FMAs of such vectors that start in a cycle.
    latency : int
        Cycles from one FMA to the next into the same accumulator.
    loads256, loads512, stores256, stores512 : float
        Loads and stores of such vectors, in L1, that start in a cycle.
    l1d, ways, l2 : int
        KiB of the level-1 data cache, its ways, and KiB of the level-2 cache.
    l3_share : int
        KiB of the level-3 cache for each core of those that share it.
    l2_read, l2_write, l3_read, memory : float
        Bytes a cycle that one core streams from (to) there.
    masked256, masked512 : float
        Cycles of a store under a mask.
    split, page : float
        Cycles of a store across lines, and across pages.
    taken : float
        Cycles to get a cache line that another core has written.
    words256, words512 : float
        ``vpmaddwd`` with the ``vpaddd`` of its product, of such vectors, that start in a cycle.
    pairs256, pairs512 : float
        ``vpmaddubsw`` with the ``vpmaddwd`` that adds up its lanes and the ``vpaddd`` of those.
    bf16 : float
        ``vdpbf16ps`` of 512 bits that start in a cycle.
    moves : bool
        Whether ``valignd`` of 512 bits has a port that no FMA of 512 bits needs.
    measured : str
        When this project measured the core; "" if it has not.
    """

    name: str
    fma256: int
    fma512: int
    latency: int
    loads256: float
    loads512: float
    stores256: float
    stores512: float
    l1d: int
    ways: int
    l2: int
    l3_share: int
    l2_read: float = 0.0
    l2_write: float = 0.0
    l3_read: float = 0.0
    memory: float = 0.0
    masked256: float = 0.0
    masked512: float = 0.0
    split: float = 0.0
    page: float = 0.0
    taken: float = 0.0
    words256: float = 0.0
    words512: float = 0.0
    pairs256: float = 0.0
    pairs512: float = 0.0
    bf16: float = 0.0
    moves: bool = False
    measured: str = ""

    @property
    def isa(self) -> str:
        """Highest instruction set that the core has, of those with kernels."""
        return "avx512" if self.fma512 else "avx2"


class Found(NamedTuple):
    """A row, and how it was found.

    Parameters
    ----------
    core : X86Core
        The row.
    products : str
        Products that have the core; "" if unknown.
    exact : bool
        Whether the row is this core's own, not that of the most similar core.
    small : X86Core or None
        The efficiency cores beside it.
    """

    core: X86Core
    products: str = ""
    exact: bool = True
    small: X86Core | None = None

    def __str__(self) -> str:
        """Name the core in half a line."""
        if not self.exact:
            return f"unknown core; rates of {self.core.name}, the nearest by features"
        name = f"{self.core.name} ({self.products})" if self.products else self.core.name
        return f"{name}, efficiency cores {self.small.name}" if self.small else name


# fmt: off
#                                 fma     lat loads   stores    L1d ways    L2  L3
_HASWELL = X86Core("Haswell",     2, 0, 5, 2, 0, 1, 0, 32, 8, 256, 2560,
                   25.2, 16.1, 10.0, 3.9, 1.5, 0, 3, words256=1,
                   pairs256=0.5)
_BROADWELL = X86Core("Broadwell", 2, 0, 5, 2, 0, 1, 0, 32, 8, 256, 2560,
                     25.3, 16.1, 12.5, 4.9, 1.0, 0, 3, words256=1,
                     pairs256=0.5)
_SKYLAKE = X86Core("Skylake client", 2, 0, 4, 2, 0, 1, 0, 32, 8, 256, 2048,
                   masked256=1.0, split=2, words256=1.5, pairs256=1)
_CANNON_LAKE = _SKYLAKE._replace(name="Cannon Lake", fma512=1, loads512=2, stores512=1,
                                 masked512=1.0, words512=1, pairs512=0.5, moves=True)
_SKYLAKE_X = X86Core("Skylake server", 2, 2, 4, 2, 2, 1, 1, 32, 8, 1024, 1408,
                     46.2, 30.8, 10.2, 6.0, 1.0, 1.0, 2, words256=1.5, words512=1, pairs256=1,
                     pairs512=0.67)
_CASCADE_LAKE = X86Core("Cascade Lake", 2, 2, 4, 2, 2, 1, 1, 32, 8, 1024, 1408,
                        44.4, 31.4, 9.6, 5.2, 1.0, 1.0, 2, words256=1.5, words512=1, pairs256=1,
                        pairs512=0.67)
_ICE_LAKE = X86Core("Ice Lake client", 2, 1, 4, 2, 2, 2, 1, 48, 12, 512, 2048,
                    masked256=1.0, masked512=1.0, split=2, words256=1.5, words512=1,
                    pairs256=1, pairs512=0.5, moves=True)
_TIGER_LAKE = _ICE_LAKE._replace(name="Tiger Lake", l2=1280, l3_share=3072)
_ROCKET_LAKE = _ICE_LAKE._replace(name="Rocket Lake")
_ICE_LAKE_X = _ICE_LAKE._replace(name="Ice Lake server", fma512=2, l2=1280, l3_share=1536,
                                 pairs512=0.67, moves=False)
_SAPPHIRE = X86Core("Sapphire Rapids", 2, 2, 4, 3, 2, 2, 1, 48, 12, 2048, 1920,
                    masked256=1.0, split=2, words256=1.5, words512=1, pairs256=1,
                    pairs512=0.67, bf16=0.5)
_EMERALD = _SAPPHIRE._replace(name="Emerald Rapids", l3_share=5120)
_GRANITE = _SAPPHIRE._replace(name="Granite Rapids", l3_share=4032, l2_read=47, l2_write=16,
                              l3_read=8.4, memory=4.3, masked512=1.0, page=24, taken=120,
                              measured="2026-11-23")
_GOLDEN = X86Core("Golden Cove", 2, 0, 4, 3, 0, 2, 0, 48, 12, 1280, 3072, masked256=1.0, split=2,
                  words256=1.5, pairs256=1)
_RAPTOR = _GOLDEN._replace(name="Raptor Cove", l2=2048)
_GRACEMONT = X86Core("Gracemont", 1, 0, 0, 1, 0, 1, 0, 32, 8, 2048, 768)
_ZEN = X86Core("Zen 1", 1, 0, 5, 1, 0, 0.5, 0, 32, 8, 512, 2048, 30.9, 0, 21.8, 9.4, split=4,
               words256=0.5, pairs256=0.25)
_ZEN2 = X86Core("Zen 2", 2, 0, 5, 2, 0, 1, 0, 32, 8, 512, 4096, 31.8, 0, 23.0, 9.3, split=2,
                words256=1, pairs256=0.5)
_ZEN3 = X86Core("Zen 3", 2, 0, 4, 2, 0, 1, 0, 32, 8, 512, 4096,
                28, 26, 20, 5, 15, 0, 1, words256=2, pairs256=1, measured="2026-11-22")
_ZEN4 = X86Core("Zen 4", 2, 1, 4, 2, 1, 1, 0.5, 32, 8, 1024, 4096,
                32, 32, 27, 8.6, 12, 2, 2.1, 34, 100, words256=2, words512=0.8, pairs256=1,
                pairs512=0.5, bf16=1, moves=True, measured="2026-11-23")
_ZEN4C = _ZEN4._replace(name="Zen 4c", l3_share=2048, measured="")
_ZEN5 = X86Core("Zen 5", 2, 2, 4, 2, 2, 2, 1, 48, 12, 1024, 4096,
                60, 60, 27, 9.5, 1.0, 1.0, 1.4, 23, 20, words256=2, words512=2, pairs256=1,
                pairs512=1, bf16=2, moves=True, measured="2026-11-23")
_ZEN5C = _ZEN5._replace(name="Zen 5c", l3_share=2048, measured="")
_ZEN5_MOBILE = _ZEN5._replace(name="Zen 5 mobile", fma512=1, loads512=0, stores512=0, l2_read=0,
                              l2_write=0, l3_share=2048, masked512=0, words512=1, pairs512=0.5,
                              bf16=1, measured="")
# fmt: on


class _Range(NamedTuple):
    """Models, first to last, of one family that have the same core."""

    vendor: str
    family: int
    first: int
    last: int
    core: X86Core
    products: str = ""
    small: X86Core | None = None
    brand: str = ""  # pattern that the CPU's name has to have

    def fits(self, vendor: str, family: int, model: int, brand: str) -> bool:
        """Whether a CPU is among them."""
        same = (self.vendor, self.family) == (vendor, family) and self.first <= model <= self.last
        return same and bool(re.search(self.brand, brand, re.IGNORECASE))


def _intel(core: X86Core, products: str, *models: int, small: X86Core | None = None,
           brand: str = "") -> Iterator[_Range]:  # fmt: skip
    for model in models:
        yield _Range("GenuineIntel", 6, model, model, core, products, small, brand)


def _one_unit(core: X86Core) -> X86Core:
    """A server core with one 512-bit FMA unit, the fused ports 0 and 1."""
    name = f"{core.name} with one 512-bit FMA unit"
    return core._replace(name=name, fma512=1, pairs512=0.5, moves=True)


_ZN, _HYGON = "AuthenticAMD", "HygonGenuine"

# The first range that fits counts, so ranges with a pattern come before ranges without. Variants of
# a core come before it, so that `nearest` takes the core itself as the newest.
_RANGES = (
    *_intel(_HASWELL, "4th Core", 0x3C, 0x45, 0x46),
    *_intel(_HASWELL, "Xeon E v3", 0x3F),
    *_intel(_BROADWELL, "5th Core", 0x3D, 0x47),
    *_intel(_BROADWELL, "Xeon E v4", 0x4F),
    *_intel(_BROADWELL, "Xeon D-1500", 0x56),
    *_intel(_SKYLAKE, "6th Core", 0x4E, 0x5E),
    *_intel(_SKYLAKE, "7th to 10th Core", 0x8E, 0x9E),
    *_intel(_SKYLAKE, "10th Core", 0xA5, 0xA6),
    *_intel(
        _one_unit(_CASCADE_LAKE), "2nd Xeon Scalable", 0x55,
        brand=r"Bronze 32\d\d|Silver 42\d\d|Gold 52(?!22)\d\d",
    ),
    *_intel(
        _one_unit(_SKYLAKE_X), "Xeon Scalable", 0x55,
        brand=r"Bronze 31\d\d|Silver 41\d\d|Gold 51(?!22)\d\d",
    ),
    *_intel(
        _CASCADE_LAKE, "2nd Xeon Scalable", 0x55,
        brand=r"(Gold|Platinum) [5-9]2\d\d|W-[23]2\d\d|i9-109\d\dX|Cascade ?lake",
    ),
    *_intel(
        _CASCADE_LAKE._replace(name="Cooper Lake"), "3rd Xeon Scalable", 0x55,
        brand=r"(Gold|Platinum) [5-9]3\d\d|Cooper ?lake",
    ),
    *_intel(_SKYLAKE_X, "Xeon Scalable", 0x55),
    *_intel(_CANNON_LAKE, "8th Core", 0x66),
    *_intel(_ICE_LAKE, "10th Core", 0x7D, 0x7E),
    *_intel(_TIGER_LAKE, "11th Core", 0x8C, 0x8D),
    *_intel(_ROCKET_LAKE, "11th Core", 0xA7),
    *_intel(_ICE_LAKE_X, "3rd Xeon Scalable", 0x6A),
    *_intel(_ICE_LAKE_X, "Xeon D-1700 and D-2700", 0x6C),
    *_intel(_SAPPHIRE, "4th Xeon Scalable", 0x8F),
    *_intel(_EMERALD, "5th Xeon Scalable", 0xCF),
    *_intel(_GRANITE, "Xeon 6", 0xAD, 0xAE),
    *_intel(_GOLDEN, "12th Core", 0x97, 0x9A, small=_GRACEMONT),
    *_intel(_RAPTOR, "13th and 14th Core", 0xB7, 0xBA, 0xBF, small=_GRACEMONT),
    *_intel(_GRACEMONT, "N-series", 0xBE),
    _Range(_ZN, 0x17, 0x00, 0x0F, _ZEN, "EPYC 7001, Ryzen 1000 and 2000"),
    _Range(_ZN, 0x17, 0x10, 0x2F, _ZEN, "Ryzen 2000 and 3000 with graphics"),
    _Range(_ZN, 0x17, 0x30, 0x3F, _ZEN2, "EPYC 7002"),
    _Range(_ZN, 0x17, 0x40, 0x4F, _ZEN2),
    _Range(_ZN, 0x17, 0x60, 0x6F, _ZEN2, "Ryzen 4000 and 5000 with graphics"),
    _Range(_ZN, 0x17, 0x70, 0x7F, _ZEN2, "Ryzen 3000"),
    _Range(_ZN, 0x17, 0x90, 0x91, _ZEN2),
    _Range(_ZN, 0x17, 0xA0, 0xAF, _ZEN2, "Ryzen 7020"),
    _Range(_ZN, 0x19, 0x00, 0x07, _ZEN3, "EPYC 7003"),
    _Range(_ZN, 0x19, 0x08, 0x0F, _ZEN3, "Threadripper 5000"),
    _Range(_ZN, 0x19, 0x20, 0x2F, _ZEN3, "Ryzen 5000"),
    _Range(_ZN, 0x19, 0x30, 0x3F, _ZEN3),
    _Range(_ZN, 0x19, 0x40, 0x4F, _ZEN3, "Ryzen 6000"),
    _Range(_ZN, 0x19, 0x50, 0x5F, _ZEN3, "Ryzen 5000 with graphics"),
    _Range(_ZN, 0x19, 0xA0, 0xAF, _ZEN4C, "EPYC 9704 and 8004"),
    _Range(_ZN, 0x19, 0x10, 0x17, _ZEN4, "EPYC 9004"),
    _Range(_ZN, 0x19, 0x18, 0x1F, _ZEN4, "Threadripper 7000"),
    _Range(_ZN, 0x19, 0x60, 0x6F, _ZEN4, "Ryzen 7000"),
    _Range(_ZN, 0x19, 0x70, 0x7F, _ZEN4, "Ryzen 7040 and 8040"),
    _Range(_ZN, 0x19, 0x80, 0x9F, _ZEN4),
    _Range(_ZN, 0x19, 0xB0, 0xFF, _ZEN4),
    _Range(_ZN, 0x1A, 0x20, 0x2F, _ZEN5_MOBILE, "Ryzen AI 300"),
    _Range(_ZN, 0x1A, 0x60, 0x6F, _ZEN5_MOBILE, "Ryzen AI 300"),
    _Range(_ZN, 0x1A, 0x10, 0x1F, _ZEN5C, "EPYC 9005"),
    _Range(_ZN, 0x1A, 0x00, 0x07, _ZEN5, "EPYC 9005"),
    _Range(_ZN, 0x1A, 0x08, 0x0F, _ZEN5, "Threadripper 9000"),
    _Range(_ZN, 0x1A, 0x40, 0x4F, _ZEN5, "Ryzen 9000"),
    _Range(_ZN, 0x1A, 0x70, 0x7F, _ZEN5, "Ryzen AI Max"),
    _Range(_HYGON, 0x18, 0x00, 0xFF, _ZEN, "Hygon C86"),
)  # fmt: skip

CORES = tuple(dict.fromkeys(each.core for each in _RANGES))
"""Every row once; of one maker the older ones first."""


def cores_of(vendor: str) -> tuple[X86Core, ...]:
    """Rows of one maker, older ones first."""
    return tuple(dict.fromkeys(each.core for each in _RANGES if each.vendor == vendor))


def find(vendor: str, family: int, model: int, brand: str = "") -> Found | None:
    """Row of a CPU's core; None if there is none.

    Parameters
    ----------
    vendor, brand : str
        As CPUID and ``/proc/cpuinfo`` say them (``vendor_id``, ``model name``).
    family, model : int
        With their extensions added in.

    Returns
    -------
    Found or None
    """
    for each in _RANGES:
        if each.fits(vendor, family, model, brand):
            return Found(each.core, each.products, True, each.small)
    return None
