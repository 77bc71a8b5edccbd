"""The emulated Python, as one command.

An emulated process may execute the host's own programs, so the emulated Python compiles with the
cross compiler at full speed, and restarts itself through the same command. Only it sees paths below
the sysroot; all other paths are the host's, so both sides see the files that it installs and
compiles.
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

from tools.arm.sysroot import dist_packages, python_version
from tools.arm.targets import Target

# Names by which tests and builds call the native tools.
_TOOLS = ("as", "gcc", "ld", "nm", "objcopy", "objdump", "readelf", "strip")


def make_command(target: Target) -> None:
    """Write the command and its files: cheap, so done every time."""
    target.toolchain.mkdir(parents=True, exist_ok=True)
    for name in (*_TOOLS, "cc"):
        path = target.toolchain / name
        tool = shutil.which(target.prefix + ("gcc" if name == "cc" else name))
        if tool and not (path.is_symlink() and os.readlink(path) == tool):
            path.unlink(missing_ok=True)
            path.symlink_to(tool)
    python = target.sysroot / "usr/bin" / f"python{python_version(target)}"
    # Replaced atomically: tests of another run may be starting it.
    temporary = target.python.with_suffix(".part")
    temporary.write_text(
        "#!/bin/sh\n"
        f"# Python for {target.machine} under emulation; QEMU_CPU chooses the CPU.\n"
        f'export QEMU_CPU="${{QEMU_CPU:-{target.default_cpu}}}"\n'
        f"exec {shutil.which(target.qemu)} -L {shlex.quote(str(target.sysroot))} "
        f'{shlex.quote(str(python))} "$@"\n'
    )
    temporary.chmod(0o755)
    temporary.replace(target.python)
    site = dist_packages(target)
    site.mkdir(parents=True, exist_ok=True)
    # The path by which programs restart Python; and the folders of packages.
    (site / "emulated.pth").write_text(
        f"import sys; sys.executable = sys._base_executable = {str(target.python)!r}\n"
        f"{target.package}\n{target.test_packages}\n"
    )


def environment(target: Target, cpu: str = "", **more: str) -> dict[str, str]:
    """Environment for the emulated Python: the user's, without the host Python's variables."""
    left_out = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CC", "CFLAGS", "LDFLAGS"}
    # Without bytecode each emulated process compiles all its imports.
    left_out.add("PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    path = f"{target.toolchain}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    # Bytecode goes to one folder: neither the sources nor the wheel may get any.
    kept["PYTHONPYCACHEPREFIX"] = str(target.bytecode)
    return {**kept, "PATH": path, "QEMU_CPU": cpu or target.default_cpu, **more}


def build_environment(target: Target, packages: Path) -> dict[str, str]:
    """Environment in which setuptools compiles for the emulated Python.

    Debian cross-compiled this Python, so its configuration already names the cross compiler. Only
    the headers lie elsewhere.
    """
    include = target.sysroot / "usr/include"
    return environment(
        target,
        CPPFLAGS=f"-I{include}/python{python_version(target)} -idirafter {include}",
        CFLAGS=os.environ.get("CFLAGS", ""),
        PYTHONPATH=str(packages),
    )
