"""Reading the environment: the variables, their defaults and their errors."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import pytest

import pplconv
from pplconv.config import ISA_LADDER, MAX_THREADS, Settings, current, read
from pplconv.machine import ISA_LADDER as MACHINE_LADDER


def test_nothing_set() -> None:
    assert read({}) == Settings(None, None, None)


def test_other_variables_do_not_matter() -> None:
    assert read({"PATH": "4", "PPLCONV_OTHER": "x"}) == Settings()


@pytest.mark.parametrize("name", ISA_LADDER)
def test_max_isa(name: str) -> None:
    assert read({"PPLCONV_MAX_ISA": name}).max_isa == name
    assert read({"PPLCONV_MAX_ISA": f" {name.upper()} "}).max_isa == name


@pytest.mark.parametrize("text", ["sse", "avx", "avx-512", "avx512f", "0", "portable,avx2", "é"])
def test_malformed_max_isa(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        read({"PPLCONV_MAX_ISA": text})
    assert str(caught.value) == (
        f"PPLCONV_MAX_ISA is {text!r}: expected one of portable, avx2, avx512"
    )


@pytest.mark.parametrize(
    ("text", "count"), [("1", 1), ("2", 2), (" 12\n", 12), ("007", 7), (str(MAX_THREADS), 65536)]
)
def test_num_threads(text: str, count: int) -> None:
    assert read({"PPLCONV_NUM_THREADS": text}).num_threads == count


@pytest.mark.parametrize(
    "text",
    ["0", "-1", "+2", "2.0", "1e1", "0x2", "1_0", "two", "4,2", "65537", "9" * 5000, "\u0664"],
)
def test_malformed_num_threads(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        read({"PPLCONV_NUM_THREADS": text})
    assert str(caught.value) == (
        f"PPLCONV_NUM_THREADS is {text!r}: expected an integer from 1 to 65536"
    )


@pytest.mark.parametrize(
    ("text", "count"),
    [("4", 4), ("4,2", 4), ("4 , 2", 4), (" 3 ", 3), ("+5", 5), ("1,1,1", 1), ("08", 8)],
)
def test_omp_num_threads(text: str, count: int) -> None:
    assert read({"OMP_NUM_THREADS": text}).omp_num_threads == count


@pytest.mark.parametrize(
    "text",
    ["0", "-1", "x", "4,x", "4,0", "4,", ",4", "4;2", "3.0", "0x3", "9" * 5000, "1_0", "\u0664"],
)
def test_malformed_omp_num_threads_is_ignored(text: str) -> None:
    """One bad entry spoils the list, as it does for libgomp."""
    assert read({"OMP_NUM_THREADS": text}).omp_num_threads is None


def test_empty_is_unset() -> None:
    blank = {"PPLCONV_MAX_ISA": "", "PPLCONV_NUM_THREADS": " ", "OMP_NUM_THREADS": ""}
    assert read(blank) == Settings()


def test_current_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PPLCONV_MAX_ISA", "avx2")
    monkeypatch.setenv("PPLCONV_NUM_THREADS", "3")
    monkeypatch.setenv("OMP_NUM_THREADS", "5,2")
    assert current() == Settings("avx2", 3, 5)
    monkeypatch.setenv("PPLCONV_NUM_THREADS", "none")
    with pytest.raises(ValueError, match="PPLCONV_NUM_THREADS is 'none'"):
        current()
    monkeypatch.delenv("PPLCONV_NUM_THREADS")
    monkeypatch.setenv("PPLCONV_MAX_ISA", "portable")
    assert current() == Settings("portable", None, 5)


def test_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().num_threads = 2  # type: ignore[misc]


def test_same_ladder_as_the_machine() -> None:
    assert ISA_LADDER == MACHINE_LADDER


def _environment_reads(source: str) -> list[int]:
    """Lines that name os.environ, os.environb, os.getenv or one of them imported from os."""
    names = {"environ", "environb", "getenv", "getenvb"}
    lines = []
    for node in ast.walk(ast.parse(source)):
        attribute = isinstance(node, ast.Attribute) and node.attr in names
        imported = (
            isinstance(node, ast.ImportFrom)
            and node.module == "os"
            and any(alias.name in names for alias in node.names)
        )
        if attribute or imported:
            lines.append(node.lineno)
    return lines


def test_nobody_else_reads_the_environment() -> None:
    package = Path(pplconv.__file__).parent
    readers = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if _environment_reads(path.read_text(encoding="utf-8"))
    }
    assert readers == {"config.py"}


def test_the_search_for_readers_finds_them() -> None:
    assert _environment_reads("import os\nx = os.environ.get('A')") == [2]
    assert _environment_reads("from os import getenv") == [1]
    assert _environment_reads("environment = 1") == []
