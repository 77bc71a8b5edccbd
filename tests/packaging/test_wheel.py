"""What users get: an sdist that builds, and a wheel that runs in an empty environment."""

from __future__ import annotations

import email
import re
import sys
import tarfile
import venv
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

pytestmark = [
    pytest.mark.slow,
    pytest.mark.unsanitized("builds a package of its own, which has no sanitizer in it"),
]

ROOT = Path(__file__).resolve().parent.parent.parent
# As written there; `tests/packaging/test_release.py` compares the other places with it.
(VERSION,) = re.findall(r'"([\d.]+)"', (ROOT / "pplconv/_version.py").read_text())


@pytest.fixture(scope="module")
def wheel_names(built) -> list[PurePosixPath]:
    with zipfile.ZipFile(built.wheel) as wheel:
        assert wheel.testzip() is None
        return [PurePosixPath(name) for name in wheel.namelist()]


@pytest.fixture(scope="module")
def metadata(built) -> email.message.Message:
    with zipfile.ZipFile(built.wheel) as wheel:
        (name,) = [n for n in wheel.namelist() if n.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(wheel.read(name))


def test_wheel_is_below_5_mb(built):
    assert built.wheel.stat().st_size < 5_000_000


def test_wheel_holds_the_package_and_nothing_else(wheel_names):
    """No tests, no generators, no sources of extension modules; but all files for type checkers."""
    assert {name.parts[0].partition("-")[0] for name in wheel_names} == {"pplconv"}
    packaged = [name for name in wheel_names if name.parts[0] == "pplconv"]
    assert {name.suffix for name in packaged} <= {".py", ".pyi", ".so", ".typed"}
    assert PurePosixPath("pplconv/py.typed") in packaged
    modules = {path.stem for path in (ROOT / "pplconv").rglob("*.pyx")}
    built_modules = {n.name.partition(".")[0] for n in packaged if n.suffix == ".so"}
    assert built_modules == modules
    assert {"conv"} <= {n.stem for n in packaged if n.suffix == ".pyi"}
    python = {p.relative_to(ROOT).as_posix() for p in (ROOT / "pplconv").rglob("*.py")}
    assert python == {str(n) for n in packaged if n.suffix == ".py"}


def test_sdist_holds_what_a_build_needs(built):
    with tarfile.open(built.sdist) as sdist:
        names = {str(PurePosixPath(*PurePosixPath(n).parts[1:])) for n in sdist.getnames()}
    for name in ("pyproject.toml", "setup.py", "LICENSE", "README.md", "CHANGELOG.md"):
        assert name in names
    wanted = {
        path.relative_to(ROOT).as_posix()
        for room in ("asm", "pplconv")
        for path in (ROOT / room).rglob("*")
        if path.suffix in (".py", ".pyi", ".pyx", ".pxd", ".c", ".h", ".typed")
        and not (path.suffix == ".c" and path.with_suffix(".pyx").exists())
    }
    assert wanted - names == set()
    assert [n for n in names if n.endswith((".so", ".o", ".pyc"))] == []


def test_metadata(metadata):
    assert metadata["Name"] == "pplconv"
    assert metadata["Version"] == VERSION
    assert metadata["Summary"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert SpecifierSet(metadata["Requires-Python"]) == SpecifierSet(">=3.10")
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    assert len(metadata.get_payload()) > 1000, "the README is the description"
    assert re.findall(r"\]\((?!https?:)", metadata.get_payload()) == [], "links lead nowhere there"
    classifiers = metadata.get_all("Classifier")
    assert "Typing :: Typed" in classifiers
    assert "Programming Language :: Python :: 3.10" in classifiers


def test_it_needs_three_packages_only(metadata):
    requirements = [Requirement(text) for text in metadata.get_all("Requires-Dist")]
    plain = {r.name for r in requirements if r.marker is None or "extra" not in str(r.marker)}
    assert plain == {"numpy", "psutil", "threadpoolctl"}
    assert {"demo", "test"} <= set(metadata.get_all("Provides-Extra"))


CONVOLVE = """
import sys
import numpy as np
import pplconv

assert pplconv.__file__.startswith(sys.prefix), pplconv.__file__
rng = np.random.default_rng(0)
x = rng.standard_normal((2, 5, 12, 13)).astype(np.float32)
w = rng.standard_normal((7, 5, 3, 3)).astype(np.float32)
windows = np.lib.stride_tricks.sliding_window_view(x.astype(float), (3, 3), axis=(2, 3))
expected = np.einsum("nchwij,ocij->nohw", windows, w.astype(float))
assert np.allclose(pplconv.conv2d(x, w), expected, atol=1e-4)
assert np.allclose(pplconv.Conv2d(w)(x), expected, atol=1e-4)
pplconv.show_config()
"""


def test_wheel_runs_in_an_empty_environment(built, tmp_path, run):
    """Only the wheel's requirements are beside it; the source tree is out of reach."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    pip = (python, "-I", "-m", "pip", "--disable-pip-version-check")
    run(*pip, "install", "--only-binary", ":all:", built.wheel, cwd=tmp_path)
    run(*pip, "check", cwd=tmp_path)
    listed = run(*pip, "list", "--format", "freeze", cwd=tmp_path)
    installed = {line.partition("==")[0] for line in listed.split()} - {"pip", "setuptools"}
    assert installed == {"pplconv", "numpy", "psutil", "threadpoolctl"}
    printed = run(python, "-I", "-c", CONVOLVE, cwd=tmp_path)
    assert VERSION in printed
    assert VERSION in run(python, "-I", "-m", "pplconv", "info", cwd=tmp_path)


def test_wheel_is_for_this_python_and_platform(built):
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert re.fullmatch(
        rf"pplconv-{re.escape(VERSION)}-{tag}-{tag}-linux_\w+\.whl", built.wheel.name
    )


def test_no_extension_needs_a_library_that_users_lack(built, tmp_path, run):
    """Only OpenMP and the C library are needed, and no stack becomes executable."""
    with zipfile.ZipFile(built.wheel) as wheel:
        shared = [name for name in wheel.namelist() if name.endswith(".so")]
        wheel.extractall(tmp_path, shared)
    assert shared
    for name in shared:
        dynamic = run("readelf", "-d", tmp_path / name, cwd=tmp_path)
        needed = set(re.findall(r"\(NEEDED\).*\[([\w-]+)\.so", dynamic))
        assert needed <= {"libc", "libm", "libgomp", "libpthread", "ld-linux-x86-64"}, name
        header = run("readelf", "-lW", tmp_path / name, cwd=tmp_path)
        stack = re.search(r"GNU_STACK.*", header)
        assert stack and "E" not in stack.group().split()[-2], f"{name}: executable stack"
