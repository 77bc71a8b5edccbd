"""CPUs that threads of other processes are bound to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pplconv.machine import bound_cpus
from tests.programs import started

CPUS = range(8)
KERNEL_THREAD = 0x04208040


class System:
    """Processes with their threads' masks."""

    def __init__(self, folder: Path) -> None:
        self.root = str(folder)
        self.masks: dict[int, set[int]] = {}
        (folder / "proc" / "sys").mkdir(parents=True)

    def process(
        self, number: int, *masks: set[int], flags: int = 0x400140, state: str = "S"
    ) -> None:
        folder = Path(self.root, "proc", str(number))
        for thread, mask in enumerate(masks, number):
            (folder / "task" / str(thread)).mkdir(parents=True)
            self.masks[thread] = mask
        fields = f"{state} 1 {number} {number} 0 -1 {flags} 100 0"
        (folder / "stat").write_text(f"{number} (a) S (b 1 2) {fields}\n")

    def bound(self, usable=CPUS) -> frozenset[int]:
        return bound_cpus(usable, self.root, self.ask)

    def ask(self, thread: int) -> set[int]:
        if thread not in self.masks:
            raise ProcessLookupError(thread)
        return self.masks[thread]


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


def test_every_thread_counts(system: System) -> None:
    system.process(10, set(CPUS), {3}, {5, 6})
    system.process(20, {0})
    assert system.bound() == {0, 3, 5, 6}


def test_wide_masks_bind_nobody(system: System) -> None:
    system.process(10, set(CPUS), set(range(7)), set(range(5)))
    assert system.bound() == set()
    system.process(20, set(range(4)))
    assert system.bound() == set(range(4))


def test_only_usable_cpus_count(system: System) -> None:
    system.process(10, {6, 7, 8, 9})
    assert system.bound() == {6, 7}
    assert system.bound(range(6)) == set()
    assert system.bound(range(6, 10)) == set()  # as wide as the usable CPUs


def test_threads_of_the_kernel_and_ended_ones_do_not_count(system: System) -> None:
    system.process(2, {1}, flags=KERNEL_THREAD)
    system.process(10, {2}, state="Z")
    system.process(20, {3})
    assert system.bound() == {3}


def test_what_cannot_be_read_is_left_out(system: System, tmp_path: Path) -> None:
    system.process(10, {1})
    system.process(20, {2})
    system.process(30, {3})
    del system.masks[10]  # it has just ended
    (tmp_path / "proc" / "20" / "stat").write_text("20 (")
    assert system.bound() == {3}
    assert bound_cpus(CPUS, str(tmp_path / "nothing")) == set()


def test_a_system_without_masks_tells_nothing(monkeypatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert bound_cpus(CPUS) == set()


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
def test_a_bound_process_is_seen() -> None:
    usable = sorted(os.sched_getaffinity(0))
    code = (
        "import os, sys\n"
        f"try: os.sched_setaffinity(0, [{usable[-1]}])\n"
        "except OSError: pass\n"
        "print(*os.sched_getaffinity(0), flush=True); sys.stdin.read()\n"
    )
    with started("-I", "-c", code, stdin=subprocess.PIPE, stderr=None) as child:
        assert child.stdin and child.stdout
        mask = {int(cpu) for cpu in child.stdout.readline().split()}
        found = bound_cpus(usable)
        child.stdin.close()
    # Unless the system refused the binding, or there is no other CPU.
    assert usable[-1] in found or 2 * len(mask) > len(usable)
    assert found <= set(usable)
