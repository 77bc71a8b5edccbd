"""Cores of twelve and more AArch64 systems, as the systems describe them.

Written from knowledge, not taken from the machines: the words of the auxiliary vector follow
from the features that these CPUs list in /proc/cpuinfo and from the order of the kernel's
definitions (uapi/asm/hwcap.h), the registers from the kernel's cputype.h and the revisions sold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pplconv.machine import Machine, detect

AT_HWCAP, AT_HWCAP2 = 16, 26

# From bit 0 on, as the kernel defines them.
HWCAP = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma "
    "lrcpc dcpop sha3 sm3 sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs sb paca pacg"
)
HWCAP2 = (
    "dcpodp sve2 sveaes svepmull svebitperm svesha3 svesm4 flagm2 frint svei8mm svef32mm svef64mm "
    "svebf16 i8mm bf16 dgh rng bti mte ecv afp rpres mte3 sme"
)


def words(features: str) -> dict[int, int]:
    """AT_HWCAP and AT_HWCAP2 of a system that lists these features."""
    listed = set(features.split())
    assert listed <= {*HWCAP.split(), *HWCAP2.split()}
    return {
        which: sum(1 << at for at, name in enumerate(names.split()) if name in listed)
        for which, names in ((AT_HWCAP, HWCAP), (AT_HWCAP2, HWCAP2))
    }


CRYPTO = "aes pmull sha1 sha2"
V8 = f"fp asimd evtstrm {CRYPTO} crc32 cpuid"
V8_2 = f"{V8} atomics fphp asimdhp asimdrdm"
N1 = f"{V8_2} lrcpc dcpop asimddp ssbs"
V1 = (
    f"{V8_2} jscvt fcma lrcpc dcpop sha3 sm3 sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc "
    "flagm ssbs paca pacg dcpodp svei8mm svebf16 i8mm bf16 dgh rng"
)
V2 = (
    f"{V8_2} jscvt fcma lrcpc dcpop sha3 sm3 sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc "
    "flagm ssbs sb paca pacg dcpodp sve2 sveaes svepmull svebitperm svesha3 flagm2 frint "
    "svei8mm svebf16 i8mm bf16 dgh rng bti"
)


@dataclass
class ArmCpu:
    """Descriptions that a Linux system gives of its cores, and the facts expected from them.

    Parameters
    ----------
    features : str
        As /proc/cpuinfo lists them.
    cores : tuple of (int, range)
        MIDR and CPUs of each kind, as the system numbers them.
    vendor, name : str
        As `Machine` should have them.
    isas : str
        Instruction sets above ``portable``.
    rates : tuple
        FMAs a cycle, their latency, loads a cycle.
    caches : tuple of (int, int)
        KiB and sharing CPUs of L1D, L2 and L3 where the system describes no caches.
    """

    features: str
    cores: tuple[tuple[int, range], ...]
    vendor: str
    name: str
    isas: str
    rates: tuple[int, int, float]
    caches: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
    line: int = 64
    denied: tuple[str, ...] = ()
    in_order: bool = False
    words: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.words = words(self.features)

    def auxval(self, kind: int) -> int:
        return self.words.get(kind, 0)

    @property
    def count(self) -> int:
        return sum(len(cpus) for _, cpus in self.cores)

    def tree(self, *, sysfs: bool = True, cpuinfo: bool = True) -> dict[str, str]:
        """Files that name the cores."""
        base = "/sys/devices/system/cpu"
        found = {f"{base}/online": f"0-{self.count - 1}"}
        blocks = {}
        for midr, cpus in self.cores:
            for cpu in cpus:
                blocks[cpu] = self._block(cpu, midr)
                if sysfs:
                    found[f"{base}/cpu{cpu}/regs/identification/midr_el1"] = f"0x{midr:016x}\n"
        if cpuinfo:
            found["/proc/cpuinfo"] = "\n\n".join(blocks[cpu] for cpu in sorted(blocks))
        return found

    def _block(self, cpu: int, midr: int) -> str:
        return (
            f"processor\t: {cpu}\nBogoMIPS\t: 50.00\nFeatures\t: {self.features}\n"
            f"CPU implementer\t: {midr >> 24:#04x}\nCPU architecture: 8\n"
            f"CPU variant\t: {midr >> 20 & 0xF:#x}\nCPU part\t: {midr >> 4 & 0xFFF:#05x}\n"
            f"CPU revision\t: {midr & 0xF}"
        )


HALF = "neon fp16"
DOTS = f"{HALF} dotprod"
ALL = f"{DOTS} i8mm bf16"

CPUS: dict[str, ArmCpu] = {
    "kunpeng_920": ArmCpu(
        f"{V8_2} jscvt fcma dcpop asimddp asimdfhm ssbs",
        ((0x481FD010, range(96)),),
        "HiSilicon",
        "Kunpeng 920 (TaiShan v110)",
        DOTS,
        (2, 5, 2.0),
        ((64, 1), (512, 1), (32768, 96)),
    ),
    "graviton_2": ArmCpu(
        N1,
        ((0x413FD0C1, range(64)),),
        "ARM",
        "Neoverse-N1",
        DOTS,
        (2, 2, 2.0),
        ((64, 1), (1024, 1), (32768, 64)),
    ),
    "graviton_3": ArmCpu(
        V1,
        ((0x411FD401, range(64)),),
        "ARM",
        "Neoverse-V1",
        ALL,
        (4, 2, 2.0),
        ((64, 1), (1024, 1), (32768, 64)),
    ),
    "graviton_4": ArmCpu(
        V2,
        ((0x410FD4F1, range(96)),),
        "ARM",
        "Neoverse-V2",
        ALL,
        (4, 2, 2.0),
        ((64, 1), (1024, 1), (36864, 96)),
    ),
    "altra": ArmCpu(
        N1,
        ((0x413FD0C1, range(80)),),
        "ARM",
        "Neoverse-N1",
        DOTS,
        (2, 2, 2.0),
        ((64, 1), (1024, 1), (32768, 80)),
    ),
    "a64fx": ArmCpu(
        "fp asimd evtstrm sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm fcma dcpop sve",
        ((0x460F0010, range(48)),),
        "Fujitsu",
        "A64FX",
        HALF,
        (2, 9, 2.0),
        ((64, 1), (8192, 12), (0, 1)),
        line=256,
    ),
    "m1_linux": ArmCpu(
        f"{V8_2} jscvt fcma lrcpc dcpop sha3 asimddp sha512 asimdfhm dit uscat ilrcpc flagm ssbs "
        "sb paca pacg dcpodp flagm2 frint",
        ((0x611F0221, range(4)), (0x611F0231, range(4, 8))),
        "Apple",
        "Firestorm + Icestorm",
        DOTS,
        (4, 4, 3.0),
        ((128, 1), (12288, 4), (0, 1)),
        line=128,
    ),
    "raspberry_pi_3": ArmCpu(
        "fp asimd evtstrm crc32 cpuid",
        ((0x410FD034, range(4)),),
        "ARM",
        "Cortex-A53",
        "neon",
        (1, 4, 0.5),
        ((32, 1), (512, 4), (0, 1)),
        in_order=True,
    ),
    "raspberry_pi_4": ArmCpu(
        "fp asimd evtstrm crc32 cpuid",
        ((0x410FD083, range(4)),),
        "ARM",
        "Cortex-A72",
        "neon",
        (1, 3, 1.0),
        ((32, 1), (1024, 4), (0, 1)),
    ),
    "raspberry_pi_5": ArmCpu(
        f"{V8_2} lrcpc dcpop asimddp",
        ((0x414FD0B1, range(4)),),
        "ARM",
        "Cortex-A76",
        DOTS,
        (2, 2, 2.0),
        ((64, 1), (512, 1), (2048, 4)),
    ),
    "snapdragon_855": ArmCpu(
        f"{V8_2} lrcpc dcpop asimddp",
        ((0x51DF805E, range(4)), (0x51CF804E, range(4, 8))),
        "Qualcomm",
        "Cortex-A76 + Cortex-A55",
        DOTS,
        (2, 2, 2.0),
        ((64, 1), (512, 1), (2048, 8)),
    ),
    "snapdragon_888": ArmCpu(
        f"{V8_2} lrcpc dcpop asimddp",
        ((0x412FD050, range(4)), (0x411FD411, range(4, 7)), (0x411FD440, range(7, 8))),
        "ARM",
        "Cortex-X1 + Cortex-A78 + Cortex-A55",
        DOTS,
        (4, 2, 2.0),
        ((64, 1), (1024, 1), (4096, 8)),
    ),
    "exynos_9810": ArmCpu(
        V8_2,
        ((0x410FD051, range(4)), (0x531F0020, range(4, 8))),
        "Samsung",
        "Exynos-M3 + Cortex-A55",
        "neon",
        (3, 5, 2.0),
        ((64, 1), (512, 1), (4096, 8)),
        denied=("fphp", "asimdhp"),
    ),
    "cobalt_100": ArmCpu(
        V2,
        ((0x6D0FD490, range(96)),),
        "Microsoft",
        "Cobalt 100 (Neoverse-N2)",
        ALL,
        (2, 2, 2.0),
        ((64, 1), (1024, 1), (32768, 96)),
    ),
    "thunderx2": ArmCpu(
        f"{V8} atomics asimdrdm",
        ((0x431F0AF1, range(64)),),
        "Cavium",
        "ThunderX2",
        "neon",
        (2, 6, 2.0),
        ((32, 1), (256, 1), (32768, 64)),
    ),
    "unheard_of": ArmCpu(
        f"{V8_2} asimddp",
        ((0x7A1F1230, range(4)),),
        "unknown",
        "part 0x123",
        DOTS,
        (2, 4, 2.0),
        ((32, 1), (512, 1), (0, 1)),
    ),
}

M1_SYSCTL = {
    "hw.cpufamily": 0x1B588BB3,
    "hw.optional.AdvSIMD": 1,
    "hw.optional.arm.FEAT_FP16": 1,
    "hw.optional.arm.FEAT_DotProd": 1,
    "hw.optional.arm.FEAT_FHM": 1,
    "hw.optional.arm.FEAT_I8MM": 0,
    "hw.optional.arm.FEAT_BF16": 0,
}
M2_SYSCTL = {
    **M1_SYSCTL,
    "hw.cpufamily": 0xDA33D83D,
    "hw.optional.arm.FEAT_I8MM": 1,
    "hw.optional.arm.FEAT_BF16": 1,
}
M1_MACHINE = {
    **M1_SYSCTL,
    "hw.ncpu": 8,
    "hw.physicalcpu": 8,
    "hw.logicalcpu": 8,
    "hw.memsize": 17179869184,
    "hw.cachelinesize": 128,
    "hw.nperflevels": 2,
    "hw.l1dcachesize": 65536,
    "hw.l2cachesize": 4194304,
    "hw.perflevel0.physicalcpu": 4,
    "hw.perflevel0.logicalcpu": 4,
    "hw.perflevel0.l1dcachesize": 131072,
    "hw.perflevel0.l2cachesize": 12582912,
    "hw.perflevel0.cpusperl2": 4,
    "hw.perflevel1.physicalcpu": 4,
    "hw.perflevel1.logicalcpu": 4,
    "hw.perflevel1.l1dcachesize": 65536,
    "hw.perflevel1.l2cachesize": 4194304,
    "hw.perflevel1.cpusperl2": 4,
}
# macOS 11, before the features had names of their own.
M1_OLD_SYSCTL = {
    "hw.cpufamily": 0x1B588BB3,
    "hw.optional.neon": 1,
    "hw.optional.neon_hpfp": 1,
    "hw.optional.neon_fp16": 1,
    "hw.optional.armv8_2_fhm": 1,
}


def no_sysctl(name: str) -> bytes | None:
    return None


def never(*args: int) -> None:
    raise AssertionError("not an instruction of this machine")


def described(root: Path | str, **facts: Any) -> Machine:
    """Describe an AArch64 machine of one CPU by its files and `facts`; it says nothing else."""
    said = {"auxval": lambda kind: 0, "register": lambda: 0, "affinity": [0], "arch": "arm64"}
    return detect(root=str(root), **{**said, "ask": no_sysctl, **facts})


def sysctl_of(values: dict[str, int], brand: str) -> Callable[[str], bytes | None]:
    """``sysctl`` of a Mac."""

    def ask(name: str) -> bytes | None:
        if name == "machdep.cpu.brand_string":
            return brand.encode() + b"\0"
        if name not in values:
            return None
        # Families are unsigned integers of four bytes.
        wide = name != "hw.cpufamily" and values[name] >= 1 << 31
        return values[name].to_bytes(8 if wide else 4, "little")

    return ask
