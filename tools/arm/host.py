"""What the machine itself has to have: an emulator, a cross compiler and its libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tools.arm.kept import say

QEMU = "qemu-aarch64-static"
PREFIX = "aarch64-linux-gnu-"

# Debian's package, and what shows that it is there.
_NEEDED = {
    "qemu-user-static": QEMU,
    "gcc-aarch64-linux-gnu": f"{PREFIX}gcc",
    "binutils-aarch64-linux-gnu": f"{PREFIX}objdump",
    "libc6-dev-arm64-cross": "/usr/aarch64-linux-gnu/include/stdio.h",
}


class SetUpError(Exception):
    """Something is missing or failed, for a reason that the message tells in full."""


def run(*command: str | Path, **options: object) -> None:
    """Run a command; its failure is a `SetUpError`."""
    words = [str(word) for word in command]
    status = subprocess.run(words, check=False, **options).returncode  # type: ignore[call-overload]
    if status:
        raise SetUpError(f"exit status {status} of: {' '.join(words)}")


def missing_packages() -> list[str]:
    """Debian packages that are not installed."""
    return [
        package
        for package, trace in _NEEDED.items()
        if not (Path(trace).exists() if trace.startswith("/") else shutil.which(trace))
    ]


def ensure_tools() -> None:
    """Have the tools, installing them where this may: as root on a machine with apt.

    Raises
    ------
    SetUpError
        If one is missing.
    """
    missing = missing_packages()
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        say(f"installing {' '.join(missing)}")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run("apt-get", "update", "-qq", env=environment)
        options = ("-y", "-qq", "--no-install-recommends")
        run("apt-get", "install", *options, *missing, env=environment, stdout=subprocess.DEVNULL)
        missing = missing_packages()
    if missing:
        raise SetUpError(
            f"missing, by their names in Debian: {' '.join(missing)}\n"
            f"    sudo apt-get install --no-install-recommends {' '.join(missing)}"
        )
    models = subprocess.run([QEMU, "-cpu", "help"], capture_output=True, text=True, check=False)
    if "a64fx" not in models.stdout:
        raise SetUpError(f"this {QEMU} does not know the CPUs that are tested; 7.2 and newer do")
