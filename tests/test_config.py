"""Reading the environment: the variables, their defaults and their errors."""

from __future__ import annotations

import ast
import dataclasses
import math
import sys
from pathlib import Path

import pytest

import pplconv
from pplconv import config
from pplconv.architecture import LADDERS, here, ladder
from pplconv.config import MAX_THREADS, Settings, current, read

X86, ARM = (", ".join(LADDERS[arch]) for arch in ("x86_64", "aarch64"))


def test_nothing_set() -> None:
    assert read({}) == Settings(None, None, None, None, None)


def test_other_variables_do_not_matter() -> None:
    assert read({"PATH": "4", "PPLCONV_OTHER": "x"}) == Settings()


@pytest.mark.parametrize(
    ("arch", "name"), [(arch, name) for arch, names in LADDERS.items() for name in names]
)
def test_max_isa(arch: str, name: str) -> None:
    assert read({"PPLCONV_MAX_ISA": name}, arch).max_isa == name
    assert read({"PPLCONV_MAX_ISA": f" {name.upper()} "}, arch).max_isa == name


@pytest.mark.parametrize("text", ["sse", "avx", "avx-512", "avx512f", "0", "portable,avx2", "é"])
def test_malformed_max_isa(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        read({"PPLCONV_MAX_ISA": text}, "x86_64")
    assert str(caught.value) == (f"PPLCONV_MAX_ISA is {text!r}: expected one of {X86}")


@pytest.mark.parametrize(
    ("arch", "text", "message"),
    [
        (
            "AMD64",
            "neon",
            f"'neon', which aarch64 has: expected one of {X86} on x86_64",
        ),
        (
            "arm64",
            "AVX512",
            f"'AVX512', which x86_64 has: expected one of {ARM} on aarch64",
        ),
        ("riscv64", "avx2", "'avx2', which x86_64 has: expected one of portable on riscv64"),
        ("riscv64", "rvv", "'rvv': expected one of portable"),
    ],
)
def test_max_isa_of_another_machine(arch: str, text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        read({"PPLCONV_MAX_ISA": text}, arch)
    assert str(caught.value) == f"PPLCONV_MAX_ISA is {message}"


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


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0.0), ("1e-5", 1e-5), (" 1E-4 ", 1e-4), (".5", 0.5), ("+3.", 3.0), ("inf", math.inf)],
)
def test_tolerance(text: str, number: float) -> None:
    assert read({"PPLCONV_TOLERANCE": text}).tolerance == number
    assert read({"PPLCONV_TOLERANCE": " "}).tolerance is None


@pytest.mark.parametrize(
    "text", ["-1", "-0.0", "nan", "tight", "1e", "1,5", "1_0", "0x1", ".", "\u0661", "1e-5 1"]
)
def test_malformed_tolerance(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        read({"PPLCONV_TOLERANCE": text})
    assert str(caught.value) == f"PPLCONV_TOLERANCE is {text!r}: expected a number of at least 0"


def test_empty_is_unset() -> None:
    blank = {"PPLCONV_MAX_ISA": "", "PPLCONV_NUM_THREADS": " ", "OMP_NUM_THREADS": ""}
    assert read({**blank, "XDG_CACHE_HOME": "", "HOME": ""}) == Settings()


@pytest.mark.parametrize("text", ["", " ", "off", "OFF", " off ", "0"])
def test_wisdom_off(text: str) -> None:
    assert read({"PPLCONV_WISDOM": text}).wisdom == ""


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/var/w.json", "/var/w.json"),
        ("w.json", "w.json"),
        (" w ", " w "),
        ("~/w.json", "/home/me/w.json"),
        ("~", "~"),
        ("~you/w.json", "~you/w.json"),
        ("00", "00"),
        ("offer", "offer"),
    ],
)
def test_wisdom_path(text: str, path: str) -> None:
    assert read({"PPLCONV_WISDOM": text, "HOME": "/home/me"}).wisdom == path


def test_wisdom_without_home() -> None:
    assert read({"PPLCONV_WISDOM": "~/w.json"}).wisdom == "~/w.json"


def test_malformed_wisdom() -> None:
    with pytest.raises(ValueError, match=r"PPLCONV_WISDOM is 'a\\x00b': expected a path"):
        read({"PPLCONV_WISDOM": "a\0b"})


@pytest.mark.parametrize(
    ("platform", "environ", "folder"),
    [
        ("linux", {"HOME": "/home/me"}, "/home/me/.cache/pplconv"),
        ("darwin", {"HOME": "/Users/me"}, "/Users/me/Library/Caches/pplconv"),
        ("linux", {"HOME": "/home/me", "XDG_CACHE_HOME": "/big/cache"}, "/big/cache/pplconv"),
        ("darwin", {"XDG_CACHE_HOME": "/big/cache"}, "/big/cache/pplconv"),
        ("linux", {"HOME": "/home/me", "XDG_CACHE_HOME": "cache"}, "/home/me/.cache/pplconv"),
        ("linux", {"HOME": "/home/me", "XDG_CACHE_HOME": ""}, "/home/me/.cache/pplconv"),
        ("linux", {"HOME": "me"}, None),
        ("linux", {"XDG_CACHE_HOME": "cache"}, None),
    ],
)
def test_cache_folder(
    monkeypatch: pytest.MonkeyPatch, platform: str, environ: dict[str, str], folder: str | None
) -> None:
    config._parse.cache_clear()
    monkeypatch.setattr(sys, "platform", platform)
    try:
        assert read(environ) == Settings(cache_folder=folder)
    finally:
        config._parse.cache_clear()


def test_current_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PPLCONV_WISDOM", "PPLCONV_TEAM_START_US", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    highest = ladder(here())[-1]
    monkeypatch.setenv("PPLCONV_MAX_ISA", highest)
    monkeypatch.setenv("PPLCONV_NUM_THREADS", "3")
    monkeypatch.setenv("OMP_NUM_THREADS", "5,2")
    assert current() == Settings(highest, 3, 5)
    monkeypatch.setenv("PPLCONV_NUM_THREADS", "none")
    with pytest.raises(ValueError, match="PPLCONV_NUM_THREADS is 'none'"):
        current()
    monkeypatch.delenv("PPLCONV_NUM_THREADS")
    monkeypatch.setenv("PPLCONV_MAX_ISA", "portable")
    assert current() == Settings("portable", None, 5)
    monkeypatch.setenv("PPLCONV_WISDOM", "/var/w.json")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert current() == Settings("portable", None, 5, "/var/w.json", "/var/cache/pplconv")


def test_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().num_threads = 2  # type: ignore[misc]


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


def test_start_of_a_team() -> None:
    assert read({"PPLCONV_TEAM_START_US": " 12 "}).team_start_us == 12
    assert read({"PPLCONV_TEAM_START_US": ""}).team_start_us == read({}).team_start_us == 1
    for text in ("0", "-1", "1.5", "1000001", "fast"):
        with pytest.raises(ValueError) as caught:
            read({"PPLCONV_TEAM_START_US": text})
        assert str(caught.value) == (
            f"PPLCONV_TEAM_START_US is {text!r}: expected an integer from 1 to 1000000"
        )
