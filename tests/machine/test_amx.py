"""Tile registers: answers of CPU and system, the permission; and instruction sets kept back."""

from __future__ import annotations

from pathlib import Path

import pytest

from pplconv import _kernels
from pplconv.machine import amx, cpu
from pplconv.machine.withheld import withheld
from tests.machine.recorded_x86 import SAPPHIRE_RAPIDS, Cpus
from tests.programs import finding, output

Answers = dict[tuple[int, int], tuple[int, int, int, int]]

XCR0 = 0x602E7


def asked(changes: Answers | None = None, xcr0: int = XCR0) -> bool:
    """Return whether tiles are found on a CPU with these answers."""
    answers = SAPPHIRE_RAPIDS | (changes or {})
    return amx.has_tiles(lambda leaf, sub: answers.get((leaf, sub), (0, 0, 0, 0)), xcr0)


def test_a_cpu_that_has_them() -> None:
    assert asked()


@pytest.mark.parametrize("bit", [22, 24, 25])
def test_every_feature_is_needed(bit: int) -> None:
    eax, ebx, ecx, edx = SAPPHIRE_RAPIDS[7, 0]
    assert not asked({(7, 0): (eax, ebx, ecx, edx & ~(1 << bit))})


@pytest.mark.parametrize("xcr0", [0x2E7, 0x202E7, 0x402E7, 0])
def test_the_system_must_save_them(xcr0: int) -> None:
    assert not asked(xcr0=xcr0)


@pytest.mark.parametrize(
    "changes",
    [
        {(0x1D, 0): (0, 0, 0, 0), (0x1D, 1): (0, 0, 0, 0)},  # announced without palettes
        {(0x1D, 0): (0, 0, 0, 0)},
        {(0x1D, 1): (0, 0, 0, 0)},
        {(0x1D, 1): (8192 | 1024 << 16, 64 | 4 << 16, 16, 0)},
        {(0x1D, 1): (8192 | 1024 << 16, 32 | 8 << 16, 16, 0)},
        {(0x1D, 1): (8192 | 1024 << 16, 64 | 8 << 16, 8, 0)},
        {(0, 0): (0x1C, 0x756E6547, 0x6C65746E, 0x49656E69)},  # the leaf is beyond the last
    ],
)
def test_virtual_machines_without_palettes(changes: Answers) -> None:
    assert not asked(changes)


def test_no_cpuid() -> None:
    assert not amx.has_tiles(lambda leaf, sub: None, XCR0)


def test_the_permission_is_asked_for_last(fake_cpu: Cpus) -> None:
    """The permission restricts signal stacks, so it is asked for only if all else is there."""
    calls = []

    def permit() -> bool:
        calls.append(True)
        return True

    for name in ("zen4", "haswell", "core2"):
        fake = fake_cpu(name)
        assert "amx" not in cpu.identify(fake.cpuid, fake.xgetbv, permit).isas
    assert not calls


def test_refused_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([False, True])
    amx.permitted.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(_kernels, "permit_tiles", lambda: next(answers))
        assert not amx.permitted()
        assert not amx.permitted()
    amx.permitted.cache_clear()


# The program of each process: reports whether it may use tiles, and computes.
CASE = Path(__file__).with_name("tile_process.py")


def ran(how: str, *options: str) -> list[str]:
    """Words that a fresh process prints; it must end well."""
    code = finding(f"import runpy\nrunpy.run_path({str(CASE)!r}, run_name='__main__')")
    return output(*options, "-c", code, how).split()


def test_with_a_fault_handler() -> None:
    """Python's own alternate stack may be too small; then tiles are not used."""
    level, result = ran("plain", "-X", "faulthandler")
    assert level in ("amx", "without")
    assert result == "right"


def test_with_a_small_alternate_stack() -> None:
    """The request is refused, and everything works without tiles."""
    assert ran("small-stack") == ["without", "right"]


def test_in_threads_and_children() -> None:
    """Threads and children share the process's permission; a child does not ask again."""
    plain, result = ran("plain")
    assert result == "right"
    assert ran("threads") == [plain, *["right"] * 4]
    assert ran("fork") == [plain, plain, "right", "right"]


def test_the_request_refused_by_a_filter() -> None:
    """As old systems and filters of system calls do: an error number, and no signal."""
    assert ran("filter") == ["without", "right"]


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
