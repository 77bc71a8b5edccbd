"""Reading the environment: the variables, their defaults and their errors."""

from __future__ import annotations

import math
import sys

import pytest

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


# A field of the settings, its variable, texts and the values that they are read as.
READ = {
    "num_threads": ("PPLCONV_NUM_THREADS", [
        ("1", 1), ("2", 2), (" 12\n", 12), ("007", 7), (str(MAX_THREADS), 65536),
    ]),
    # One bad entry spoils the list, as it does for libgomp.
    "omp_num_threads": ("OMP_NUM_THREADS", [
        ("4", 4), ("4,2", 4), ("4 , 2", 4), (" 3 ", 3), ("+5", 5), ("1,1,1", 1), ("08", 8),
        *((text, None) for text in (
            "0", "-1", "x", "4,x", "4,0", "4,", ",4", "4;2", "3.0", "0x3", "9" * 5000, "1_0",
            "\u0664",
        )),
    ]),
    "tolerance": ("PPLCONV_TOLERANCE", [
        ("0", 0.0), ("1e-5", 1e-5), (" 1E-4 ", 1e-4), (".5", 0.5), ("+3.", 3.0), ("inf", math.inf),
        (" ", None),
    ]),
    "wisdom": ("PPLCONV_WISDOM", [
        ("", ""), (" ", ""), ("off", ""), ("OFF", ""), (" off ", ""), ("0", ""),
        ("/var/w.json", "/var/w.json"), ("w.json", "w.json"), (" w ", " w "),
        ("~/w.json", "/home/me/w.json"), ("~", "~"), ("~you/w.json", "~you/w.json"), ("00", "00"),
        ("offer", "offer"),
    ]),
    "team_start_us": ("PPLCONV_TEAM_START_US", [(" 12 ", 12), ("", 1)]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("field", "variable", "text", "value"),
    [(field, name, *case) for field, (name, cases) in READ.items() for case in cases],
)
def test_texts_are_read(field: str, variable: str, text: str, value: object) -> None:
    assert getattr(read({variable: text, "HOME": "/home/me"}), field) == value


# A variable, texts that it may not have, and what the message expects instead.
MALFORMED = {
    "PPLCONV_MAX_ISA": (
        ("sse", "avx", "avx-512", "avx512f", "0", "portable,avx2", "é"), f"one of {X86}",
    ),
    "PPLCONV_NUM_THREADS": (
        ("0", "-1", "+2", "2.0", "1e1", "0x2", "1_0", "two", "4,2", "65537", "9" * 5000, "\u0664"),
        "an integer from 1 to 65536",
    ),
    "PPLCONV_TOLERANCE": (
        ("-1", "-0.0", "nan", "tight", "1e", "1,5", "1_0", "0x1", ".", "\u0661", "1e-5 1"),
        "a number of at least 0",
    ),
    "PPLCONV_TEAM_START_US": (
        ("0", "-1", "1.5", "1000001", "fast"), "an integer from 1 to 1000000",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [(name, text, expected) for name, (texts, expected) in MALFORMED.items() for text in texts],
)
def test_malformed_texts_are_refused(variable: str, text: str, expected: str) -> None:
    with pytest.raises(ValueError) as caught:
        read({variable: text}, "x86_64")
    assert str(caught.value) == f"{variable} is {text!r}: expected {expected}"


@pytest.mark.parametrize(
    ("arch", "text", "message"),
    [
        ("AMD64", "neon", f"'neon', which aarch64 has: expected one of {X86} on x86_64"),
        ("arm64", "AVX512", f"'AVX512', which x86_64 has: expected one of {ARM} on aarch64"),
        ("riscv64", "avx2", "'avx2', which x86_64 has: expected one of portable on riscv64"),
        ("riscv64", "rvv", "'rvv': expected one of portable"),
    ],
)
def test_max_isa_of_another_machine(arch: str, text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        read({"PPLCONV_MAX_ISA": text}, arch)
    assert str(caught.value) == f"PPLCONV_MAX_ISA is {message}"


def test_empty_is_unset() -> None:
    blank = {"PPLCONV_MAX_ISA": "", "PPLCONV_NUM_THREADS": " ", "OMP_NUM_THREADS": ""}
    assert read({**blank, "XDG_CACHE_HOME": "", "HOME": ""}) == Settings()
    assert read({}).team_start_us == 1


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
    with pytest.raises(AttributeError):
        Settings().num_threads = 2  # type: ignore[misc]
