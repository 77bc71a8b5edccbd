"""Arm machines: which cores there are, and which instruction sets may be used.

An instruction set may be used if the system announces its features and every core has them.  A
system asks one core only, and its answer may be wrong for the others: the Exynos 9810 announces
arithmetic in half precision, which its small cores (Cortex-A55) have and its large ones (Exynos-M3)
do not, so that a program crashes when it is moved.  Source: TNN's and cpuinfo's lists of denied
chips.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import arm_cores, hwcap, midr
from .arm_cores import ArmCore
from .cpu import Cpu
from .sysctl import Sysctl, number, text

ISA_FEATURES = {
    "neon": ("asimd",),
    "fp16": ("asimd", "fphp", "asimdhp"),
    "dotprod": ("asimd", "asimddp"),
    "i8mm": ("asimd", "asimddp", "i8mm"),
    "bf16": ("asimd", "bf16"),
    "neon32": ("neon", "vfpv4"),
    "half32": ("neon", "vfpv4", "fphp", "asimdhp"),
}
"""Features that each instruction set of the ladders needs."""

# Kinds of product by instructions that multiply matrices, which some cores start less often than
# FMAs.
_BY_MATRIX = {"i8mm": ("s8m", "u8m"), "bf16": ("bf16m",)}
_OF_V8_0 = frozenset({"asimd", "neon", "vfpv4"})
_UNKNOWN = ArmCore("")

Kinds = tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Arm:
    """An Arm machine; fields as in `Machine`.

    Parameters
    ----------
    identity : Cpu
        Vendor, name and instruction sets.
    features, denied : tuple of str
        Vector features that may be used; features that are announced but may not be used.
    kinds : tuple of (int, tuple of int)
        MIDR and CPUs of each kind of core, the strongest first.
    core : ArmCore
        The kind of core that plans are made for.
    cpu : int or None
        A CPU of that kind; None if no register could be read.
    """

    identity: Cpu
    features: tuple[str, ...]
    denied: tuple[str, ...]
    kinds: Kinds
    core: ArmCore
    cpu: int | None

    def fields(self) -> dict[str, Any]:
        """The fields that `Machine` has for Arm cores only, by their names there."""
        return {
            "features": self.features,
            "denied": self.denied,
            "core_kinds": self.kinds,
            "fma_per_cycle": dict(self._rates()),
            "fma_latency": self.core.latency,
            "loads_per_cycle": self.core.loads,
            "in_order": self.core.in_order,
        }

    def _rates(self) -> Iterator[tuple[str, float]]:
        """Vector products a cycle, by instruction set, and by type if types differ."""
        for isa in self.identity.isas:
            yield isa, 1 if isa == "portable" else self.core.fma
            if isa == "neon":
                # Two instructions each.
                yield "neon/s16", self.core.smlal_rate / 2
            for kind in _BY_MATRIX.get(isa, ()) if self.core.matrix else ():
                yield f"{isa}/{kind}", self.core.matrix


def identify(
    root: str,
    cpus: tuple[int, ...],
    affinity: tuple[int, ...],
    auxval: hwcap.Auxval,
    register: midr.Midr,
    ask: Sysctl,
    arch: str = "aarch64",
) -> Arm:
    """Describe the cores of an Arm system.

    Parameters
    ----------
    root : str
        Directory that holds ``sys`` and ``proc``.
    cpus, affinity : tuple of int
        CPU ids that are online, and that the process may run on.
    auxval : callable
        ``getauxval``.
    register : callable
        Returns the MIDR of the calling core, 0 if it cannot be read.
    ask : callable
        ``sysctl`` by name.
    arch : {"aarch64", "armv7l"}, optional
        Architecture of the process.

    Returns
    -------
    Arm
    """
    kinds = _kinds(midr.read(root, cpus, register))
    announced = hwcap.read(auxval, ask, arch)
    lacking = any(not arm_cores.find(value).v8_2 for value, _ in kinds)
    features = tuple(name for name in announced if not lacking or name in _OF_V8_0)
    isas = ("portable", *(isa for isa, need in ISA_FEATURES.items() if set(need) <= {*features}))
    denied = tuple(name for name in announced if name not in features)
    # The strongest cores do most of the work, so plans are made for them.
    usable = [(value, min(own)) for value, each in kinds if (own := {*each} & {*affinity})]
    if usable:
        value, cpu = usable[0]
        name = " + ".join(dict.fromkeys(arm_cores.find(kind).name for kind, _ in kinds))
        identity = Cpu(
            arm_cores.vendor(value), name, midr.implementer(value), midr.part(value), isas
        )
        return Arm(identity, features, denied, kinds, arm_cores.find(value), cpu)
    name = text(ask, "machdep.cpu.brand_string")
    family = number(ask, "hw.cpufamily", signed=False)
    vendor = "Apple" if name.startswith("Apple") else "unknown"
    core = arm_cores.find_apple(family) or _UNKNOWN
    return Arm(Cpu(vendor, name, 0, family, isas), features, denied, (), core, None)


def _kinds(midrs: dict[int, int]) -> Kinds:
    """CPUs by kind of core, regardless of its revision; the strongest first."""
    groups: dict[tuple[int, int], list[int]] = {}
    for cpu, value in sorted(midrs.items()):
        groups.setdefault((midr.implementer(value), midr.part(value)), []).append(cpu)
    kinds = [(midrs[members[0]], tuple(members)) for members in groups.values()]
    return tuple(sorted(kinds, key=lambda kind: (-arm_cores.find(kind[0]).fma, -kind[0])))
