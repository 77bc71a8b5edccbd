"""The Pythons that wheels support, and their paths on this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Each maintained CPython; "t" is free-threaded.
WANTED = ("3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.14t", "3.15", "3.15t")

_ASK = """
import json, sys, sysconfig
free = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
print(json.dumps([sys.implementation.name, "%d.%d" % sys.version_info[:2] + free, sys.prefix,
                  sysconfig.get_paths()["include"]]))
"""


@dataclass(frozen=True)
class Python:
    """An interpreter that can build.

    Parameters
    ----------
    version : str
        Major and minor, with a "t" if it is free-threaded.
    executable : Path
        Its path.
    """

    version: str
    executable: Path

    @property
    def tag(self) -> str:
        """The tags of its wheels: Python and ABI."""
        plain = f"cp{self.version.replace('.', '').rstrip('t')}"
        return f"{plain}-{plain}{'t' * self.version.endswith('t')}"


def ask(executable: Path) -> Python | None:
    """Describe an interpreter; None if it is not CPython, or has no headers.

    Parameters
    ----------
    executable : Path
        The interpreter.
    """
    try:
        done = subprocess.run(
            [str(executable), "-I", "-c", _ASK], capture_output=True, text=True, check=True
        )
        name, version, prefix, include = json.loads(done.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None
    if name != "cpython" or not (Path(include) / "Python.h").exists():
        return None
    # The interpreter behind a launcher, whose choice depends on the working directory.
    own = Path(prefix) / "bin" / f"python{version}"
    return Python(version, own if own.exists() else executable)


def find(wanted: tuple[str, ...] = WANTED) -> dict[str, Python]:
    """Find interpreters on the path and in pyenv's folder.

    Parameters
    ----------
    wanted : tuple of str
        Versions.

    Returns
    -------
    dict
        Interpreters that exist, by version.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found: dict[str, Python] = {}
    for version in wanted:
        candidates = [Path(p) for p in [shutil.which(f"python{version}")] if p]
        candidates += sorted(pyenv.glob(f"*/bin/python{version}"))
        for python in filter(None, map(ask, candidates)):
            if python.version == version:
                found[version] = python
                break
    return found
