"""Recorded machines whose files are missing, empty, garbage or contradict each other."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pplconv.config import Settings
from pplconv.machine import Machine
from pplconv.runtime import default_threads
from tests.machine.recorded import MACHINES, MOUNTS_V2, Recording

CONTENTS: dict[str, bytes] = {
    "empty": b"",
    "bytes": b"\x00\xff\xfe\x80 \n\n",
    "words": b"unknown error :: - / ?",
    "minus": b"-1\n",
    "zero": b"0\n",
    "one id": b"3\n",
    "ids that do not exist": b"200-210\n",
    "half a list": b"0-3,\n",
    "endless list": b"0-4294967295\n",
    "endless number": b"9" * 5000,
    "large number": b"99999999999999999999999999 1\n",
    "colons": b"MemTotal:\nprocessor:\nNode 0 MemTotal: -5 kB\n::::\n0::\n",
}


def facts(name: str) -> Recording:
    machine = MACHINES[name]()
    machine.files |= {
        "/proc/self/cgroup": "0::/job",
        "/proc/self/mountinfo": MOUNTS_V2,
        "/sys/fs/cgroup/job/cpu.max": "350000 100000",
        "/sys/fs/cgroup/job/cpuset.cpus.effective": "0-7",
        "/proc/self/status": "Cpus_allowed_list:\t0-7",
    }
    return machine


@pytest.fixture(params=["laptop", "board"])
def laid(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Recording]:
    machine = facts(request.param)
    machine.lay(tmp_path)
    return tmp_path, machine


def check(root: Path, machine: Recording, affinity: list[int] | None) -> Machine:
    """Check what holds for every machine, however damaged its files are."""
    found = machine.described(root, affinity)
    listed = [cpu for core in found.cores for cpu in core]
    assert len(listed) == len(set(listed)) >= 1
    assert sorted(cpu for package in found.packages for cpu in package) == sorted(listed)
    for groups in (found.cores, found.packages):
        flat = [cpu for group in groups for cpu in group]
        assert len(flat) == len(set(flat))
        assert all(group == tuple(sorted(group)) != () for group in groups)
    assert set(found.efficiency_cores) < set(listed)
    usable = [cpu for core in found.usable_cores() for cpu in core]
    assert sorted(usable) == list(found.affinity)
    assert len(found.node_ids) == len(found.numa_nodes) == len(found.node_memory) >= 1
    on_nodes = [cpu for node in found.node_ids for core in found.usable_cores(node) for cpu in core]
    assert sorted(on_nodes) == [cpu for cpu in found.affinity if found.node_of(cpu) is not None]
    assert min(found.l1d_bytes, found.l2_bytes, found.line_bytes) > 0
    assert min(found.l3_bytes, found.memory_bytes, *found.node_memory) >= 0
    assert found.quota is None or found.quota > 0
    assert 1 <= default_threads(Settings(), found) <= len(found.affinity)
    assert Machine(**found.as_dict()) == found
    return found


def kinds_of_files(root: Path) -> dict[str, list[Path]]:
    """Group files that differ only in the CPU or node."""
    kinds: dict[str, list[Path]] = {}
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        kind = re.sub(r"\d+", "#", str(path.relative_to(root)))
        kinds.setdefault(kind, []).append(path)
    return kinds


@contextmanager
def kept(paths: list[Path]) -> Iterator[None]:
    """Put the files back at the end."""
    before = {path: path.read_bytes() for path in paths}
    try:
        yield
    finally:
        for path, content in before.items():
            if path.is_dir():
                path.rmdir()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def test_undamaged(laid: tuple[Path, Recording]) -> None:
    found = check(*laid, list(range(8)))
    assert found.quota == 3.5
    assert len(kinds_of_files(laid[0])) > 20


@pytest.mark.sampled(7)
@pytest.mark.parametrize("damage", [*CONTENTS, "missing", "a directory"])
def test_one_kind_of_file(laid: tuple[Path, Recording], damage: str) -> None:
    """Damage each kind of file, for one CPU and for all."""
    root, machine = laid
    for paths in kinds_of_files(root).values():
        for chosen in (paths[:1], paths):
            with kept(chosen):
                for path in chosen:
                    path.unlink()
                    if damage == "a directory":
                        path.mkdir()
                    elif damage != "missing":
                        path.write_bytes(CONTENTS[damage])
                check(root, machine, [0, 1, 2, 7])


@pytest.mark.parametrize("folder", ["sys", "proc", "sys/devices/system/node", "sys/fs"])
def test_file_system_missing(laid: tuple[Path, Recording], folder: str) -> None:
    root, machine = laid
    shutil.rmtree(root / folder)
    check(root, machine, [0, 1, 2, 7])


@pytest.mark.sampled(13)
@pytest.mark.parametrize("seed", range(8))
def test_files_that_contradict_each_other(laid: tuple[Path, Recording], seed: int) -> None:
    """Well-formed lists and numbers in the wrong places, with garbage between them."""
    root, machine = laid
    random_source = random.Random(seed)
    lists = [b"0", b"0-1", b"1-6", b"2,5,9", b"0-19", b"12-19", b"63", b"1", b"2", b"3", b"Data"]
    contents = [*lists, *CONTENTS.values()]
    paths = [path for some in kinds_of_files(root).values() for path in some]
    for share in (0.05, 0.3, 1.0):
        damaged = [path for path in paths if random_source.random() < share]
        for path in damaged:
            path.write_bytes(random_source.choice(contents))
        check(root, machine, [0, 1, 2, 7])
        check(root, machine, None)


def test_siblings_known_to_only_one_of_them(tmp_path: Path) -> None:
    """The list of a core's first thread is unreadable; that of its second names both."""
    machine = facts("laptop")
    machine.lay(tmp_path)
    topology = tmp_path / "sys/devices/system/cpu/cpu0/topology"
    for name in ("thread_siblings_list", "core_cpus_list"):
        (topology / name).write_text("?")
    assert check(tmp_path, machine, [0, 1]).cores[:2] == ((0, 1), (2, 3))
    topology = tmp_path / "sys/devices/system/cpu/cpu12/topology"
    for name in ("thread_siblings_list", "core_cpus_list"):
        (topology / name).unlink()
    assert check(tmp_path, machine, [0, 1]).cores[6:8] == ((12,), (13,))


def test_package_lists_of_some_cpus_only(tmp_path: Path) -> None:
    machine = facts("laptop")
    machine.packages = [list(range(12)), list(range(12, 20))]
    machine.lay(tmp_path)
    for cpu in range(12):
        for name in ("core_siblings_list", "package_cpus_list"):
            (tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology/{name}").unlink()
    found = check(tmp_path, machine, [0])
    assert found.packages == (tuple(range(12)), tuple(range(12, 20)))
