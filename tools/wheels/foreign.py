"""The wheel for AArch64: cross-compiled, and tried under emulation by Debian's Python."""

from __future__ import annotations

import zipfile
from pathlib import Path

from tools.arm import packages
from tools.arm.emulated import environment
from tools.arm.host import ensure_tools
from tools.arm.kept import alone, digest, keep
from tools.arm.targets import AARCH64
from tools.arm.wheel import build_wheel, make_build_tools, requirements
from tools.wheels.native import SMOKE, call


def prepare() -> None:
    """Have what comes from elsewhere: emulator, cross compiler, Python.

    Raises
    ------
    SetUpError
        If something cannot be had.
    """
    with alone(AARCH64.build):
        ensure_tools(AARCH64)
        make_build_tools(AARCH64)


def make_wheel(folder: Path) -> Path:
    """Build the wheel.

    Parameters
    ----------
    folder : Path
        Where to put it.

    Returns
    -------
    Path
        The wheel.
    """
    with alone(AARCH64.build):
        wheel, _, _ = build_wheel(AARCH64)
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / wheel.name
        target.write_bytes(wheel.read_bytes())
    return target


def try_wheel(wheel: Path, version: str) -> str:
    """Compute with a wheel on the emulated CPU, beside its requirements alone.

    Parameters
    ----------
    wheel : Path
        The wheel.
    version : str
        That it has to have.

    Returns
    -------
    str
        What it printed last.
    """
    site = AARCH64.build / "smoke"
    asked = requirements(wheel, "")

    def fill(folder: Path) -> None:
        packages.install(AARCH64, folder, *asked)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)

    with alone(AARCH64.build):
        keep(site, digest(*asked, wheel.read_bytes()), "an empty environment", fill)
        # -S: what the test suite has installed is out of reach.
        env = environment(AARCH64, PYTHONPATH=str(site), OPENBLAS_NUM_THREADS="1")
        command = (AARCH64.python, "-S", "-P", SMOKE, version)
        return call(*command, env=env, cwd=site).splitlines()[-1]
