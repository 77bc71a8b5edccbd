"""Headers that a build parses once: for files with the same flags, and only where that works."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from asm.precompiled import INTRINSICS, WORTH, Precompiled
from tests.levels import MACHINE

pytestmark = pytest.mark.unemulated("compiles; emulation has the host's compiler")


@pytest.fixture
def compiler():
    found = shutil.which("cc") or shutil.which("gcc")
    assert found, "the tests need a C compiler named cc or gcc"
    return found


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


def test_a_compiler_that_makes_none_does_without(tmp_path):
    headers = Precompiled(tmp_path / "headers", MACHINE)
    headers.make([["false"]] * WORTH, workers=2)
    assert headers.options(["false"]) == []


def test_other_machines_do_without(compiler, tmp_path):
    headers = Precompiled(tmp_path / "headers", "sparc64")
    headers.make([[compiler]] * WORTH, workers=2)
    assert headers.options([compiler]) == [] and not (tmp_path / "headers").exists()
