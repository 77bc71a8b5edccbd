"""Instruction sets that a CPU has but its system withholds, and why."""

from __future__ import annotations

import pytest

from pplconv.machine.withheld import withheld
from tests.machine.recorded_x86 import SAPPHIRE_RAPIDS

AMX_BITS = 1 << 22 | 1 << 24 | 1 << 25
ALL = 0x602E7
ISAS = ("portable", "avx2", "avx512", "avx512vnni", "avx512bf16")


def found(isas, xcr0=ALL, answers=None):
    answers = SAPPHIRE_RAPIDS | (answers or {})
    return withheld(lambda leaf, sub: answers.get((leaf, sub), (0, 0, 0, 0)), lambda _: xcr0, isas)


def test_nothing_is_kept_back():
    assert found((*ISAS, "amx")) == ()
    assert withheld(lambda leaf, sub: None, lambda index: None, ("portable",)) == ()


def test_what_the_cpu_lacks_is_not_kept_back():
    eax, ebx, ecx, edx = SAPPHIRE_RAPIDS[7, 0]
    lacks = {(7, 0): (eax, ebx & ~(1 << 16), ecx, edx & ~AMX_BITS)}
    assert found(("portable", "avx2"), answers=lacks) == ()


@pytest.mark.parametrize(
    ("isas", "xcr0", "names"),
    [
        (("portable",), 0b11, ["avx2", "avx512", "amx"]),
        (("portable", "avx2"), 0b111, ["avx512", "amx"]),
        (ISAS, 0x2E7, ["amx"]),
    ],
)
def test_registers_that_are_not_saved(isas, xcr0, names):
    told = found(isas, xcr0)
    assert [name for name, _ in told] == names
    assert all("does not save" in why for _, why in told)


def test_a_system_without_xsave_is_not_asked():
    eax, ebx, ecx, edx = SAPPHIRE_RAPIDS[1, 0]
    answers = SAPPHIRE_RAPIDS | {(1, 0): (eax, ebx, ecx & ~(1 << 27), edx)}

    def fault(index):
        raise AssertionError("the instruction would fault")

    told = withheld(lambda leaf, sub: answers.get((leaf, sub), (0,) * 4), fault, ("portable",))
    assert [name for name, _ in told] == ["avx2", "avx512", "amx"]


def test_tiles_without_a_palette_and_refused_ones():
    assert found(ISAS, answers={(0x1D, 0): (0, 0, 0, 0)}) == (
        ("amx", "the CPU, or a virtual machine's, announces no usable palette"),
    )
    ((name, why),) = found(ISAS)
    assert name == "amx" and "refused" in why
