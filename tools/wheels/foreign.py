"""Wheels for emulated Pythons, AArch64 first: cross-compiled and unpacked."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tools.arm import packages
from tools.arm.emulated import environment
from tools.arm.host import ensure_tools
from tools.arm.kept import alone, digest, keep
from tools.arm.sysroot import python_version
from tools.arm.targets import AARCH64, X86_64, Target
from tools.arm.wheel import build_wheel, make_build_tools, requirements
from tools.wheels.native import call

# Debian releases after the oldest supported one; their own Pythons are 3.13 and 3.14.
_OTHERS = (("trixie",), ("forky",), ("forky", "3.15"))
TARGETS = (AARCH64, *(one.of(*other) for one in (AARCH64, X86_64) for other in _OTHERS))


def prepare(target: Target) -> str:
    """Get emulator, compiler and Python; give Python's version.

    Parameters
    ----------
    target : Target
        Machine and Python.

    Raises
    ------
    SetUpError
        If one of them is unavailable.
    """
    with alone(target.build):
        ensure_tools(target)
        make_build_tools(target)
    return python_version(target)


def make_wheel(target: Target, folder: Path) -> Path:
    """Build the wheel.

    Parameters
    ----------
    target : Target
        Machine and Python.
    folder : Path
        Its destination.

    Returns
    -------
    Path
        The wheel.
    """
    with alone(target.build):
        wheel, _, _ = build_wheel(target)
        folder.mkdir(parents=True, exist_ok=True)
        copy = folder / wheel.name
        copy.write_bytes(wheel.read_bytes())
    return copy


@contextmanager
def installed(target: Target, wheel: Path) -> Iterator[Callable[..., str]]:
    """Make a folder with a wheel and its requirements, for the emulated Python.

    Parameters
    ----------
    target : Target
        Machine and Python.
    wheel : Path
        The wheel.

    Yields
    ------
    callable
        Runs that Python with its arguments, like `call`.
    """
    site = target.build / "smoke"
    asked = requirements(wheel, "")

    def fill(folder: Path) -> None:
        packages.install(target, folder, *asked)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)

    with alone(target.build):
        keep(site, digest(*asked, wheel.read_bytes()), "an empty environment", fill)
        # -S: without the packages of the test suite.
        env = environment(target, PYTHONPATH=str(site), OPENBLAS_NUM_THREADS="1")
        yield partial(call, target.python, "-S", "-P", env=env, cwd=site)
