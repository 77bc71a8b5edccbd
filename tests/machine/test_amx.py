"""Tile registers: the answers needed from CPU and system, and the permission."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pplconv import _kernels
from pplconv.machine import amx, cpu
from tests.machine.recorded_x86 import SAPPHIRE_RAPIDS, Cpus
from tests.patience import PATIENCE

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
    # Not through PYTHONPATH: the package is found where this process found it.
    start = f"import runpy, sys; sys.path[:0] = {[p for p in sys.path if p]!r}; " + (
        f"runpy.run_path({str(CASE)!r}, run_name='__main__')"
    )
    command = [sys.executable, *options, "-c", start, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


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
