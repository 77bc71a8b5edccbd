"""The cores that llvm-mca models: its name for each, and properties of the real core."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pplconv.machine import Machine, arm_cores, midr
from pplconv.machine.x86_identity import fma_per_cycle

# Extensions of any of these cores; the registry says which of them a kernel may use.
ATTRIBUTES = {"aarch64": "+fullfp16,+fp16fml,+dotprod,+i8mm,+bf16", "x86_64": ""}

_DOTS = ("dotprod",)
_MATRICES = ("dotprod", "i8mm", "bf16")
# Levels of the tables that not every core has.
NARROW = frozenset(_MATRICES)


@dataclass(frozen=True)
class Core:
    """A core as the tools know it, and as it is.

    Parameters
    ----------
    name : str
        Its name in llvm (``-mcpu``).
    arch : str
        As ``platform.machine()`` names it.
    products : str
        Where it is found.
    machine : Machine
        The real one: caches, FMAs a cycle and their latency.
    osaca : str
        Its name in OSACA; "" if OSACA lacks it.
    wanted : float
        FMAs a cycle that a main tile of 128-bit vectors is to reach in the model; 0: no figure.
    in_order : bool
        Whether it executes in the order of the program.
    note : str
        Known flaws of the model.
    narrow : tuple of str
        Instruction sets for products of narrow types that it has, of the registry's.
    """

    name: str
    arch: str
    products: str
    machine: Machine
    osaca: str = ""
    wanted: float = 0.0
    in_order: bool = False
    note: str = ""
    narrow: tuple[str, ...] = ()

    def has(self, isa: str) -> bool:
        """Whether a table of kernels for an instruction set has a column for the core."""
        return isa in self.narrow or isa not in NARROW


def _arm(
    name: str, products: str, maker: int, part: int, osaca: str = "", wanted: float = 0.0,
    note: str = "", narrow: tuple[str, ...] = (),
) -> Core:  # fmt: skip
    known = arm_cores.find(midr.make(maker, part))
    isas = ("portable", "neon")
    machine = Machine(
        arch="aarch64",
        cpu_name=known.name,
        isas=isas,
        fma_per_cycle=dict.fromkeys(isas, known.fma),
        fma_latency=known.latency,
        loads_per_cycle=known.loads,
        l1d_bytes=known.l1d << 10,
        l2_bytes=known.l2 << 10,
        l2_cpus=known.l2_cpus,
        l3_bytes=known.l3 << 10,
        line_bytes=known.line,
    )
    return Core(name, "aarch64", products, machine, osaca, wanted, known.in_order, note, narrow)


def _x86(
    name: str, products: str, vendor: str, model: tuple[int, int], caches: tuple[int, int, int],
    osaca: str = "", note: str = "",
) -> Core:  # fmt: skip
    isas = ("portable", "avx2", "avx512")
    machine = Machine(
        arch="x86_64",
        vendor=vendor,
        family=model[0],
        model=model[1],
        isas=isas,
        l1d_bytes=caches[0] << 10,
        l2_bytes=caches[1] << 10,
        l3_bytes=caches[2] << 10,
    )
    machine = replace(machine, fma_per_cycle=fma_per_cycle(machine))
    return Core(name, "x86_64", products, machine, osaca, note=note)


_HALF = "one 512-bit FMA unit of the core's two: its 512-bit figures are half of the truth"

CORES = (
    _arm("tsv110", "Kunpeng 920", 0x48, 0xD01, "TSV110", 1.95,
         "FMLA of 4 cycles; OpenPPL's slides measured 5", _DOTS),
    _arm("neoverse-n1", "Graviton 2, Ampere Altra", 0x41, 0xD0C, "N1", 1.95,
         "dispatches 3 micro-ops a cycle, fewer than the core; counts LDR with a scaled "
         "offset as two", _DOTS),
    _arm("neoverse-n2", "Cobalt 100, Yitian 710", 0x41, 0xD49, "", 1.95, "", _MATRICES),
    _arm("neoverse-v1", "Graviton 3", 0x41, 0xD40, "", 3.85, "", _MATRICES),
    _arm("neoverse-v2", "Graviton 4, Grace", 0x41, 0xD4F, "V2", 3.3, "", _MATRICES),
    _arm("a64fx", "Fugaku", 0x46, 0x001, "A64FX"),
    _arm("apple-m1", "Apple M1", 0x61, 0x023, "M1", 2.9,
         "the model of an older core, Cyclone: three vector pipes where Firestorm "
         "has four, and FMLA by element of 2 cycles", _DOTS),
    _arm("cortex-a57", "", 0x41, 0xD07, "", 0.0,
         "llvm also gives this model for cortex-a76 and cortex-a78, which have twice its FMAs; of "
         "half precision it knows nothing"),
    _arm("cortex-a55", "phones", 0x41, 0xD05, "", 0.0,
         "two 128-bit FMAs a cycle in the model, one in the core", _DOTS),
    _arm("cortex-a53", "Raspberry Pi 3", 0x41, 0xD03, "", 0.0,
         "nothing finishes before what is older, and FMLA takes 10 cycles, so a load after one "
         "waits: no conclusions from the order of instructions"),
    _x86("znver4", "Ryzen 7000, EPYC 9004", "AuthenticAMD", (0x19, 0x61), (32, 1024, 32768),
         "ZEN4", "counts a 512-bit broadcast from memory against the FMA pipes; the core does not"),
    _x86("skylake-avx512", "Xeon Scalable", "GenuineIntel", (6, 0x55), (32, 1024, 1408), "SKX"),
    _x86("icelake-server", "3rd Xeon Scalable", "GenuineIntel", (6, 0x6A), (48, 1280, 1536),
         "ICX", _HALF),
    _x86("sapphirerapids", "4th Xeon Scalable", "GenuineIntel", (6, 0x8F), (48, 2048, 1920),
         "SPR", _HALF),
)  # fmt: skip


def cores_of(arch: str) -> list[Core]:
    """The modelled cores of an architecture.

    Raises
    ------
    ValueError
        If there are none.
    """
    found = [core for core in CORES if core.arch == arch]
    if not found:
        known = ", ".join(sorted({core.arch for core in CORES}))
        raise ValueError(f"arch must be one of {known}, got {arch!r}")
    return found
