"""Kept results of a build are known by contents, never by times, and only once they are whole."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from asm.kept import Kept, dependencies, in_parallel
from tests.patience import PATIENCE


def test_names_are_read_as_compilers_write_them(tmp_path):
    rule = tmp_path / "rule.d"
    rule.write_text("a.o: a.c /with\\ space/b.h \\\n  c\\#d.h \\\n  $$e.h\n")
    assert dependencies(rule) == [Path(n) for n in ("a.c", "/with space/b.h", "c#d.h", "$e.h")]


def test_a_made_file_is_current(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("one")
    kept = Kept(target, tmp_path / "record", ["compile"])
    assert not kept.is_current()
    kept.make(lambda: target.write_text("made"), lambda: [source])
    assert kept.is_current()
    assert not Kept(target, tmp_path / "record", ["compile", "-O0"]).is_current()
    source.unlink()
    target.unlink()
    assert not kept.is_current()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"command": "", "files": 3}'])
def test_a_record_that_says_nothing_counts_for_nothing(tmp_path, text):
    target, record = tmp_path / "target", tmp_path / "record"
    target.write_text("made")
    record.write_text(text)
    assert not Kept(target, record, ["compile"]).is_current()


def test_what_fails_half_way_is_not_current(tmp_path):
    target = tmp_path / "target"
    kept = Kept(target, tmp_path / "record", ["compile"])
    kept.make(lambda: target.write_text("made"), lambda: [])

    def fail() -> None:
        target.write_text("ha")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        kept.make(fail, lambda: [])
    assert not kept.is_current()


def test_actions_run_side_by_side():
    barrier = threading.Barrier(2)
    in_parallel([lambda: barrier.wait(timeout=PATIENCE)] * 2, 2)


def test_after_an_error_no_action_begins():
    done: list[int] = []

    def fail() -> None:
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        in_parallel([fail, *(lambda: done.append(1) for _ in range(9))], 1)
    assert done == []
