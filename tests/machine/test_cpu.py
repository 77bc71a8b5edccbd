"""Decoding CPUID: identity, instruction sets, FMA rates."""

from __future__ import annotations

from typing import Any

import pytest

from pplconv.machine import cpu
from tests.machine.conftest import Tree
from tests.machine.recorded_x86 import (
    AMX_BF16,
    AMX_INT8,
    AMX_TILE,
    AVX2,
    AVX512_BF16,
    AVX_VNNI,
    AVX_VNNI_INT8,
    BMI2,
    Cpus,
    FakeCpu,
)

ALL = ("portable", "avx2", "avx512")
WHOLE = ("portable", "avx2", "avxvnni", "avx512", "avx512vnni", "avx512bf16", "amx")


def identify(fake: FakeCpu) -> cpu.Cpu:
    return cpu.identify(fake.cpuid, fake.xgetbv, lambda: True)


@pytest.mark.parametrize(
    ("name", "vendor", "family", "model", "isas"),
    [
        ("zen4", "AuthenticAMD", 0x19, 0x11, ALL),
        ("genoa", "AuthenticAMD", 0x19, 0x11, (*ALL, "avx512vnni", "avx512bf16")),
        ("granite_rapids", "GenuineIntel", 6, 0xAD, WHOLE),
        ("ice_lake", "GenuineIntel", 6, 0x6A, (*ALL, "avx512vnni")),
        ("alder_lake", "GenuineIntel", 6, 0x97, (*ALL[:2], "avxvnni")),
        ("sierra_forest", "GenuineIntel", 6, 0xAF, (*ALL[:2], "avxvnni", "avxvnniint8")),
        ("skylake_x", "GenuineIntel", 6, 0x55, ALL),
        ("haswell", "GenuineIntel", 6, 0x3C, ALL[:2]),
        ("sandy_bridge", "GenuineIntel", 6, 0x2A, ALL[:1]),
        ("core2", "GenuineIntel", 6, 0x0F, ALL[:1]),
    ],
)
def test_recorded_cpus(
    fake_cpu: Cpus,
    name: str,
    vendor: str,
    family: int,
    model: int,
    isas: tuple[str, ...],
) -> None:
    found = identify(fake_cpu(name))
    assert (found.vendor, found.family, found.model, found.isas) == (vendor, family, model, isas)


def test_brand_is_trimmed(fake_cpu: Cpus) -> None:
    assert identify(fake_cpu("skylake_x")).name == "Intel(R) Xeon(R) Platinum 8180 CPU @ 2.50GHz"
    assert identify(fake_cpu("zen4")).name == "AMD EPYC 9654 96-Core Processor"
    assert identify(fake_cpu("zen4", last_extended=0x80000001)).name == ""


@pytest.mark.parametrize(
    ("xcr0", "isas"),
    [
        (0x07, ALL[:2]),  # ymm saved, zmm not
        (0x67, ALL[:2]),  # opmask and upper halves, but not zmm16-31
        (0xC7, ALL[:2]),  # no opmask
        (0xE7, ALL),
        (0xE3, ALL[:1]),  # zmm state without the ymm state below it
        (0x03, ALL[:1]),  # only SSE
        (0xE5, ALL[:1]),  # upper halves without the SSE registers below them
        (0x00, ALL[:1]),
        (None, ALL[:1]),
    ],
)
def test_system_must_save_the_registers(
    fake_cpu: Cpus, xcr0: int | None, isas: tuple[str, ...]
) -> None:
    assert identify(fake_cpu("skylake_x", xcr0=xcr0)).isas == isas


@pytest.mark.parametrize(
    ("register", "value", "lost"),
    [
        ("xcr0", 0x2E7, "amx"),
        ("xcr0", 0x202E7, "amx"),  # the configuration of tiles saved, the tiles not
        ("xcr0", 0x402E7, "amx"),
        ("xcr0", 0x60207, "avx512 avx512vnni avx512bf16 amx"),
        ("features7", AVX2 | BMI2, "avx512 avx512vnni avx512bf16 amx"),
        ("features7c", 0, "avx512vnni avx512bf16 amx"),
        ("features7_1", (AVX_VNNI, 0), "avx512bf16 amx"),
        ("features7_1", (AVX512_BF16, 0), "avxvnni"),
        ("features7_1", None, "avxvnni avx512bf16 amx"),
        ("features7d", AMX_TILE | AMX_INT8, "amx"),
        ("features7d", AMX_TILE | AMX_BF16, "amx"),
        ("features7d", AMX_INT8 | AMX_BF16, "amx"),
        ("tiles", (0, 0, 0), "amx"),
        ("tiles", (1024 << 16 | 8192, 4 << 16 | 64, 16), "amx"),  # four tiles
        ("tiles", (1024 << 16 | 8192, 8 << 16 | 64, 8), "amx"),  # tiles of eight rows
        ("last", 0x1C, "amx"),
    ],
)
def test_products_of_narrow_types_need_every_part(
    fake_cpu: Cpus, register: str, value: Any, lost: str
) -> None:
    found = identify(fake_cpu("granite_rapids", **{register: value})).isas
    assert found == tuple(isa for isa in WHOLE if isa not in lost.split())


def test_int8_products_need_those_before_them(fake_cpu: Cpus) -> None:
    lone = fake_cpu("sierra_forest", features7_1=(0, AVX_VNNI_INT8))
    assert identify(lone).isas == ALL[:2]


@pytest.mark.parametrize("bit", [16, 17, 30, 31])
def test_avx512_needs_every_part(fake_cpu: Cpus, bit: int) -> None:
    full = fake_cpu("zen4")
    assert identify(fake_cpu("zen4", features7=full.features7 & ~(1 << bit))).isas == ALL[:2]


@pytest.mark.parametrize(
    ("register", "bit"), [("features1", 12), ("features1", 28), ("features7", 5), ("features7", 8)]
)
def test_avx2_needs_every_part(fake_cpu: Cpus, register: str, bit: int) -> None:
    value = getattr(fake_cpu("zen4"), register) & ~(1 << bit)
    assert identify(fake_cpu("zen4", **{register: value})).isas == ALL[:1]


def test_xgetbv_is_not_executed_without_osxsave(fake_cpu: Cpus) -> None:
    full = fake_cpu("zen4")
    hidden = fake_cpu("zen4", features1=full.features1 & ~(1 << 27))
    assert identify(hidden).isas == ALL[:1]
    assert hidden.xgetbv_calls == 0  # the instruction would fault
    assert identify(full).isas == ALL
    assert full.xgetbv_calls > 0


def test_leaf_above_the_last_is_not_believed(fake_cpu: Cpus) -> None:
    fake = fake_cpu("core2")
    assert fake.cpuid(7, 0)[1] == 0xDEADBEEF
    assert cpu.leaf(fake.cpuid, 7) == (0, 0, 0, 0)
    assert cpu.leaf(fake.cpuid, 0x8000001D) == (0, 0, 0, 0)


def test_extended_family_counts_only_from_15() -> None:
    def fake(signature: int) -> Any:
        return lambda leaf, sub: {0: (1, *[0x20202041] * 3), 1: (signature, 0, 0, 0)}.get(
            leaf, (0, 0, 0, 0)
        )

    assert cpu.identify(fake(0x00100F42), lambda i: 0).family == 0x10
    assert cpu.identify(fake(0x00100F42), lambda i: 0).model == 0x04
    # Family 5: neither extension applies.
    assert cpu.identify(fake(0x00A1_0543), lambda i: 0).family == 5
    assert cpu.identify(fake(0x00A1_0543), lambda i: 0).model == 4


def test_no_cpuid_instruction() -> None:
    assert cpu.identify(lambda leaf, sub: None, lambda index: None) == cpu.Cpu()


@pytest.mark.parametrize(
    ("arch", "expected"),
    [("x86_64", True), ("AMD64", True), ("i686", True), ("aarch64", False), ("arm64", False)],
)
def test_is_x86(arch: str, expected: bool) -> None:
    assert cpu.is_x86(arch) is expected


def test_32_bit_arm_identity_from_cpuinfo(tree: Tree) -> None:
    tree.file(
        "/proc/cpuinfo",
        "processor\t: 0\nCPU implementer\t: 0x48\nCPU architecture: 8\nCPU part\t: 0xd01\n\n"
        "processor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c",
    )
    assert cpu.from_cpuinfo(tree.root) == cpu.Cpu("HiSilicon", "", 8, 0xD01, ("portable",))


def test_nonsense_in_cpuinfo(tree: Tree) -> None:
    tree.file("/proc/cpuinfo", "CPU implementer : 0xzz\nCPU part : what\n:::\nmodel name : RISC")
    assert cpu.from_cpuinfo(tree.root) == cpu.Cpu("unknown", "RISC", 0, 0, ("portable",))
