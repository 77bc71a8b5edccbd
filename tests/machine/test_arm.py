"""AArch64 machines as they answer: features, kinds of cores, instruction sets, denial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from asm.registry import ISAS
from pplconv import _kernels
from pplconv.architecture import LADDERS, canonical, here
from pplconv.machine import Machine, arm, arm_cores, caches, hwcap, kernel_files
from pplconv.wisdom import cpu_model
from tests.machine.recorded_arm import (
    CPUS,
    M1_OLD_SYSCTL,
    M1_SYSCTL,
    M2_SYSCTL,
    ArmCpu,
    described,
    never,
    no_sysctl,
    sysctl_of,
    words,
)

KIB = 1 << 10
X1, A78, A55 = 0x411FD440, 0x411FD411, 0x412FD050

VECTOR = "asimd fphp asimdhp asimddp sve asimdfhm sve2 i8mm bf16 sme"


def from_files(tree: dict[str, str], **facts: Any) -> Machine:
    """Describe a machine by files in memory; it has no instruction of x86."""
    with patch.object(kernel_files, "read_bytes", lambda path: tree.get(path, "").encode()):
        return described("/", cpuid=never, xgetbv=never, **facts)


def look(
    cpu: ArmCpu, register: int = 0, affinity: range | None = None, **more: str | bool
) -> Machine:
    """Describe a recorded CPU from files in memory; `more` adds files or leaves some kinds out."""
    extra = {path: text for path, text in more.items() if isinstance(text, str)}
    tree = cpu.tree(**{name: on for name, on in more.items() if isinstance(on, bool)}) | extra
    return from_files(
        tree,
        auxval=cpu.auxval,
        register=lambda: register,
        affinity=range(cpu.count) if affinity is None else affinity,
        arch="aarch64",
    )


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (name, source)
        for name, cpu in CPUS.items()
        for source in ("sysfs", "cpuinfo", "register")
        if source != "register" or len(cpu.cores) == 1  # a core's register describes that core only
    ],
)
def test_recorded_cpus(name: str, source: str) -> None:
    """sysfs, cpuinfo and the register lead to the same description."""
    cpu = CPUS[name]
    register = cpu.cores[0][0] if source == "register" else 0
    machine = look(cpu, register, sysfs=source == "sysfs", cpuinfo=source == "cpuinfo")
    assert machine.isas == ("portable", *cpu.isas.split())
    assert machine.denied == cpu.denied
    wanted = set(cpu.features.split()) - set(cpu.denied)
    assert machine.features == tuple(feature for feature in VECTOR.split() if feature in wanted)
    assert (machine.vendor, machine.cpu_name) == (cpu.vendor, cpu.name)
    fma, latency, loads = cpu.rates
    assert {key.partition("/")[0] for key in machine.fma_per_cycle} == set(machine.isas)
    assert machine.fma_per_cycle["portable"] == 1
    assert machine.fma_per_cycle["neon"] == fma
    assert (machine.fma_latency, machine.loads_per_cycle) == (latency, loads)
    assert machine.in_order is cpu.in_order
    assert machine.tuning == ""  # the one in-order core among them is a Cortex-A53
    l1d, l2, l3 = ((kib * KIB, cpus) for kib, cpus in cpu.caches)
    assert (machine.l1d_bytes, machine.l1d_cpus) == l1d
    assert (machine.l2_bytes, machine.l2_cpus) == l2
    assert (machine.l3_bytes, machine.l3_cpus) == l3
    assert machine.line_bytes == cpu.line
    assert {kind: cpus for kind, cpus in machine.core_kinds} == {
        kind: tuple(cpus) for kind, cpus in cpu.cores
    }
    assert Machine(**machine.as_dict()) == machine


def test_the_twelve_are_there() -> None:
    assert len(CPUS) >= 12
    keys = {key for cpu in CPUS.values() for key, _ in cpu.cores}
    assert len(keys) >= 12


def test_words_of_the_auxiliary_vector() -> None:
    """Compared with words seen on such systems."""
    assert words("fp asimd evtstrm crc32 cpuid") == {16: 0x887, 26: 0}
    assert words("asimddp i8mm bf16") == {16: 1 << 20, 26: 1 << 13 | 1 << 14}
    assert words("sve2 sve") == {16: 1 << 22, 26: 1 << 1}


@pytest.mark.parametrize(
    ("usable", "vendor", "model", "fma", "l2", "in_order"),
    [
        (range(8), "ARM", 0xD44, 4, 1024, False),
        (range(7), "ARM", 0xD41, 2, 512, False),
        (range(4), "ARM", 0xD05, 1, 128, True),
    ],
)
def test_plans_are_made_for_the_strongest_usable_core(
    usable: range, vendor: str, model: int, fma: int, l2: int, in_order: bool
) -> None:
    machine = look(CPUS["snapdragon_888"], affinity=usable)
    assert (machine.vendor, machine.family, machine.model) == (vendor, 0x41, model)
    assert machine.fma_per_cycle["neon"] == fma
    assert (machine.l2_bytes, machine.in_order) == (l2 * KIB, in_order)
    # Name and instruction sets are the whole machine's, because threads move.
    assert machine.cpu_name == "Cortex-X1 + Cortex-A78 + Cortex-A55"
    assert [kind for kind, _ in machine.core_kinds] == [X1, A78, A55]


def test_denied_on_all_cores_if_one_has_it_not() -> None:
    """The small cores of an Exynos 9810 do have half precision."""
    for usable in (range(8), range(4), range(4, 8)):
        machine = look(CPUS["exynos_9810"], affinity=usable)
        assert machine.isas == ("portable", "neon")
        assert (machine.features, machine.denied) == (("asimd",), ("fphp", "asimdhp"))


def test_the_same_features_are_allowed_elsewhere() -> None:
    honest = replace(CPUS["exynos_9810"], cores=((0x410FD051, range(8)),))
    assert look(honest).isas == ("portable", "neon", "fp16")


def test_each_feature_by_itself(tmp_path: Path) -> None:
    for isa in LADDERS["aarch64"][1:]:
        need = arm.ISA_FEATURES[isa]
        assert "asimd" in need
        # The features of i8mm also suffice for dotprod.
        below = {"dotprod"} if isa == "i8mm" else set()
        for features, found in ((need, {"neon", isa}), (need[:-1], {"neon"} - {isa})):
            values = words(" ".join(features))
            machine = described(
                tmp_path,
                auxval=lambda kind, values=values: values.get(kind, 0) or int(kind == 16),
                arch="aarch64",
            )
            assert set(machine.isas) - {"portable"} == found | below


@pytest.mark.parametrize(
    ("register", "isa", "kind", "rate"),
    [
        (0x410FD4F1, "dotprod", "s8", 4),  # Neoverse V2
        (0x410FD4F1, "i8mm", "u8m", 4),
        (0x410FD4F1, "neon", "s16", 1),
        (0x6D0FD490, "bf16", "bf16m", 2),  # Cobalt 100
        (0x6D0FD490, "neon", "s16", 0.5),
        (0x460F0010, "neon", "s16", 1),  # A64FX: as many long products as others
        (0xC00FAC30, "i8mm", "s8m", 1),  # Ampere-1 multiplies matrices half as often
        (0xC00FAC30, "bf16", "bf16m", 1),
        (0xC00FAC30, "bf16", "bf16", 2),
        (0x7A1F1230, "i8mm", "s8m", 2),  # an unknown core
    ],
)
def test_rates_of_narrow_products(register: int, isa: str, kind: str, rate: float) -> None:
    everything = ArmCpu(
        VECTOR, ((register, range(1)),), "", "", "", (0, 0, 0), ((0, 0), (0, 0), (0, 0))
    )
    machine = look(everything)
    assert machine.isas == LADDERS["aarch64"]
    assert machine.fma_rate(isa, kind) == rate


def test_bfloat16_and_products_of_bytes_are_two_features() -> None:
    """Both are bits of the second word; the same bits of the first word mean other features."""
    one = replace(CPUS["cobalt_100"], features="asimd asimddp bf16")
    assert look(one).isas == ("portable", "neon", "dotprod", "bf16")
    other = replace(CPUS["cobalt_100"], features="asimd asimddp i8mm")
    assert look(other).isas == ("portable", "neon", "dotprod", "i8mm")
    mixed = replace(one)
    object.__setattr__(mixed, "words", {16: 1 << 1 | 1 << 13 | 1 << 14 | 1 << 20, 26: 0})
    assert look(mixed).isas == ("portable", "neon", "dotprod")


def test_only_one_half_of_half_precision(tmp_path: Path) -> None:
    for one in ("fphp", "asimdhp"):
        values = words(f"asimd {one}")
        machine = described(tmp_path, auxval=values.__getitem__, arch="aarch64")
        assert machine.isas == ("portable", "neon")
        assert machine.features == ("asimd", one)


def test_files_of_another_machine_are_not_believed() -> None:
    """Under user-mode emulation the files are the host's, but the register is emulated."""
    host, emulated = CPUS["graviton_2"], CPUS["raspberry_pi_4"]
    mixed = replace(emulated, cores=host.cores)
    machine = look(mixed, register=emulated.cores[0][0])
    assert (machine.cpu_name, machine.isas) == ("Cortex-A72", ("portable", "neon"))
    assert machine.core_kinds == ((0x410FD083, tuple(range(64))),)
    # Where the register names a core of the files, they add the other kinds.
    for kind in (A55, X1):
        assert len(look(CPUS["snapdragon_888"], register=kind).core_kinds) == 3


def test_a_system_that_says_nothing(tmp_path: Path) -> None:
    machine = described(tmp_path, arch="ARM64")
    assert machine.isas == ("portable", "neon")
    assert (machine.vendor, machine.cpu_name, machine.core_kinds) == ("unknown", "", ())
    assert (machine.l1d_bytes, machine.l2_bytes, machine.line_bytes) == (32 * KIB, 512 * KIB, 64)


@pytest.mark.parametrize(
    ("values", "brand", "isas", "core"),
    [
        (M1_SYSCTL, "Apple M1", "neon fp16 dotprod", "Firestorm"),
        (M2_SYSCTL, "Apple M2", "neon fp16 dotprod i8mm bf16", "Avalanche"),
        (M1_OLD_SYSCTL, "Apple M1", "neon fp16", "Firestorm"),
        ({}, "Apple M9", "neon", ""),
    ],
)
def test_macs(tmp_path: Path, values: dict[str, int], brand: str, isas: str, core: str) -> None:
    machine = described(tmp_path, affinity=range(8), ask=sysctl_of(values, brand))
    assert (machine.vendor, machine.cpu_name) == ("Apple", brand)
    assert machine.isas == ("portable", *isas.split())
    assert machine.fma_per_cycle["neon"] == (4 if core else 2)
    assert machine.loads_per_cycle == (3.0 if core else 2.0)
    if core:
        family = arm_cores.find_apple(values["hw.cpufamily"])
        assert family is not None and family.name == core
        assert machine.l1d_bytes == 128 * KIB


def test_wisdom_names_the_cores() -> None:
    names = {cpu_model(look(cpu)) for cpu in CPUS.values()}
    assert len(names) == len(CPUS) - 1, "Altra has the cores of Graviton 2"
    assert "aarch64 ARM 65/3340 Neoverse-N1" in names
    assert "aarch64 unknown 122/291 part 0x123" in names


def test_features_are_those_that_kernels_are_built_for() -> None:
    for isa in ISAS.values():
        if isa.machine in ("aarch64", "armv7l"):
            assert arm.ISA_FEATURES[isa.name] == isa.features


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x00000000410fd034", 0x410FD034),
        ("410fd034", 0x410FD034),
        ("0x0", None),
        ("-1", None),
        ("0xfffffffff", None),
        ("none", None),
        ("", None),
    ],
)
def test_register_files(tmp_path: Path, text: str, value: int | None) -> None:
    at = tmp_path / "sys/devices/system/cpu/cpu3/regs/identification"
    at.mkdir(parents=True)
    (at / "midr_el1").write_text(text + "\n")
    found = arm.midr.read(str(tmp_path), (2, 3), lambda: 0)
    assert found == ({} if value is None else {3: value})


def test_one_entry_for_all_processors(tmp_path: Path) -> None:
    """Kernels of the first years of AArch64 name the core once, after the last processor."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(
        "Processor\t: AArch64 Processor rev 2\nprocessor\t: 0\nprocessor\t: 1\n"
        "Features\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: AArch64\n"
        "CPU variant\t: 0x0\nCPU part\t: 0xd03\nCPU revision\t: 2\n"
    )
    assert arm.midr.read(str(tmp_path), (0, 1), lambda: 0) == {1: 0x410FD032}


def test_every_row_of_the_table_makes_sense() -> None:
    rows = [core for cores in arm_cores._CORES.values() for core in cores.values()]
    assert len(rows) > 40
    for core in rows:
        assert core.name and 1 <= core.fma <= 6 and 2 <= core.latency <= 9
        assert core.loads in (0.5, 1, 2, 3)
        assert 32 <= core.l1d <= 128 and core.l1d < core.l2
        assert core.l3 == 0 or core.l3 > core.l2
        assert core.line in (32, 64, 128, 256)
        assert not core.in_order or core.fma == 1
    assert set(arm_cores._CORES) <= set(arm_cores.IMPLEMENTERS)


def test_sysfs_goes_before_the_table() -> None:
    """Graviton 4 has twice the L2 of other Neoverse-V2; a system that describes no L3 has none."""
    tree = {
        f"/sys/devices/system/cpu/cpu0/cache/index{index}/{name}": text
        for index, (level, size) in enumerate((("1", "64K"), ("2", "2048K")))
        for name, text in (("level", level), ("type", "Unified"), ("size", size))
    }
    machine = look(CPUS["graviton_4"], **tree)
    assert (machine.l2_bytes, machine.l3_bytes) == (2048 * KIB, 0)


def test_half_of_the_caches_described(tmp_path: Path) -> None:
    at = tmp_path / "sys/devices/system/cpu/cpu0/cache/index0"
    at.mkdir(parents=True)
    for name, text in (("level", "1"), ("type", "Data"), ("size", "32K")):
        (at / name).write_text(text)
    core = arm_cores.find(0x413FD0C1)
    found = caches.read(str(tmp_path), 0, None, 64, no_sysctl, core)
    assert (found.l1d.bytes, found.l2.bytes, found.l3.bytes) == (32 * KIB, 1024 * KIB, 0)
    # The table also completes Apple's caches where sysctl gives only the line.
    fire = arm_cores.find(0x611F0231)
    ask: Callable[[str], bytes | None] = sysctl_of({"hw.cachelinesize": 128}, "Apple M1")
    found = caches.read(str(tmp_path / "no"), 0, None, 8, ask, fire)
    assert (found.l1d.bytes, found.l2.bytes, found.l2.cpus, found.line) == (
        128 * KIB, 12288 * KIB, 4, 128,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("in_order", "features", "tuning"),
    [
        (True, ("asimd", "fphp", "asimdhp"), "inorder"),  # Cortex-A55
        (True, ("asimd",), ""),  # Cortex-A53
        (False, ("asimd", "fphp", "asimdhp"), ""),
    ],
)
def test_kernels_for_in_order_cores(in_order: bool, features: tuple[str, ...], tuning: str) -> None:
    machine = look(CPUS["graviton_2"], 0, sysfs=True, cpuinfo=False)
    assert replace(machine, in_order=in_order, features=features).tuning == tuning


# AT_HWCAP of Linux on 32-bit Arm, or as 64-bit Linux shows it to 32-bit programs.
V7 = 0x3FB0D6  # half thumb fastmult vfp edsp neon vfpv3 tls vfpv4 idiva idivt vfpd32 lpae evtstrm


@pytest.mark.parametrize(
    ("part", "word", "name", "isas", "denied"),
    [
        (0xC07, V7, "Cortex-A7", "neon32", ()),
        (0xC0F, V7, "Cortex-A15", "neon32", ()),
        (0xC09, V7 & ~(1 << 16), "Cortex-A9", "", ()),  # no fused products
        (0xD03, V7, "Cortex-A53", "neon32", ()),
        (0xD0B, V7 | 3 << 22, "Cortex-A76", "neon32 half32", ()),
        (0xD0B, V7 | 1 << 22, "Cortex-A76", "neon32", ()),  # half precision of scalars alone
        (0xC09, V7 & ~(1 << 12), "Cortex-A9", "", ()),  # no NEON, as on Tegra 2
        (0xC07, V7 | 3 << 22, "Cortex-A7", "neon32", ("fphp", "asimdhp")),
    ],
)
def test_32_bit_arm(part: int, word: int, name: str, isas: str, denied: tuple[str, ...]) -> None:
    """Instruction sets follow from the bits of 32-bit Arm and from the cores."""
    lines = [
        f"processor\t: {i}\nCPU implementer\t: 0x41\nCPU part\t: {part:#x}\n" for i in range(4)
    ]
    tree = {"/proc/cpuinfo": "\n".join(lines), "/sys/devices/system/cpu/online": "0-3"}
    auxval = {16: word, 26: 0x1F}.get
    machine = from_files(tree, auxval=auxval, affinity=range(4), arch="armv7l")
    assert machine.isas == ("portable", *isas.split())
    assert machine.denied == denied
    assert (machine.vendor, machine.cpu_name) == ("ARM", name)
    assert {key.partition("/")[0] for key in machine.fma_per_cycle} == set(machine.isas)
    assert machine.usable_isas("neon32") == tuple(i for i in machine.isas if i != "half32")


HWCAP, HWCAP2 = 16, 26
FP = 1  # bit 0, which every system sets


def read(words: dict[int, int]) -> tuple[str, ...]:
    return hwcap.read(lambda kind: words.get(kind, 0), no_sysctl)


@pytest.mark.parametrize(
    ("word", "bit", "name"),
    [
        (HWCAP, 1, "asimd"),
        (HWCAP, 9, "fphp"),
        (HWCAP, 10, "asimdhp"),
        (HWCAP, 20, "asimddp"),
        (HWCAP, 22, "sve"),
        (HWCAP, 23, "asimdfhm"),
        (HWCAP2, 1, "sve2"),
        (HWCAP2, 13, "i8mm"),
        (HWCAP2, 14, "bf16"),
        (HWCAP2, 23, "sme"),
    ],
)
def test_bits(word: int, bit: int, name: str) -> None:
    assert read({HWCAP: FP} | {word: FP * (word == HWCAP) | 1 << bit}) == (name,)
    # The same bit of the other word means another thing.
    other = {HWCAP: HWCAP2, HWCAP2: HWCAP}[word]
    assert name not in read({HWCAP: FP} | {other: FP | 1 << bit})
    every = {HWCAP: (1 << 32) - 1, HWCAP2: (1 << 32) - 1}
    assert name in read(every)
    assert name not in read(every | {word: every[word] & ~(1 << bit)})


@pytest.mark.parametrize(
    ("bit", "name"), [(12, "neon"), (16, "vfpv4"), (22, "fphp"), (23, "asimdhp")]
)
def test_bits_of_32_bit_arm(bit: int, name: str) -> None:
    """The bits differ from AArch64's; a word of no bits means no features."""

    def of(word: int) -> tuple[str, ...]:
        return hwcap.read({HWCAP: word, HWCAP2: ~0}.get, no_sysctl, "armv7l")

    assert of(0) == ()
    assert of(1 << bit) == (name,)
    assert name not in of(~(1 << bit))


def test_sysctl_is_asked_where_there_is_no_vector() -> None:
    said = {"hw.optional.AdvSIMD": 1, "hw.optional.arm.FEAT_DotProd": 1}

    def ask(name: str) -> bytes | None:
        return said[name].to_bytes(4, "little") if name in said else None

    assert hwcap.read(lambda kind: 0, ask) == ("asimd", "asimddp")
    assert hwcap.read(lambda kind: int(kind == HWCAP) << 1, ask) == ("asimd",)


def test_what_every_program_may_use() -> None:
    assert hwcap.read(lambda kind: 0, no_sysctl) == ("asimd",)


def test_this_process() -> None:
    """The words of this very process, where it has any; zero on other machines."""
    found = _kernels.auxval(HWCAP)
    assert _kernels.auxval(999) == 0
    if canonical(here()) == "armv7l":
        assert found & 1 << 6, "floating point in registers"
        assert _kernels.midr() == 0
        return
    if canonical(here()) != "aarch64":
        assert (found, _kernels.midr()) == (0, 0)
        return
    assert found & 1 << 1, "a vector unit"
    assert bool(_kernels.midr()) == bool(found & 1 << 11)
