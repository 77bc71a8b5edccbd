"""Requirements of the host: an emulator, a cross compiler and its libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tools.arm.kept import say
from tools.arm.targets import Target


def _needed(target: Target) -> dict[str, str]:
    """Debian packages, each with a program or file that proves its presence."""
    if target.is_host:
        return {"qemu-user-static": target.qemu, "gcc": f"{target.prefix}gcc"}
    return {
        "qemu-user-static": target.qemu,
        f"gcc-{target.triple}": f"{target.prefix}gcc",
        f"binutils-{target.triple}": f"{target.prefix}objdump",
        f"libc6-dev-{target.debian}-cross": f"/usr/{target.triple}/include/stdio.h",
    }


class SetUpError(Exception):
    """Something is missing or failed; the message gives the full reason."""


def run(*command: str | Path, **options: object) -> None:
    """Run a command; its failure is a `SetUpError`."""
    words = [str(word) for word in command]
    status = subprocess.run(words, check=False, **options).returncode  # type: ignore[call-overload]
    if status:
        raise SetUpError(f"exit status {status} of: {' '.join(words)}")


def missing_packages(target: Target) -> list[str]:
    """Debian packages that are not installed."""
    return [
        package
        for package, trace in _needed(target).items()
        if not (Path(trace).exists() if trace.startswith("/") else shutil.which(trace))
    ]


def ensure_tools(target: Target) -> None:
    """Check the tools; install missing ones if root on a machine with apt.

    Raises
    ------
    SetUpError
        If one is missing.
    """
    missing = missing_packages(target)
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        say(f"installing {' '.join(missing)}")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run("apt-get", "update", "-qq", env=environment)
        options = ("-y", "-qq", "--no-install-recommends")
        run("apt-get", "install", *options, *missing, env=environment, stdout=subprocess.DEVNULL)
        missing = missing_packages(target)
    if missing:
        raise SetUpError(
            f"missing, by their names in Debian: {' '.join(missing)}\n"
            f"    sudo apt-get install --no-install-recommends {' '.join(missing)}"
        )
    command = [target.qemu, "-cpu", "help"]
    models = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    if not {cpu.partition(",")[0] for cpu in target.cpus} <= {*models}:
        raise SetUpError(f"this {command[0]} lacks CPUs that are tested; 7.2 and newer have them")
