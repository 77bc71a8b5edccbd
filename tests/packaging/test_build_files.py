"""The build consults the compiler, never the CPU that it happens to run on."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.cases import each

ROOT = Path(__file__).resolve().parent.parent.parent

BUILD_FILES = sorted(
    path
    for pattern in (
        "setup.py",
        "setup.cfg",
        "pyproject.toml",
        "Makefile",
        "MANIFEST.in",
        "asm/**/*",
        "pplconv/**/*",
        ".ci/*",
    )
    for path in ROOT.glob(pattern)
    if path.is_file() and path.suffix not in (".so", ".pyc", ".md")
)


def test_build_files_are_found():
    names = {path.relative_to(ROOT).as_posix() for path in BUILD_FILES}
    assert {"setup.py", "pyproject.toml", "Makefile", "asm/registry.py"} <= names


@each("path", BUILD_FILES, lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_is_compiled_for_the_build_machine(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"-m(arch|tune|cpu)=native|-xHost\b|\bNATIVE_ARCH\b", text)


@pytest.mark.parametrize(
    "name", ["setup.py", "asm/build.py", "asm/kept.py", "asm/modules.py", "asm/precompiled.py"]
)
def test_the_build_does_not_ask_the_cpu(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not re.search(r"cpuinfo|cpuid\(|getauxval|platform\.processor|__builtin_cpu", text)


def test_common_flags_name_no_instruction_set():
    """Only kernel files get such flags, each its own; the modules are built for the baseline."""
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    flags = [text for text in strings if re.fullmatch(r"-[\w.=+-]+", str(text))]
    assert "-O2" in flags
    assert [flag for flag in flags if flag.startswith("-m")] == []
