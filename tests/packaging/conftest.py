"""Build the package once for the whole test run, however many workers there are.

``PPLCONV_TEST_DIST`` names a folder with an sdist and the wheel that was made of it alone: then
these files are tested (``make test-all WHEEL_OF=sdist``), and nothing is built here.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from build import ProjectBuilder

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent.parent
# Files that a clone lacks; a build must not find them by accident.
NOT_CLONED = shutil.ignore_patterns(
    ".*", "build", "dist", "*.egg-info", "*.so", "*.o", "__pycache__", "*.png"
)


@dataclass(frozen=True)
class Built:
    """The two files that a release consists of."""

    sdist: Path
    wheel: Path


def clean_environment() -> dict[str, str]:
    """Return the environment without variables that lead Python to the source tree."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}


def run_command(*command: str | Path, cwd: Path) -> str:
    """Run a command and give its output; fail with that output if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-6000:]}"
    return done.stdout


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out of the block; the lock goes with the process that holds it."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(folder: Path) -> Built:
    """Make an sdist of a clean copy of the tree, and a wheel of nothing but the sdist."""
    source, dist = folder / "clone", folder / "dist"
    shutil.copytree(ROOT, source, ignore=NOT_CLONED)
    run_command(sys.executable, "-m", "build", "--outdir", dist, source, cwd=folder)
    return dist_in(dist)


def dist_in(folder: Path) -> Built:
    """Give the two files that a folder holds."""
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return Built(sdist, wheel)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Give sdist and wheel, built by the first worker that asks."""
    if dist := os.environ.get("PPLCONV_TEST_DIST"):
        return dist_in(Path(dist))
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # the workers of this run share it
    outcome = folder / "built.json"
    with locked(folder / "build.lock"):
        if not outcome.exists():
            work = folder / "build"
            work.mkdir()
            try:
                found = build(work)
                record = {"sdist": str(found.sdist), "wheel": str(found.wheel)}
            except Exception as error:
                record = {"error": str(error)}
            outcome.write_text(json.dumps(record))
    record = json.loads(outcome.read_text())
    if "error" in record:
        pytest.fail(f"the package does not build\n{record['error']}")
    return Built(Path(record["sdist"]), Path(record["wheel"]))


@pytest.fixture(scope="session")
def run() -> Callable[..., str]:
    """Give `run_command`."""
    return run_command


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with the packages that a build needs, by pyproject.toml."""
    folder = tmp_path_factory.mktemp("packages")
    needed = sorted(ProjectBuilder(ROOT).build_system_requires)
    run_command(sys.executable, "-m", "pip", "install", "--target", folder, *needed, cwd=folder)
    return folder
