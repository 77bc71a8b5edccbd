"""One version everywhere, an sdist of the same bytes, and what a release refuses."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

import pplconv
from tools.arm.host import SetUpError
from tools.release import disagreements, released, unreleased, version_of
from tools.wheels import __main__ as wheels
from tools.wheels.native import bundled
from tools.wheels.pythons import WANTED, Python
from tools.wheels.sdist import normalized

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = ("pplconv/_version.py", "CHANGELOG.md", "CITATION.cff")


@pytest.fixture
def tree(tmp_path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


def test_the_version_is_one_truth():
    assert disagreements(ROOT) == []
    assert pplconv.__version__ == version_of(ROOT) == released(ROOT)[0]


def test_released_versions_go_on():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert text.index("## [Unreleased]") < text.index("## [0.2.0] - 2026-11-25")
    assert text.index("## [0.2.0] - 2026-11-25") < text.index("## [0.1.0] - 2026-11-21")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    "name, old, new, said",
    [
        ("pplconv/_version.py", '__version__ = "', '__version__ = "1', "newest release"),
        ("pplconv/_version.py", '.0"\n', '.0.dev1"\n', "major.minor.patch"),
        ("CITATION.cff", "\nversion: ", "\nversion: 9", "CITATION.cff: version"),
        ("CITATION.cff", "date-released: 2", "date-released: 1", "date-released"),
        ("CHANGELOG.md", "## [Unreleased]", "## Unreleased", "sections"),
        ("CHANGELOG.md", "## [0.1.0] - 2026-11-21", "## [0.1.0] - 2046-11-21", "days"),
        ("CHANGELOG.md", "## [0.1.0] - ", "## [7.1.0] - ", "versions"),
        ("CHANGELOG.md", "## [0.1.0] - ", "## 0.1.0 - ", "sections"),
    ],
)
def test_a_tree_that_disagrees_is_refused(tree, name, old, new, said):
    edit(tree / name, old, new)
    assert any(said in line for line in disagreements(tree))


def test_unreleased_changes_are_seen(tree):
    edit(tree / "CHANGELOG.md", "## [Unreleased]\n", "## [Unreleased]\n\n### Added\n\n- A line.\n")
    assert unreleased(tree).startswith("### Added\n\n- A line.")


def pack(order: list[str], moment: int) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for name in order:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uid = len(name), moment, moment % 1000
            member.uname, member.mode = f"user{moment}", 0o600 + moment % 8
            archive.addfile(member, io.BytesIO(name.encode()))
    return raw.getvalue()


def test_an_sdist_does_not_tell_when_and_by_whom_it_was_packed():
    one, other = pack(["a/b", "a/c"], 1_000_001), pack(["a/c", "a/b"], 1_700_000_004)
    assert gzip.decompress(one) != gzip.decompress(other)
    assert normalized(one, 7) == normalized(other, 7)
    with tarfile.open(fileobj=io.BytesIO(normalized(one, 7))) as archive:
        assert archive.getnames() == ["a/b", "a/c"]
        member = archive.getmember("a/b")
        assert (member.mtime, member.uid, member.mode) == (7, 0, 0o644)
        assert archive.extractfile(member).read() == b"a/b"


def test_tags_of_free_threaded_pythons():
    assert Python("3.14t", Path()).tag == "cp314-cp314t"
    assert Python("3.10", Path()).tag == "cp310-cp310"


def planned(monkeypatch, asked, machines, there, unpacked):
    """Return the planned wheels, given the Pythons `there` and Debian's, `unpacked` by release."""

    def prepare(target):
        if target.release not in unpacked:
            raise SetUpError("out of reach")
        return target.version or unpacked[target.release]

    monkeypatch.setattr(wheels, "HOST", "x86_64")
    monkeypatch.setattr(wheels, "find", lambda asked: {v: Python(v, Path()) for v in there})
    monkeypatch.setattr(wheels.foreign, "prepare", prepare)
    return {what: steps is not None for what, steps in wheels.plan(asked, machines, Path(), 0)}


def test_every_wheel_is_planned_or_named(monkeypatch):
    own = {"": "3.11", "trixie": "3.13", "forky": "3.14"}
    said = planned(monkeypatch, None, ["x86_64", "aarch64"], ["3.11", "3.13t"], own)
    assert len(said) == 2 * len(WANTED)
    assert {what for what, made in said.items() if made} == {
        "x86_64, CPython 3.11",
        "x86_64, CPython 3.13t",
        *(f"x86_64, CPython 3.{minor}, emulated" for minor in (13, 14, 15)),
        *(f"aarch64, CPython 3.{minor}, emulated" for minor in (11, 13, 14, 15)),
    }


def test_one_wheel_alone_is_planned(monkeypatch):
    assert planned(monkeypatch, ["3.11"], ["x86_64"], ["3.11"], {}) == {
        "x86_64, CPython 3.11": True
    }


def test_what_cannot_be_unpacked_is_named(monkeypatch):
    (said,) = planned(monkeypatch, ["3.14"], ["aarch64"], ["3.14"], {"": "3.11"}).items()
    assert said[0].startswith("aarch64, CPython 3.14") and not said[1]


def test_another_build_has_to_give_the_same_bytes(tmp_path):
    def make(content):
        def build(folder):
            (folder / "a.whl").write_text(content)
            return folder / "a.whl"

        return build

    assert wheels.build([make("a"), make("a")], tmp_path).read_text() == "a"
    with pytest.raises(RuntimeError, match="other bytes"):
        wheels.build([make("a"), make("b")], tmp_path)


PACKAGE = {"name": "libgomp1", "version": "12.2.0-14", "purl": "pkg:deb/debian/libgomp1@12.2.0-14"}


@pytest.mark.parametrize("without", ["", "name", "version", "purl"])
def test_a_library_whose_origin_no_sbom_tells_is_refused(tmp_path, without):
    wheel = tmp_path / "a.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pplconv.libs/libgomp-12ab.so.1.0.0", b"")
        told = {**PACKAGE, **({without: ""} if without else {})}
        text = json.dumps({"components": [told]})
        archive.writestr("pplconv-1.dist-info/sboms/auditwheel.cdx.json", text)
    if not without:
        assert bundled(wheel) == ["libgomp-12ab.so.1.0.0"]
    else:
        with pytest.raises(RuntimeError, match="libgomp"):
            bundled(wheel)
