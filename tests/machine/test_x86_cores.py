"""The table of x86 cores: each row plausible, each CPU found, unknown ones told apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pplconv.architecture import LADDERS
from pplconv.machine import Machine, x86_core
from pplconv.machine.x86_cores import CORES, X86Core, find
from pplconv.machine.x86_identity import fma_per_cycle, l3_share, nearest
from tests.machine.recorded_cpuinfo import CPUINFO

KIB, MIB = 1 << 10, 1 << 20
ALL = ("portable", "avx2", "avx512")
HYBRID = Machine(
    arch="x86_64",
    vendor="GenuineIntel",
    family=6,
    model=0x97,
    isas=ALL[:2],
    cores=((0, 1), (2,), (3,)),
    efficiency_cores=(2, 3),
    affinity=(0, 1, 2, 3),
)


def split(head: str) -> tuple[str, int, int, str]:
    vendor, family, model, name = head.split(" ", 3)
    return vendor, int(family), int(model), name


def row(name: str) -> X86Core:
    return next(core for core in CORES if core.name == name)


@pytest.mark.parametrize("core", CORES, ids=lambda core: core.name)
def test_a_row_is_plausible(core: X86Core) -> None:
    assert core.fma256 in (1, 2)
    assert core.fma512 in (0, 1, 2)
    assert core.latency in (0, 4, 5)
    assert core.loads256 in (1, 2, 3)
    assert core.stores256 in (0.5, 1, 2)
    # The halves of a wide vector take no less than two narrow ones that do not share a pipe.
    assert core.loads512 <= core.loads256
    assert core.stores512 <= core.stores256
    if not core.fma512:
        assert core.loads512 == core.stores512 == core.masked512 == 0
    assert core.l1d // core.ways == 4, "a way is a page, so that it is indexed by the offset"
    assert core.l1d < core.l2 <= 4096
    assert 512 <= core.l3_share <= 8192
    # Each level is no faster than the one before it, where both are known.
    l1 = max(32 * core.loads256, 64 * core.loads512)
    speeds = [l1, core.l2_read, core.l3_read, core.memory]
    known = [speed for speed in speeds if speed]
    assert known == sorted(known, reverse=True)
    assert 0 <= core.l2_write <= 64
    assert 0 <= core.taken <= 200
    for cycles in (core.masked256, core.masked512, core.split, core.page):
        assert cycles == 0 or 1 <= cycles <= 40
    assert all(value is not None for value in core)


def test_names_are_told_apart() -> None:
    names = [core.name for core in CORES]
    assert len(set(names)) == len(names)


def test_what_this_project_measured() -> None:
    """The measured rates in the table's notes, each from a virtual machine."""
    assert {core.name for core in CORES if core.measured} == {
        "Zen 3", "Zen 4", "Zen 5", "Granite Rapids"
    }  # fmt: skip
    zen3, zen4, zen5 = row("Zen 3"), row("Zen 4"), row("Zen 5")
    assert (zen3.masked256, zen3.split, zen3.l3_read) == (15, 1, 20)
    assert (zen4.fma512, zen4.loads512, zen4.stores512, zen4.l2_read) == (1, 1, 0.5, 32)
    assert (zen4.masked256, zen4.masked512, zen4.page) == (12, 2, 34)
    assert (zen5.masked256, zen5.l2_write, zen5.l3_read, zen5.page) == (1, 60, 27, 23)
    granite = row("Granite Rapids")
    assert (granite.l2_read, granite.l2_write, granite.l3_read) == (47, 16, 8.4)
    assert (granite.page, granite.taken, zen4.taken, zen5.taken) == (24, 120, 100, 20)


@pytest.mark.parametrize("head", CPUINFO)
def test_a_cpu_is_found(head: str) -> None:
    found = find(*split(head))
    assert found is not None
    assert found.exact
    assert str(found) == CPUINFO[head]


def test_every_row_is_found() -> None:
    assert {found.core for head in CPUINFO if (found := find(*split(head)))} == set(CORES)


@pytest.mark.parametrize(
    ("vendor", "isa", "l1d", "l2", "name"),
    [
        ("GenuineIntel", "avx512", 32 * KIB, MIB, "Skylake server"),
        ("GenuineIntel", "avx512", 48 * KIB, 2 * MIB, "Granite Rapids"),
        ("GenuineIntel", "avx512", 48 * KIB, 512 * KIB, "Rocket Lake"),
        ("GenuineIntel", "avx2", 48 * KIB, 3 * MIB, "Raptor Cove"),  # Arrow Lake's Lion Cove
        ("GenuineIntel", "avx2", 32 * KIB, 4 * MIB, "Gracemont"),  # Sierra Forest's Crestmont
        ("GenuineIntel", "avx2", 32 * KIB, 256 * KIB, "Skylake client"),
        ("AuthenticAMD", "avx512", 48 * KIB, MIB, "Zen 5"),
        ("AuthenticAMD", "avx512", 32 * KIB, MIB, "Zen 4"),
        ("AuthenticAMD", "avx2", 32 * KIB, 512 * KIB, "Zen 3"),
        ("HygonGenuine", "avx512", 32 * KIB, MIB, "Zen 4"),  # no row of Hygon's has AVX-512
        ("CentaurHauls", "avx2", 32 * KIB, 256 * KIB, "Skylake client"),
        ("  Shanghai  ", "avx512", 0, 0, "Zen 5"),  # whose caches are unknown, too
    ],
)
def test_an_unknown_core_has_the_nearest_row(
    vendor: str, isa: str, l1d: int, l2: int, name: str
) -> None:
    found = nearest(vendor, isa, l1d, l2)
    assert found is not None
    assert (found.core.name, found.exact) == (name, False)
    assert str(found) == f"unknown core; rates of {name}, the nearest by features"


def test_a_set_of_instructions_without_rows() -> None:
    assert nearest("GenuineIntel", "portable", 32 * KIB, 256 * KIB) is None


def test_of_a_machine() -> None:
    assert x86_core(Machine()) is None
    assert x86_core(replace(HYBRID, arch="aarch64")) is None
    assert str(x86_core(HYBRID)) == "Golden Cove (12th Core), efficiency cores Gracemont"
    # Its efficiency cores may be switched off, or be all that the process may use.
    off = replace(HYBRID, cores=((0, 1),), efficiency_cores=(), affinity=(0, 1))
    assert str(x86_core(off)) == "Golden Cove (12th Core)"
    assert str(x86_core(replace(HYBRID, affinity=(2, 3)))) == "Gracemont (12th Core)"
    unknown = replace(HYBRID, model=0xC6, l1d_bytes=48 * KIB, l2_bytes=3 * MIB, l3_bytes=36 * MIB)
    assert str(x86_core(unknown)) == "unknown core; rates of Raptor Cove, the nearest by features"
    assert x86_core(replace(unknown, isas=("portable",))) is None


def machine(head: str, **more: Any) -> Machine:
    """Return a machine with the CPU of this identity, and the caches of its row."""
    vendor, family, model, name = split(head)
    found = find(vendor, family, model, name)
    assert found is not None
    return Machine(
        arch="x86_64",
        vendor=vendor,
        family=family,
        model=model,
        cpu_name=name,
        **{
            "isas": ALL,
            "l1d_bytes": found.core.l1d * KIB,
            "l2_bytes": found.core.l2 * KIB,
            "l3_bytes": found.core.l3_share * KIB,
            **more,
        },
    )


@pytest.mark.parametrize("head", CPUINFO)
def test_plans_take_the_fmas_of_the_row(head: str) -> None:
    here = machine(head)
    found = x86_core(here)
    assert found is not None
    core = found.core
    assert str(found) == CPUINFO[head].partition(", efficiency")[0]
    rates = {"portable": 1, "avx2": core.fma256, "avx2/s16": core.words256 or 1.5}
    rates |= {"avx2/u8p": core.pairs256 or 1}
    assert fma_per_cycle(replace(here, isas=ALL[:2])) == rates
    rates |= {"avx512": core.fma512 or 2, "avx512/s16": core.words512 or 1}
    rates |= {"avx512/u8p": core.pairs512 or 0.5}
    assert fma_per_cycle(here) == rates
    narrow = {
        "avxvnni": core.fma256,
        "avxvnniint8": core.fma256,
        "avx512vnni": core.fma512 or 2,
        "avx512bf16": core.bf16 or 0.5,
        "amx": 16,
    }
    assert fma_per_cycle(replace(here, isas=LADDERS["x86_64"])) == rates | narrow


@pytest.mark.parametrize(
    ("vendor", "family", "model", "avx2", "avx512"),
    [
        ("AuthenticAMD", 0x19, 0x11, 2, 1),  # Zen 4
        ("AuthenticAMD", 0x1A, 0x02, 2, 2),  # Zen 5
        ("AuthenticAMD", 0x17, 0x01, 1, 2),  # Zen
        ("AuthenticAMD", 0x17, 0x31, 2, 2),  # Zen 2
        ("HygonGenuine", 0x18, 0x00, 1, 2),
        ("GenuineIntel", 6, 0x55, 2, 2),  # Skylake-X
        ("GenuineIntel", 6, 0x7E, 2, 1),  # Ice Lake client
        ("GenuineIntel", 6, 0x6A, 2, 2),  # Ice Lake server
        ("unknown", 0, 0, 2, 2),
    ],
)
def test_fma_rates(vendor: str, family: int, model: int, avx2: int, avx512: int) -> None:
    here = Machine(arch="x86_64", vendor=vendor, family=family, model=model, isas=ALL)
    rates = fma_per_cycle(here)
    assert {isa: rates[isa] for isa in ALL} == {"portable": 1, "avx2": avx2, "avx512": avx512}


def test_rates_of_narrow_products() -> None:
    """Measured rates: pairs of words on Zen 3 and Skylake, bfloat16 on Granite Rapids."""
    zen3 = machine("AuthenticAMD 25 1 AMD EPYC 7763 64-Core Processor", isas=ALL[:2])
    assert (zen3.fma_per_cycle, fma_per_cycle(zen3)["avx2/s16"]) == ({"portable": 1}, 2)
    zen3 = replace(zen3, fma_per_cycle=fma_per_cycle(zen3))
    assert (zen3.fma_rate("avx2", "s16"), zen3.fma_rate("avx2", "f32")) == (2, 2)
    skylake = machine("GenuineIntel 6 94 Intel(R) Core(TM) i7-6700K CPU @ 4.00GHz", isas=ALL[:2])
    assert fma_per_cycle(skylake)["avx2/s16"] == 1.5
    granite = machine("GenuineIntel 6 173 Intel(R) Xeon(R) 6972P", isas=LADDERS["x86_64"])
    rates = fma_per_cycle(granite)
    assert (rates["avx512vnni"], rates["avx512bf16"]) == (2, 0.5)
    # Cores are told apart by instruction sets that rows have, whatever newer sets there are.
    unknown = replace(granite, model=0xFF)
    found = x86_core(unknown)
    assert found is not None
    assert found.core.name == "Granite Rapids"


def test_half_the_fmas_by_the_name() -> None:
    """Of two products with one number, the name tells which has one unit of 512 bits."""
    whole = machine("GenuineIntel 6 85 Intel(R) Xeon(R) Gold 6142 CPU @ 2.60GHz")
    half = machine("GenuineIntel 6 85 Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz")
    assert (fma_per_cycle(whole)["avx512"], fma_per_cycle(half)["avx512"]) == (2, 1)


def test_a_core_under_the_number_of_another() -> None:
    """A hypervisor shows Granite Rapids, with AMX, as model 167, which is Rocket Lake."""
    head = "GenuineIntel 6 167 Intel(R) Xeon(R) Processor"
    rocket = machine(head)
    assert str(x86_core(rocket)) == "Rocket Lake (11th Core)"
    assert fma_per_cycle(rocket)["avx512"] == 1
    granite = replace(rocket, l2_bytes=2 * MIB)
    nearest_row = "unknown core; rates of Granite Rapids, the nearest by features"
    assert str(x86_core(granite)) == nearest_row
    assert fma_per_cycle(granite)["avx512"] == 2
    # Caches that emulators make up match no core and prove nothing; nor do sizes that stand for
    # unread ones.
    made_up = replace(rocket, l1d_bytes=32 * KIB, l2_bytes=4 * MIB)
    assert str(x86_core(made_up)) == "Rocket Lake (11th Core)"
    assert str(x86_core(replace(granite, l3_bytes=0))) == "Rocket Lake (11th Core)"
    # Products of one model differ by less: some of the 13th generation have the L2 of the 12th.
    raptor = machine("GenuineIntel 6 191 13th Gen Intel(R) Core(TM) i5-13400")
    smaller = replace(raptor, l2_bytes=1280 * KIB)
    assert str(x86_core(smaller)) == "Raptor Cove (13th and 14th Core)"


def test_a_core_counts_on_some_slices_of_l3() -> None:
    granite = machine("GenuineIntel 6 173 Intel(R) Xeon(R) 6972P", l3_bytes=480 * MIB, l3_cpus=2)
    assert granite.l3_share == 240 * MIB
    assert l3_share(granite) == 6 * 4032 * KIB
    assert l3_share(replace(granite, l3_bytes=8 * MIB)) == 4 * MIB
    # Fewer of AMD's: other machines use the rest of what two CPUs are shown.
    zen = machine("AuthenticAMD 25 1 AMD EPYC", l3_bytes=32 * MIB, l3_cpus=2)
    assert l3_share(zen) == 2 * 4096 * KIB < zen.l3_share
    assert l3_share(Machine(l3_bytes=MIB)) == MIB
