"""Wheels by the host's pip, with the user's settings (``PIP_*``)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tools.arm.host import run
from tools.arm.sysroot import glibc_version, python_version
from tools.arm.targets import Target


def install(target: Target, folder: Path, *requirements: str) -> None:
    """Install wheels for the emulated Python.

    Parameters
    ----------
    target : Target
        The machine of the wheels.
    folder : Path
        Destination.
    *requirements : str
        In pip's syntax.
    """
    libc = [f"manylinux_2_{minor}" for minor in range(glibc_version(target)[1], 16, -1)]
    systems = (*libc, "manylinux2014", "linux")
    platforms = [f"--platform={name}_{target.machine}" for name in systems]
    python = ("--implementation=cp", f"--python-version={python_version(target)}")
    wheels = ("--only-binary=:all:", *python, *platforms)
    pip = (sys.executable, "-m", "pip", "--quiet")
    here = ("--no-index", "--no-deps", "--root-user-action=ignore")
    with tempfile.TemporaryDirectory() as name:
        # `download` checks packages against the emulated Python, `install` against the host's.
        run(*pip, "download", "--dest", name, *wheels, *requirements)
        # The host's bytecode is useless, too.
        foreign = ("--ignore-requires-python", "--no-compile", *wheels)
        found = sorted(Path(name).iterdir())
        run(*pip, "install", *here, *foreign, "--target", folder, *found)
