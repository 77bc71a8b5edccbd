"""The public functions, and the file that the environment names."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import stat
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import pplconv
from pplconv import wisdom
from pplconv.wisdom import Division, api
from pplconv.wisdom.document import FILE_NAME, MAX_BYTES
from tests.wisdom.wisdom_case import CHOICE, caught, division, entry, finish, fresh, key, start

BLOCKS = dict(division().blocks)


@pytest.fixture(autouse=True)
def afresh(named: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin as if the process had just started; the old state comes back at the end."""
    monkeypatch.setattr(api, "_current", None)
    yield


def remember(number: int = 0, team: int = 1) -> None:
    wisdom.remember(key(number), CHOICE, team, BLOCKS, 1e-3)


def restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_current", None)


def test_public() -> None:
    assert pplconv.wisdom is wisdom
    assert issubclass(wisdom.WisdomWarning, RuntimeWarning)


def test_every_public_name_is_there() -> None:
    assert set(wisdom.__all__) == set(" ".join(wisdom._NAMES.values()).split()) <= set(dir(wisdom))
    for name in wisdom.__all__:
        assert getattr(wisdom, name).__module__.startswith("pplconv.wisdom.")
        assert getattr(wisdom, name).__doc__
    with pytest.raises(AttributeError, match=r"module 'pplconv\.wisdom' has no attribute 'none'"):
        wisdom.none  # noqa: B018


def test_remember_and_look_up(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wisdom.lookup(key()) is None
    assert wisdom.is_empty()
    remember(team=2)
    wisdom.remember(key(), CHOICE, 4, {"k_block": 1}, 5e-4, search="exhaustive")
    for _ in range(2):
        assert not wisdom.is_empty()
        found = wisdom.lookup(key())
        assert found is not None
        assert found.choice == CHOICE
        assert found.teams[2] == division()
        assert found.teams[4] == Division({"k_block": 1}, 5e-4, "exhaustive")
        assert found.teams.get(1) is None, "a team that was not measured has the choice alone"
        restart(monkeypatch)


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("problem", "mb2"),
        ("dtype", "f64"),
        ("layout", "NCHW16c"),
        ("epilogue", "clip"),
        ("tolerance", 1e-4),
        ("cpu", "x86_64 AuthenticAMD 25/97 Another CPU"),
        ("isa", "avx2"),
    ],
)
def test_every_field_of_the_key_counts(field: str, other: object) -> None:
    remember()
    assert wisdom.lookup(key()) is not None
    assert wisdom.lookup(dataclasses.replace(key(), **{field: other})) is None
    assert {item.name for item in dataclasses.fields(key())} == {
        "problem", "dtype", "layout", "epilogue", "tolerance", "cpu", "isa"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"team": 0}, ValueError, "team is 0: expected 1 to 65536"),
        ({"team": "2"}, TypeError, "team is '2': expected an int"),
        ({"seconds": 0.0}, ValueError, "seconds is 0.0: expected more than 0"),
        ({"seconds": float("nan")}, ValueError, "seconds is nan: expected a finite number"),
        ({"choice": {}}, ValueError, "choice is {}: expected at least one field"),
        ({"choice": [1]}, TypeError, "choice is of type list: expected a mapping"),
        ({"blocks": {"k_block": 1.5}}, TypeError, r"blocks\['k_block'\] is of type float"),
        ({"search": "guess"}, ValueError, "search is 'guess': expected one of"),
    ],
)
def test_bad_arguments_are_refused(
    named: Path, change: dict[str, object], error: type[Exception], text: str
) -> None:
    arguments = {"choice": CHOICE, "team": 1, "blocks": BLOCKS, "seconds": 1.0, **change}
    with pytest.raises(error, match=text):
        wisdom.remember(key(), **arguments)  # type: ignore[arg-type]
    assert wisdom.lookup(key()) is None
    assert not named.exists()


def test_export_and_load_a_dict(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(0), remember(1, team=2)
    exported = wisdom.export()
    assert exported["format"] == "pplconv wisdom"
    assert exported["pplconv"] == pplconv.__version__
    assert len(exported["entries"]) == 2
    assert exported == json.loads(named.read_text()) == pickle.loads(pickle.dumps(exported))
    monkeypatch.setenv("PPLCONV_WISDOM", "off")
    assert wisdom.lookup(key(0)) is None
    assert wisdom.load(exported) == 2
    assert wisdom.export() == exported
    exported["entries"].clear()
    assert len(wisdom.export()["entries"]) == 2, "what was given away is a copy"


def test_export_and_load_a_file(named: Path, tmp_path: Path) -> None:
    remember(0), remember(1)
    target = tmp_path / "exported.json"
    mask = os.umask(0o022)
    try:
        assert wisdom.export(target) == wisdom.export()
    finally:
        os.umask(mask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o644, "a file like any other"
    assert target.read_bytes() == named.read_bytes()
    wisdom.clear(disk=True)
    assert not named.exists()
    assert wisdom.load(str(target)) == 2
    assert wisdom.lookup(key(1)) == entry()
    assert set(fresh(named)) == {key(0), key(1)}, "what is loaded is kept"
    assert wisdom.load(os.fsencode(target).decode()) == 2


def test_what_is_loaded_comes_over_what_is_known(named: Path) -> None:
    wisdom.remember(key(0), {"algorithm": "direct"}, 1, BLOCKS, 1.0)
    remember(0), remember(1, team=2)
    exported = wisdom.export()
    wisdom.clear(disk=True)
    wisdom.remember(key(0), {"algorithm": "direct"}, 8, BLOCKS, 1.0)
    wisdom.remember(key(1), CHOICE, 2, {}, 1.0)
    remember(1, team=4), remember(2)
    assert wisdom.load(exported) == 2
    assert wisdom.lookup(key(0)) == entry(1)
    assert dict(wisdom.lookup(key(1)).teams) == {2: division(), 4: division()}
    assert wisdom.lookup(key(2)) == entry(1)
    assert len(fresh(named)) == 3


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{\n"format": "pplconv wisdom", "ver', "is damaged"),
        (b"{}", "is not a wisdom file"),
        (b'{"format": "pplconv wisdom", "version": 9}', "is of format version 9, and this"),
        (b" " * (MAX_BYTES + 1), "is larger than 4194304 bytes"),
    ],
)
def test_load_ignores_what_is_no_wisdom(
    named: Path, tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "other").write_bytes(content)
    for _ in range(2):
        with caught() as texts:
            assert wisdom.load(tmp_path / "other") == 0
        assert len(texts) == 1 and texts[0].startswith(f"{tmp_path / 'other'} {reason}")
    assert (tmp_path / "other").read_bytes() == content
    assert not named.exists()


def test_load_takes_the_valid_entries() -> None:
    remember(0), remember(1)
    exported = wisdom.export()
    exported["entries"][0]["teams"] = {}
    wisdom.clear()
    with caught() as texts:
        assert wisdom.load(exported) == 1
    assert texts == ["source has 1 invalid entries: they are ignored"]
    assert wisdom.lookup(key(0)) is None
    with caught() as texts:
        assert wisdom.load({}) == 0
    assert texts == ["source is not a wisdom file: it is ignored"]


def test_a_path_of_the_users_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        wisdom.load(tmp_path / "none.json")
    with pytest.raises(OSError, match="not a regular file"):
        wisdom.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        wisdom.export(tmp_path / "none" / "wisdom.json")
    with pytest.raises(OSError, match="not a regular file"):
        wisdom.export(os.devnull)
    with pytest.raises(TypeError, match="source is of type int: expected a path"):
        wisdom.load(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="path is of type int: expected a path"):
        wisdom.export(3)  # type: ignore[arg-type]


def test_clear(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remember()
    wisdom.clear()
    assert wisdom.lookup(key()) is None and wisdom.export()["entries"] == []
    restart(monkeypatch)
    assert wisdom.lookup(key()) is not None, "the file was left"
    wisdom.clear(disk=True)
    restart(monkeypatch)
    assert wisdom.lookup(key()) is None


@pytest.mark.parametrize("disk", ["tuned.json", 1, None])
def test_clear_names_no_file(named: Path, disk: object) -> None:
    """A caller who takes the argument for a path loses nothing."""
    remember()
    with pytest.raises(TypeError):
        wisdom.clear(disk)  # type: ignore[misc]
    with pytest.raises(TypeError, match="disk must be True or False, got"):
        wisdom.clear(disk=disk)  # type: ignore[arg-type]
    assert wisdom.lookup(key()) is not None and set(fresh(named)) == {key()}


def test_a_warning_names_the_line_outside_of_pplconv(named: Path) -> None:
    """Whatever reads the file: a call, a plan or a function of `pplconv.wisdom`."""
    weight = np.ones((4, 4, 3, 3), np.float32)
    conv, x = pplconv.Conv2d(weight), np.ones((1, 4, 5, 5), np.float32)
    ways = [
        lambda: pplconv.conv2d(x, weight, tolerance=0.125),
        lambda: conv(x),
        lambda: conv.plan_for((1, 4, 6, 6)),
        lambda: wisdom.lookup(key()),
        lambda: wisdom.load(named),
        lambda: wisdom.clear(disk=True),
        remember,
    ]
    for way in ways:
        named.parent.mkdir(exist_ok=True)
        named.write_bytes(b"notes of mine")
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            restart(patch)
            way()
        assert [w.category for w in caught] == [wisdom.WisdomWarning]
        assert caught[0].filename == __file__
        lines = range(way.__code__.co_firstlineno, way.__code__.co_firstlineno + 2)
        assert caught[0].lineno in lines


@pytest.mark.parametrize("text", ["", "off", " OFF ", "0"])
def test_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PPLCONV_WISDOM", text)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    remember()
    assert wisdom.lookup(key()) is not None, "this process still remembers"
    assert wisdom.describe() == {"path": None, "entries": 0, "bytes": 0, "trouble": None}
    assert list(tmp_path.iterdir()) == []


def test_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PPLCONV_WISDOM")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    remember()
    assert set(fresh(tmp_path / "xdg" / "pplconv" / FILE_NAME)) == {key()}
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert wisdom.lookup(key()) is None, "another file, another memory"
    caches = "Library/Caches" if sys.platform == "darwin" else ".cache"
    expected = tmp_path / "home" / caches / "pplconv" / FILE_NAME
    assert wisdom.describe()["path"] == str(expected)
    remember(1)
    assert set(fresh(expected)) == {key(1)}
    monkeypatch.delenv("HOME")
    assert wisdom.describe()["path"] is None
    remember(2)
    assert wisdom.lookup(key(2)) is not None


def test_describe(named: Path) -> None:
    nothing = {"path": str(named), "entries": 0, "bytes": 0, "trouble": None}
    assert wisdom.describe() == nothing
    remember(0), remember(1)
    size = named.stat().st_size
    assert wisdom.describe() == {**nothing, "entries": 2, "bytes": size}
    wisdom.clear()
    assert wisdom.describe()["entries"] == 2, "the file, not the memory"
    named.write_bytes(b"notes")
    found = wisdom.describe()  # and no warning
    assert found == {**nothing, "bytes": 5, "trouble": "is not a wisdom file"}


def test_import_and_lookup_write_nothing_and_load_little(named: Path) -> None:
    """NumPy may have loaded json, so it is taken away before pplconv is imported."""
    code = """
import numpy
sys.modules.pop("json", None)
import pplconv
print(sorted(name for name in sys.modules if name.startswith("pplconv.wisdom.")))
key = pplconv.wisdom.Key(*["a"] * 4, 0.0, "a", "a")
print(pplconv.wisdom.lookup(key), "json" in sys.modules)
"""
    assert finish(start(code)) == ["[]", "None False"]
    assert not named.parent.exists()
