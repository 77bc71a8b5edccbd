"""One file and the memory in front of it, within one process."""

from __future__ import annotations

import errno
import json
import os
import stat
import warnings
from pathlib import Path

import pytest

from pplconv.wisdom import WisdomWarning, store, wisdom_files
from pplconv.wisdom.document import MAX_BYTES, dump
from pplconv.wisdom.entries import to_json
from pplconv.wisdom.store import Store
from tests.threads import at_once
from tests.wisdom.wisdom_case import CHOICE, caught, division, entry, finish, fresh, key, start


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_round_trip(path: Path) -> None:
    first = Store(str(path))
    assert first.entries() == {}
    assert not path.parent.exists(), "asking writes nothing"
    first.add({key(0): entry(1)})
    first.add({key(1): entry(2), key(0): entry(4, number=3)})
    expected = {key(1): entry(2), key(0): store.merge(entry(1), entry(4, number=3))}
    assert first.entries() == fresh(path) == expected
    assert list(fresh(path)) == list(expected)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert sorted(p.name for p in path.parent.iterdir()) == ["wisdom.json", "wisdom.json.lock"]


def test_memory_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    alone = Store(None)
    alone.add({key(): entry()})
    assert alone.entries() == {key(): entry()}
    alone.clear(disk=True)
    assert alone.entries() == {}
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_is_fixed_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = Store("w.json")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    found.add({key(): entry()})
    assert fresh(tmp_path / "w.json") == {key(): entry()}
    assert list((tmp_path / "below").iterdir()) == []


def test_the_file_is_read_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(path, dump({key(0): entry()}))
    reads = []
    monkeypatch.setattr(
        store, "read_file", lambda p, read=store.read_file: reads.append(p) or read(p)
    )
    found = Store(str(path))
    for _ in range(3):
        assert found.entries() == {key(0): entry()}
    assert len(reads) == 1
    found.add({key(1): entry()})
    found.add({key(2): entry()})
    assert len(reads) == 1, "nobody else wrote it meanwhile"
    Store(str(path)).add({key(3): entry()})
    assert len(reads) == 2
    found.add({key(4): entry()})
    assert len(reads) == 3, "somebody else did"
    assert set(fresh(path)) == {key(i) for i in range(5)}


def test_what_others_find_changes_nothing_here(path: Path) -> None:
    """Which plan a process makes does not depend on when another process writes."""
    mine, other = Store(str(path)), Store(str(path))
    mine.add({key(0): entry(1)})
    other.add({key(1): entry(1), key(0): entry(2, choice={"algorithm": "direct"})})
    mine.add({key(2): entry(1)})
    assert mine.entries() == {key(0): entry(1), key(2): entry(1)}
    assert fresh(path) == {
        key(0): entry(2, choice={"algorithm": "direct"}),
        key(1): entry(1),
        key(2): entry(1),
    }


def test_teams_of_two_processes_come_together(path: Path) -> None:
    mine, other = Store(str(path)), Store(str(path))
    mine.entries(), other.entries()
    mine.add({key(): entry(1)})
    other.add({key(): entry(2, number=7)})
    assert dict(fresh(path)[key()].teams) == {1: division(), 2: division(7)}


def test_a_choice_takes_its_own_teams_into_the_file(path: Path) -> None:
    mine, other = Store(str(path)), Store(str(path))
    mine.add({key(): entry(1, number=1)})
    other.add({key(): entry(8, choice={"algorithm": "direct"})})
    mine.add({key(): entry(2, number=2)})
    assert fresh(path)[key()].choice == CHOICE
    assert dict(fresh(path)[key()].teams) == {1: division(1), 2: division(2)}


def test_nothing_new_is_not_written(path: Path) -> None:
    found = Store(str(path))
    found.add({key(): entry(1, 2)})
    before = wisdom_files.stamp_of(str(path))
    found.add({key(): entry(2)})
    found.clear(disk=False)
    found.add({key(): entry(1)})
    assert wisdom_files.stamp_of(str(path)) == before
    assert set(found.entries()[key()].teams) == {1}


TROUBLES = {
    "damaged": (dump({key(): entry()})[:-20], "is damaged"),
    "cut short": (b'{\n"format": "ppl', "is damaged"),
    "zeros": (bytes(4096), "is damaged"),
    "no entries": (b'{"format": "pplconv wisdom", "version": 1}', "is damaged"),
    "foreign": (b"notes of mine\n", "is not a wisdom file"),
    "JSON": (b'{"name": "me"}', "is not a wisdom file"),
    "newer": (b'{"format": "pplconv wisdom", "version": 2, "x": 1}', "is of format version 2, "),
    "large": (b" " * (MAX_BYTES + 1), "cannot be read (larger than 4194304 bytes)"),
    "deep": (b"[" * 1_000_000, "is not a wisdom file"),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_one_warning_and_no_loss(path: Path, name: str) -> None:
    data, reason = TROUBLES[name]
    put(path, data)
    ours = reason == "is damaged"
    with caught() as texts:
        found = Store(str(path))
        for i in range(3):
            assert len(found.entries()) == i
            found.add({key(i): entry()})
        assert len(found.entries()) == 3
    assert len(texts) == 1
    assert texts[0].startswith(f"{path} {reason}")
    aside = path.with_name("wisdom.json.bak")
    if ours:  # set aside; a new file takes its place
        assert aside.read_bytes() == data
        assert len(fresh(path)) == 3
    else:  # not ours to touch
        assert not aside.exists()
        assert path.read_bytes() == data
        assert "left as it is" in texts[0]
        path.unlink()
        found.add({key(3): entry()})
        assert len(fresh(path)) == 4, "what was kept in memory is written when it can be"


def test_no_memory_to_read_a_file_sets_nothing_aside(path: Path, monkeypatch) -> None:
    found, other = Store(str(path)), Store(str(path))
    found.add({key(0): entry()})
    other.add({key(1): entry()})
    data = path.read_bytes()

    def fail(*args: object, **settings: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(json, "loads", fail)
        with pytest.raises(MemoryError):
            Store(str(path)).entries()
        with pytest.raises(MemoryError):
            found.add({key(2): entry()})
    assert path.read_bytes() == data
    assert not path.with_name("wisdom.json.bak").exists()
    found.add({key(3): entry()})
    assert list(fresh(path)) == [key(0), key(1), key(2), key(3)]


def test_a_newer_file_that_comes_later_is_left_alone(path: Path) -> None:
    found = Store(str(path))
    found.add({key(0): entry()})
    put(path, TROUBLES["newer"][0])
    with caught() as texts:
        found.add({key(1): entry()})
        found.add({key(2): entry()})
    assert len(texts) == 1 and "is of format version 2" in texts[0]
    assert path.read_bytes() == TROUBLES["newer"][0]
    assert len(found.entries()) == 3


def test_invalid_entries_are_left_out_with_one_warning(path: Path) -> None:
    bad = to_json(key(1), entry()) | {"tolerance": -1}
    document = {"format": "pplconv wisdom", "version": 1}
    entries = [to_json(key(0), entry()), bad, bad]
    put(path, json.dumps({**document, "entries": entries}).encode())
    with caught() as texts:
        found = Store(str(path))
        assert set(found.entries()) == {key(0)}
        found.add({key(2): entry()})
    assert texts == [f"{path} has 2 invalid entries: they are ignored"]
    with caught() as texts:
        assert set(fresh(path)) == {key(0), key(2)}
    assert texts == [], "the file is clean again"


def test_an_empty_file_is_taken_over(path: Path) -> None:
    put(path, b"")
    found = Store(str(path))
    found.add({key(): entry()})
    assert fresh(path) == {key(): entry()}


def test_warnings_as_errors_leave_everything_whole(path: Path) -> None:
    put(path, TROUBLES["foreign"][0])
    found = Store(str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(WisdomWarning):
            found.entries()
        found.add({key(): entry()})
    assert found.entries() == {key(): entry()}


@pytest.mark.parametrize("what", ["folder", "pipe", "device"])
def test_not_a_file(path: Path, what: str) -> None:
    path.parent.mkdir()
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/null")
    with caught() as texts:
        found = Store(str(path))
        found.add({key(): entry()})
        assert found.entries() == {key(): entry()}
    assert len(texts) == 1 and "not a regular file" in texts[0]
    assert not path.is_file()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with caught() as texts:
        found = Store(str(tmp_path / "file" / "below" / "wisdom.json"))
        found.add({key(): entry()})
        assert found.entries() == {key(): entry()}
    assert [("cannot be" in text, "Not a directory" in text) for text in texts] == [(True, True)]


def test_a_symbolic_link_stays(tmp_path: Path) -> None:
    real = tmp_path / "real" / "wisdom.json"
    link = tmp_path / "link.json"
    link.symlink_to(real)
    Store(str(link)).add({key(0): entry()})  # dangling, at first
    Store(str(link)).add({key(1): entry()})
    assert link.is_symlink() and not real.is_symlink()
    assert set(fresh(real)) == set(fresh(link)) == {key(0), key(1)}
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    with caught() as texts:
        Store(str(loop)).add({key(0): entry()})
    assert len(texts) == 1 and "cannot be read" in texts[0]


def test_two_names_of_one_file(tmp_path: Path) -> None:
    """Writers lock the same file, whichever name they know it by."""
    real, link = tmp_path / "wisdom.json", tmp_path / "link.json"
    link.symlink_to(real)
    stores = [Store(str(real)), Store(str(link))]
    with wisdom_files.locked(f"{real}.lock", 0.0):
        for found in stores:
            found._patient = False
            with caught() as texts:
                found.add({key(): entry()})
            assert len(texts) == 1 and "another process holds the lock" in texts[0]


def test_a_read_only_folder(tmp_path: Path) -> None:
    """In a process without root's powers, because permissions do not hinder root."""
    folder = tmp_path / "cache"
    put(folder / "wisdom.json", dump({key(0): entry()}))
    (folder / "wisdom.json").chmod(0o644)
    code = """
import os
from tests.wisdom.wisdom_case import caught, entry, key
from pplconv.wisdom.store import Store
import json
os.chdir(sys.argv[1])
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
with caught() as texts:
    found = Store("wisdom.json")
    found.path = "wisdom.json"  # the folders above may be closed to this user
    for i in range(1, 4):
        found.add({key(i): entry()})
    assert len(found.entries()) == 4
print(*texts, sep="\\n")
"""
    folder.chmod(0o555)
    try:
        lines = finish(start(code, folder))
    finally:
        folder.chmod(0o755)
    assert lines == [
        "wisdom.json cannot be written (Permission denied): wisdom is kept in memory only"
    ]
    assert fresh(folder / "wisdom.json") == {key(0): entry()}


@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace", "mkdir"])
def test_a_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    found = Store(str(path))
    if call != "mkdir":
        found.add({key(0): entry()})
        before = path.read_bytes()
    original = getattr(os, call)

    def full(where: object, *arguments: object, **options: object) -> object:
        if call == "open" and not str(where).endswith(".tmp"):
            return original(where, *arguments, **options)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, caught() as texts:
        patch.setattr(wisdom_files.os, call, full)
        found.add({key(1): entry()})
        found.add({key(2): entry()})
    assert texts == [
        f"{path} cannot be written (No space left on device): wisdom is kept in memory only"
    ]
    assert {key(1), key(2)} <= set(found.entries())
    if call == "mkdir":
        assert not path.exists()
    else:
        assert path.read_bytes() == before
        assert not list(path.parent.glob("*.tmp")) and not list(path.parent.glob(".*.tmp"))
    found.add({key(3): entry()})
    assert {key(1), key(2), key(3)} <= set(fresh(path)), "written as soon as there is room"


def test_a_lock_that_is_never_free(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []
    locked = wisdom_files.locked

    def counted(name: str, seconds: float) -> object:
        waits.append(seconds)
        return locked(name, min(seconds, 0.02))

    monkeypatch.setattr(wisdom_files, "locked", counted)
    found = Store(str(path))
    found.add({key(0): entry()})
    with locked(f"{path}.lock", 0.0), caught() as texts:
        found.add({key(1): entry()})
        found.add({key(2): entry()})
    assert len(texts) == 1 and "another process holds the lock" in texts[0]
    assert waits == [wisdom_files.LOCK_SECONDS, wisdom_files.LOCK_SECONDS, 0.0], "waited for once"
    found.add({key(3): entry()})
    assert set(fresh(path)) == {key(i) for i in range(4)}
    found.add({key(4): entry()})
    assert waits[-1] == wisdom_files.LOCK_SECONDS, "patient again"


def test_threads_lose_nothing(path: Path) -> None:
    found = Store(str(path))

    def work(thread: int) -> None:
        for i in range(10):
            found.add({key(thread * 10 + i): entry(), key(1000): entry(thread + 1)})
            assert key(thread * 10 + i) in found.entries()

    at_once(8, work)
    assert dict(fresh(path)) == dict(found.entries())
    assert len(fresh(path)) == 81
    assert set(fresh(path)[key(1000)].teams) == set(range(1, 9))


def test_clear_leaves_the_file(path: Path) -> None:
    found = Store(str(path))
    found.add({key(0): entry()})
    found.clear(disk=False)
    assert found.entries() == {}
    found.add({key(1): entry()})
    assert set(found.entries()) == {key(1)}, "what was forgotten does not come back"
    assert set(fresh(path)) == {key(0), key(1)}


def test_clear_before_anything_was_read(path: Path) -> None:
    put(path, dump({key(0): entry()}))
    found = Store(str(path))
    found.clear(disk=False)
    assert found.entries() == {}


def test_clear_the_file(path: Path) -> None:
    found = Store(str(path))
    found.clear(disk=True)  # there is none yet
    found.add({key(0): entry()})
    found.clear(disk=True)
    assert not path.exists()
    assert found.entries() == fresh(path) == {}
    found.add({key(1): entry()})
    assert set(fresh(path)) == {key(1)}


@pytest.mark.parametrize("name", TROUBLES)
def test_clear_removes_only_what_is_ours(path: Path, name: str) -> None:
    data, reason = TROUBLES[name]
    put(path, data)
    with caught() as texts:
        Store(str(path)).clear(disk=True)
    if reason == "is damaged":
        assert not path.exists() and texts == []
    else:
        assert path.read_bytes() == data
        assert len(texts) == 1 and texts[0].endswith("it is not removed")


def test_clear_says_so_if_it_cannot(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Store(str(path))
    found.add({key(0): entry()})
    monkeypatch.setattr(wisdom_files, "LOCK_SECONDS", 0.02)
    with wisdom_files.locked(f"{path}.lock", 0.0), pytest.raises(TimeoutError):
        found.clear(disk=True)
    assert found.entries() == {}
    assert set(fresh(path)) == {key(0)}
