"""Reading, replacing and locking files, whatever is in them."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pplconv.wisdom import wisdom_files
from tests.patience import PATIENCE


def listing(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def test_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    data, stamp = wisdom_files.read(str(path), 100)
    assert data == b"x" * 100
    assert stamp == wisdom_files.stamp_of(str(path))
    with pytest.raises(wisdom_files.TooLarge):
        wisdom_files.read(str(path), 99)
    with pytest.raises(FileNotFoundError):
        wisdom_files.read(str(tmp_path / "none"), 100)
    assert wisdom_files.stamp_of(str(tmp_path / "none")) is None


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # a reader would wait for a writer
    for path in (str(tmp_path), str(tmp_path / "pipe"), "/dev/zero"):
        with pytest.raises(wisdom_files.NotAFile):
            wisdom_files.read(path, 100)


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(wisdom_files.NotAFile):
            wisdom_files.replace(str(tmp_path / name), b"", 0o600)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert listing(tmp_path) == ["folder", "pipe"]


def test_replace(tmp_path: Path) -> None:
    path = tmp_path / "file"
    first = wisdom_files.replace(str(path), b"1", 0o600)
    assert first == wisdom_files.stamp_of(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    second = wisdom_files.replace(str(path), b"2", 0o600)
    assert second == wisdom_files.stamp_of(str(path)) != first
    assert path.read_bytes() == b"2"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644, "permissions given once stay"
    assert listing(tmp_path) == ["file"]


@pytest.mark.parametrize("call", ["write", "fsync", "replace", "open", "fstat"])
def test_a_failed_replacement_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(wisdom_files.os, call, full)
        with pytest.raises(OSError, match="No space left"):
            wisdom_files.replace(str(path), b"new", 0o600)
    assert path.read_bytes() == b"old"
    assert listing(tmp_path) == ["file"]


def test_writes_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may write less than it was given."""
    write = os.write
    monkeypatch.setattr(wisdom_files.os, "write", lambda fd, data: write(fd, data[:7]))
    wisdom_files.replace(str(tmp_path / "file"), bytes(range(100)), 0o600)
    assert (tmp_path / "file").read_bytes() == bytes(range(100))


def test_new_folders_are_private(tmp_path: Path) -> None:
    wisdom_files.make_folder(str(tmp_path / "a" / "b"))
    wisdom_files.make_folder(str(tmp_path / "a" / "b"))
    for folder in (tmp_path / "a", tmp_path / "a" / "b"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        wisdom_files.make_folder(str(tmp_path / "file" / "below"))


def test_only_old_leftovers_are_removed(tmp_path: Path) -> None:
    names = (".pplconv-wisdom-1-ab.tmp", ".pplconv-wisdom-2-cd.tmp", "other.tmp", "wisdom.json")
    for name in names:
        (tmp_path / name).touch()
        if name != names[1]:
            os.utime(tmp_path / name, (time.time() - 7200,) * 2)
    wisdom_files.remove_stale(str(tmp_path))
    assert listing(tmp_path) == sorted(names[1:])
    wisdom_files.remove_stale(str(tmp_path / "none"))


def test_lock_keeps_others_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "lock")
    now = [1000.0]
    clock = SimpleNamespace(
        monotonic=lambda: now[0], sleep=lambda seconds: now.append(now.pop() + seconds)
    )
    monkeypatch.setattr(wisdom_files, "time", clock)
    with wisdom_files.locked(path, 0.0):
        assert now == [1000.0]
        refused = pytest.raises(TimeoutError, match="another process holds the lock")
        with refused, wisdom_files.locked(path, 60.0):
            pytest.fail("two of them")
        assert 1060.0 <= now[0] < 1062.0
    with wisdom_files.locked(path, 0.0):
        pass
    assert not wisdom_files._held


def test_lock_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "lock")
    entered, waits, order = threading.Event(), threading.Event(), []

    def sleep(seconds: float) -> None:
        waits.set()
        time.sleep(seconds)

    def hold() -> None:
        with wisdom_files.locked(path, 0.0):
            entered.set()
            assert waits.wait(PATIENCE)
            order.append("first")

    monkeypatch.setattr(
        wisdom_files, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    )
    thread = threading.Thread(target=hold)
    thread.start()
    assert entered.wait(PATIENCE)
    try:
        with wisdom_files.locked(path, PATIENCE):
            order.append("second")
    finally:
        waits.set()
        thread.join(PATIENCE)
    assert order == ["first", "second"]


def test_lock_ends_with_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with pytest.raises(KeyError), wisdom_files.locked(path, 0.0):
        raise KeyError
    with wisdom_files.locked(path, 0.0):
        pass


def test_where_no_locks_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "lock")

    def unknown(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", unknown)
        with wisdom_files.locked(path, 0.0), wisdom_files.locked(path, 0.0):
            pass
    with monkeypatch.context() as patch:
        patch.setattr(wisdom_files, "_LOCKS", False)
        with wisdom_files.locked(path, 0.0), wisdom_files.locked(path, 0.0):
            pass
    assert not wisdom_files._held


def test_other_errors_of_locks_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(fd: int, operation: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(fcntl, "flock", broken)
    with pytest.raises(OSError, match="broken"), wisdom_files.locked(str(tmp_path / "lock"), 1.0):
        pytest.fail("not locked")


def test_a_child_lets_go_and_the_parent_holds_on(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with wisdom_files.locked(path, 0.0):
        (fd,) = wisdom_files._held
        copy = os.dup(fd)  # as fork leaves the parent with one
        wisdom_files.close_inherited_locks()
        assert not wisdom_files._held
        with pytest.raises(OSError):
            os.fstat(fd)
        with pytest.raises(TimeoutError), wisdom_files.locked(path, 0.0):
            pytest.fail("the lock went with the child's copy")
        os.close(copy)
    with wisdom_files.locked(path, 0.0):
        pass
