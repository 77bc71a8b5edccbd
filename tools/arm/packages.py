"""AArch64 wheels from the host's pip, which finds them as the user has it set up (``PIP_*``)."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.arm.host import run
from tools.arm.sysroot import glibc_version, python_version


def install(folder: Path, *requirements: str) -> None:
    """Install wheels for the emulated Python.

    Parameters
    ----------
    folder : Path
        Where to.
    *requirements : str
        As pip understands them.
    """
    libc = [f"manylinux_2_{minor}_aarch64" for minor in range(glibc_version()[1], 16, -1)]
    platforms = [f"--platform={name}" for name in (*libc, "manylinux2014_aarch64", "linux_aarch64")]
    run(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--root-user-action=ignore"),
        # The host's Python may be another one, whose bytecode is of no use.
        "--no-compile",
        *("--target", folder, "--only-binary=:all:", "--implementation=cp"),
        *(f"--python-version={python_version()}", *platforms, *requirements),
    )
