"""The host's bytecode for the emulated Python, which takes ten times as long to compile.

Bytecode is the same on every machine. It differs between versions of Python; that of tests, whose
assertions pytest rewrites, also between versions of pytest. Each file names both versions, and the
size and time of its source, so Python recompiles files that do not fit.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tools.arm.sysroot import python_version
from tools.arm.targets import ROOT, Target


def provide(target: Target) -> None:
    """Compile the packages of the emulated Python, and copy the host's bytecode of tests.

    Does nothing if the host's Python has another version.

    Parameters
    ----------
    target : Target
        The emulated machine, its packages installed.
    """
    if python_version(target) != f"{sys.version_info[0]}.{sys.version_info[1]}":
        return
    subprocess.run(
        [sys.executable, "-m", "compileall", "-qq", "-j0", target.package, target.test_packages],
        env={
            **os.environ,
            "PYTHONPYCACHEPREFIX": str(target.bytecode),
            "PYTHONDONTWRITEBYTECODE": "1",  # of its own imports
        },
        stdin=subprocess.DEVNULL,
        check=False,  # packages have files that are not Python, such as templates
    )
    for found in (ROOT / "tests").rglob("__pycache__/*.pyc"):
        # Folder in which Python looks for this `__pycache__`'s bytecode.
        folder = target.bytecode.joinpath(*found.parent.parent.resolve().parts[1:])
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(found, folder)
