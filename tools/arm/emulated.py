"""The emulated Python, as one command.

An emulated process may execute the host's own programs, so the emulated Python compiles with the
cross compiler at full speed, and starts itself again through the same command. Paths below the
sysroot exist for it alone; all others are the host's, so that what it installs and compiles lies
where both sides see it.
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

from tools.arm.host import PREFIX, QEMU
from tools.arm.places import BUILD, PACKAGE, PYTHON, SYSROOT, TEST_PACKAGES, TOOLCHAIN
from tools.arm.sysroot import dist_packages, python_version

# `max` alone has SME, for which OpenBLAS has a kernel that makes NumPy warn.
DEFAULT_CPU = "max,sme=off"
# Names under which tests and builds call the tools of the machine that they run on.
_TOOLS = ("as", "gcc", "ld", "nm", "objcopy", "objdump", "readelf", "strip")


def make_command() -> None:
    """Write the command and what it needs: cheap, so it is done every time."""
    TOOLCHAIN.mkdir(parents=True, exist_ok=True)
    for name in (*_TOOLS, "cc"):
        path = TOOLCHAIN / name
        target = shutil.which(PREFIX + ("gcc" if name == "cc" else name))
        if target and not (path.is_symlink() and os.readlink(path) == target):
            path.unlink(missing_ok=True)
            path.symlink_to(target)
    # Quietly replaced: tests of another run may be about to start it.
    temporary = PYTHON.with_suffix(".part")
    temporary.write_text(
        "#!/bin/sh\n"
        "# AArch64 Python under emulation; QEMU_CPU chooses the CPU.\n"
        f'export QEMU_CPU="${{QEMU_CPU:-{DEFAULT_CPU}}}"\n'
        f"exec {shutil.which(QEMU)} -L {shlex.quote(str(SYSROOT))} "
        f'{shlex.quote(str(SYSROOT / "usr/bin" / f"python{python_version()}"))} "$@"\n'
    )
    temporary.chmod(0o755)
    temporary.replace(PYTHON)
    site = dist_packages()
    site.mkdir(parents=True, exist_ok=True)
    # Where programs look for Python to start it again; and where packages are.
    (site / "emulated.pth").write_text(
        f"import sys; sys.executable = sys._base_executable = {str(PYTHON)!r}\n"
        f"{PACKAGE}\n{TEST_PACKAGES}\n"
    )


def environment(cpu: str = DEFAULT_CPU, **more: str) -> dict[str, str]:
    """Environment for the emulated Python: the user's, without what speaks of the host's."""
    left_out = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CC", "CFLAGS", "LDFLAGS")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    path = f"{TOOLCHAIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    # Bytecode goes to one place, for neither the sources nor the wheel are to get any.
    kept["PYTHONPYCACHEPREFIX"] = str(BUILD / "bytecode")
    return {**kept, "PATH": path, "QEMU_CPU": cpu, **more}


def build_environment(packages: Path) -> dict[str, str]:
    """Environment in which setuptools compiles for the emulated Python.

    Its own configuration names the cross compiler already: that is what its Debian package was
    compiled by. The headers alone are elsewhere.
    """
    include = SYSROOT / "usr/include"
    return environment(
        CPPFLAGS=f"-I{include}/python{python_version()} -idirafter {include}",
        CFLAGS=os.environ.get("CFLAGS", ""),
        PYTHONPATH=str(packages),
    )
