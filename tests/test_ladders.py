"""Architectures and their ladders, and what the registry builds for them."""

from __future__ import annotations

import pytest

from asm.registry import ISAS
from pplconv.architecture import (
    INSTRUCTION_SETS,
    LADDERS,
    canonical,
    here,
    ladder,
    of_process,
    owner,
)


@pytest.mark.parametrize(
    ("arch", "name"),
    [
        ("x86_64", "x86_64"),
        ("AMD64", "x86_64"),
        ("aarch64", "aarch64"),
        ("arm64", "aarch64"),
        ("ARM64", "aarch64"),
        ("i686", "i686"),
        ("armv7l", "armv7l"),
        ("armv8l", "armv7l"),
    ],
)
def test_one_name_each(arch: str, name: str) -> None:
    assert canonical(arch) == name
    assert ladder(arch) == LADDERS.get(name, ("portable",))


def test_owners() -> None:
    assert owner("avx2") == "x86_64"
    assert owner("neon") == "aarch64"
    assert owner("rvv") is None
    for arch, names in LADDERS.items():
        assert names[0] == "portable"
        assert {owner(name) for name in names[1:]} == {arch}, "no name is on two ladders"


def test_what_is_built_stands_on_its_architecture_s_ladder_in_order() -> None:
    for arch, names in LADDERS.items():
        built = [isa.name for isa in ISAS.values() if isa.machine in (None, arch)]
        assert built == [name for name in names if name in built]


def test_every_built_instruction_set_has_a_place() -> None:
    assert set(ISAS) <= set(INSTRUCTION_SETS)
    assert {isa.machine for isa in ISAS.values()} <= {None, *LADDERS}


def test_this_process() -> None:
    import platform
    import sys

    assert here() == of_process(platform.machine(), sys.maxsize)


@pytest.mark.parametrize(
    ("system", "bits", "name"),
    [
        ("aarch64", 64, "aarch64"),
        ("aarch64", 32, "armv7l"),
        ("armv8l", 32, "armv7l"),
        ("armv7l", 32, "armv7l"),
        ("armv6l", 32, "armv6l"),
        ("x86_64", 64, "x86_64"),
        ("x86_64", 32, "i686"),
        ("AMD64", 64, "AMD64"),
        ("i686", 32, "i686"),
        ("unknown", 32, "unknown"),
    ],
)
def test_a_process_of_32_bits_on_a_system_of_64(system: str, bits: int, name: str) -> None:
    assert of_process(system, (1 << (bits - 1)) - 1) == name
