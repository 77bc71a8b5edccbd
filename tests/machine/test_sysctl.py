"""Reading the kernel's files, which may be missing or malformed, and macOS's ``sysctl``."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pplconv.machine import kernel_files, sysctl

VALUES = {
    "hw.ncpu": (8).to_bytes(4, "little"),
    "hw.memsize": (17179869184).to_bytes(8, "little"),
    "hw.minus": (-1).to_bytes(4, "little", signed=True),
    "machdep.cpu.brand_string": b"Apple M1\0",
    "hw.nothing": b"",
    "hw.struct": bytes(range(20)),
}


def test_values() -> None:
    assert sysctl.number(VALUES.get, "hw.ncpu") == 8
    assert sysctl.number(VALUES.get, "hw.memsize") == 1 << 34
    assert sysctl.text(VALUES.get, "machdep.cpu.brand_string") == "Apple M1"


def test_numbers_without_a_sign() -> None:
    assert sysctl.number(VALUES.get, "hw.minus", signed=False) == 0xFFFFFFFF
    assert sysctl.number(VALUES.get, "hw.ncpu", signed=False) == 8


@pytest.mark.parametrize("name", ["hw.minus", "hw.nothing", "hw.struct", "hw.missing"])
def test_no_number(name: str) -> None:
    assert sysctl.number(VALUES.get, name) == 0


def test_no_text() -> None:
    assert sysctl.text(VALUES.get, "hw.missing") == ""


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has the call")
def test_systems_without_the_call() -> None:
    assert sysctl.sysctl("hw.ncpu") is None


class Libc:
    """A C library whose ``sysctlbyname`` knows `VALUES`."""

    def __init__(self, name: str | None) -> None:
        self.sysctlbyname: Callable[..., int] = self._call

    def _call(self, key: bytes, old: Any, size: Any, new: None, new_size: Any) -> int:
        assert (new, new_size.value) == (None, 0), "reads only"
        value = VALUES.get(key.decode())
        if value is None:
            return -1
        room = size._obj
        if old is not None:
            assert room.value == len(value) <= len(old)
            ctypes.memmove(old, value, len(value))
        room.value = len(value)
        return 0


def test_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(ctypes, "CDLL", Libc)
    for name, value in VALUES.items():
        assert sysctl.sysctl(name) == value
    assert sysctl.sysctl("hw.missing") is None


def test_a_library_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert sysctl.sysctl("hw.ncpu") is None


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("0", (0,)),
        ("0-3", (0, 1, 2, 3)),
        ("0-1,8,10-11", (0, 1, 8, 10, 11)),
        (" 3 , 1-2 ,2\n", (1, 2, 3)),
        ("", ()),
        ("3-1", ()),
        ("0-", ()),
        ("-2", ()),
        ("0,,2", ()),
        ("a", ()),
        ("0-4294967295", ()),
        ("0-3:1/2", ()),
    ],
)
def test_parse_list(text: str, ids: tuple[int, ...]) -> None:
    assert kernel_files.parse_list(text) == ids


def test_unreadable_files(tmp_path: Path) -> None:
    assert kernel_files.read_text(str(tmp_path)) == ""  # a directory
    assert kernel_files.read_text(str(tmp_path / "none")) == ""
    assert kernel_files.read_text("nul\0byte") == ""
    (tmp_path / "bytes").write_bytes(b"\xff\xfe 7 ")
    assert kernel_files.read_text(str(tmp_path / "bytes")).endswith("7")
    assert kernel_files.read_int(str(tmp_path / "bytes")) is None
    assert kernel_files.read_list(str(tmp_path / "bytes")) == ()
