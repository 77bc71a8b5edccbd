"""The row of a machine in the table of x86 cores, and rates derived from it."""

from __future__ import annotations

from functools import lru_cache
from math import log2

from .cpu import is_x86
from .machine import Machine
from .x86_cores import CORES, Found, X86Core, cores_of, find

USUAL_FMAS = {
    "avx2": 2,
    "avx2/s16": 1.5,
    "avx2/u8p": 1,
    "avxvnni": 2,
    "avxvnniint8": 2,
    "avx512": 2,
    "avx512/s16": 1,
    "avx512/u8p": 0.5,
    "avx512vnni": 2,
    "avx512bf16": 0.5,
    "amx": 16,
}
"""Rates of instruction sets that a row does not have.

Of AMX, tiles of 16 rows whose products take a cycle a row count as so many vectors each."""

RATED = frozenset(core.isa for core in CORES)
"""Instruction sets that distinguish rows of the table."""

NEIGHBOURS = {"AuthenticAMD": 2, "HygonGenuine": 2}
"""Slices of a shared L3 that one core can count on, by maker; of others `MOST_NEIGHBOURS`."""
MOST_NEIGHBOURS = 6


def nearest(vendor: str, isa: str, l1d_bytes: int, l2_bytes: int) -> Found | None:
    """Row of the core that resembles an unknown one most.

    Rows of the same maker come first, then those with the same instruction set, then those whose
    L1 and L2 have most nearly these sizes, then the newest.  A maker without rows has all of them.

    Parameters
    ----------
    vendor : str
        As CPUID says it.
    isa : str
        The highest instruction set of the machine.
    l1d_bytes, l2_bytes : int
        Sizes of the caches; 0 if unknown.

    Returns
    -------
    Found or None
        None for an instruction set that no row has.
    """
    rows = cores_of(vendor) or CORES
    fit = [core for core in rows if core.isa == isa] or [c for c in CORES if c.isa == isa]
    if not fit:
        return None

    def distance(core: X86Core) -> float:
        sizes = ((core.l1d, l1d_bytes), (core.l2, l2_bytes))
        return sum(abs(log2(size / (kib << 10))) for kib, size in sizes if size)

    # The last of the nearest.
    return Found(min(reversed(fit), key=distance), exact=False)


@lru_cache(maxsize=16)
def x86_core(machine: Machine) -> Found | None:
    """Row of those cores of a machine that plans are made for.

    Parameters
    ----------
    machine : Machine
        Any.

    Returns
    -------
    Found or None
        None if it is no x86 machine, or has an unknown core without AVX2, or an unknown core
        without an L3, whose cache sizes may be mere defaults.
    """
    if not is_x86(machine.arch):
        return None
    found = find(machine.vendor, machine.family, machine.model, machine.cpu_name)
    if found is None or _renumbered(found, machine):
        if machine.l3_bytes == 0:
            return None
        rated = [isa for isa in machine.isas if isa in RATED] or machine.isas
        return nearest(machine.vendor, rated[-1], machine.l1d_bytes, machine.l2_bytes)
    small = found.small
    if small and machine.efficiency_cores:
        if {*machine.affinity} <= {*machine.efficiency_cores}:
            return Found(small, found.products)
        return found
    return found._replace(small=None)


def moves_beside_fmas(machine: Machine) -> bool:
    """Whether lanes of 512-bit vectors are moved by a port that no FMA needs; no if unknown."""
    found = x86_core(machine)
    return found is not None and found.core.moves


def _renumbered(found: Found, machine: Machine) -> bool:
    """Whether a hypervisor reports the model number of another core.

    A cache then has at least twice or at most half the size in the row, and the sizes of L1 and L2
    are those of another row. Sizes that no core has prove nothing, as hypervisors make up sizes
    too; nor do sizes of a machine without an L3, which may be defaults.
    """
    sizes = machine.l1d_bytes >> 10, machine.l2_bytes >> 10
    rows = {(core.l1d, core.l2) for core in cores_of(machine.vendor)}
    if machine.l3_bytes == 0 or sizes not in rows:
        return False
    own = [(core.l1d, core.l2) for core in (found.core, found.small) if core]
    return all(
        any(abs(log2(size / known)) >= 1 for size, known in zip(sizes, each, strict=True))
        for each in own
    )


def fma_per_cycle(machine: Machine) -> dict[str, float]:
    """Vector FMAs that one core of a machine starts in a cycle, by instruction set.

    In products of narrow types, the one to three instructions that multiply groups of elements and
    add them up count as one FMA.

    Parameters
    ----------
    machine : Machine
        Any but those with AArch64 cores.

    Returns
    -------
    dict of str to float
        ``portable`` counts as one, as the compiler's code is not known here.
    """
    found = x86_core(machine)
    known = _known(found.core) if found else {}
    rates: dict[str, float] = {}
    for isa in machine.isas:
        for key in (isa, f"{isa}/s16", f"{isa}/u8p"):
            if key == isa or key in USUAL_FMAS:
                rates[key] = known.get(key, 0) or USUAL_FMAS.get(key, 1)
    return rates


def _known(core: X86Core) -> dict[str, float]:
    """Rates of a row by instruction set; 0 if it has none. Products of bytes count as FMAs."""
    return {
        "avx2": core.fma256,
        "avx2/s16": core.words256,
        "avx2/u8p": core.pairs256,
        "avxvnni": core.fma256,
        "avxvnniint8": core.fma256,
        "avx512": core.fma512,
        "avx512/s16": core.words512,
        "avx512/u8p": core.pairs512,
        "avx512vnni": core.fma512,
        "avx512bf16": core.bf16,
    }


def l3_share(machine: Machine) -> int:
    """Bytes of L3 that a core can count on; 0 where there is none.

    Hypervisors report the whole cache to a few CPUs, although other cores share it with other
    machines. So the reported size counts only up to some slices. On a Granite Rapids whose two CPUs
    were shown 480 MiB, one core streamed 64 MiB as L3, and weights of 38 MiB came partly from
    memory. On a Zen 3 whose two CPUs were shown the 32 MiB of eight cores, one core streamed 2.4 MB
    at 10 bytes a cycle and 4.8 MB at 6, as from memory; so it did while the other core was idle.

    Parameters
    ----------
    machine : Machine
        Any.

    Returns
    -------
    int
    """
    found = x86_core(machine)
    if not found:
        return machine.l3_share
    slices = NEIGHBOURS.get(machine.vendor, MOST_NEIGHBOURS)
    return min(machine.l3_share, slices * (found.core.l3_share << 10))
