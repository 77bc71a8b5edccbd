"""Results and parsed headers that a build keeps, known by contents and only when whole."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from asm.kept import Kept, _digest, dependencies, in_parallel
from asm.precompiled import INTRINSICS, WORTH, Precompiled
from tests.levels import MACHINE
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


def test_a_copied_tree_stays_built(tmp_path, monkeypatch):
    """Names of the tree itself decide nothing, neither in commands nor of files."""
    trees = [tmp_path / "one", tmp_path / "other"]
    outside = tmp_path / "python.h"
    outside.write_text("header")

    def kept(tree: Path) -> Kept:
        monkeypatch.setattr("asm.kept.ROOT", str(tree))
        return Kept(tree / "target", tree / "record", ["compile", "-I", f"{tree}/asm"])

    first, copy = trees
    first.mkdir()
    (first / "source").write_text("one")
    kept(first).make(
        lambda: (first / "target").write_text("made"), lambda: [first / "source", outside]
    )
    shutil.copytree(first, copy)
    shutil.rmtree(first)
    assert kept(copy).is_current()
    (copy / "source").write_text("another")
    _digest.cache_clear()  # a build reads each file once
    assert not kept(copy).is_current()


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


compiles = pytest.mark.unemulated("compiles; emulation has the host's compiler")


@pytest.fixture
def compiler():
    found = shutil.which("cc") or shutil.which("gcc")
    assert found, "the tests need a C compiler named cc or gcc"
    return found


@compiles
@pytest.mark.skipif(MACHINE not in INTRINSICS, reason="no intrinsics are known of this machine")
def test_objects_are_the_same(compiler, tmp_path):
    command, rare = [compiler, "-O2", "-fPIC"], [compiler, "-O1"]
    headers = Precompiled(tmp_path / "headers", MACHINE)
    headers.make([command] * WORTH + [rare] * (WORTH - 1), workers=2)
    assert headers.options(rare) == []
    version = subprocess.run([compiler, "--version"], check=True, capture_output=True, text=True)
    if "Free Software Foundation" in version.stdout:  # gcc makes and reads them
        assert headers.options(command)[0] == "-include"
    source = tmp_path / "it.c"
    source.write_text(f"#include <{INTRINSICS[MACHINE]}>\nint f(int x) {{ return x + 1; }}\n")
    made = []
    for options in ([], headers.options(command)):
        target = tmp_path / "it.o"
        line = [*command, *options, "-MMD", "-MF", str(tmp_path / "it.d"), "-c", str(source)]
        subprocess.run([*line, "-o", str(target)], check=True)
        made.append(target.read_bytes())
    assert made[0] == made[1]
    assert headers.without([source, *(tmp_path / "headers").iterdir()]) == [source]
    headers.remove()
    assert list((tmp_path / "headers").iterdir()) == []


@compiles
def test_a_compiler_that_makes_none_does_without(tmp_path):
    headers = Precompiled(tmp_path / "headers", MACHINE)
    headers.make([["false"]] * WORTH, workers=2)
    assert headers.options(["false"]) == []


@compiles
def test_other_machines_do_without(compiler, tmp_path):
    headers = Precompiled(tmp_path / "headers", "sparc64")
    headers.make([[compiler]] * WORTH, workers=2)
    assert headers.options([compiler]) == [] and not (tmp_path / "headers").exists()
