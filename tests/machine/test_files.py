"""Kernel files that may be missing or malformed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pplconv.machine import kernel_files


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
