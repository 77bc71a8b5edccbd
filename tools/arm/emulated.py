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

from tools.arm.sysroot import dist_packages, python_version
from tools.arm.targets import Target

# Names under which tests and builds call the tools of the machine that they run on.
_TOOLS = ("as", "gcc", "ld", "nm", "objcopy", "objdump", "readelf", "strip")


def make_command(target: Target) -> None:
    """Write the command and what it needs: cheap, so it is done every time."""
    target.toolchain.mkdir(parents=True, exist_ok=True)
    for name in (*_TOOLS, "cc"):
        path = target.toolchain / name
        tool = shutil.which(target.prefix + ("gcc" if name == "cc" else name))
        if tool and not (path.is_symlink() and os.readlink(path) == tool):
            path.unlink(missing_ok=True)
            path.symlink_to(tool)
    python = target.sysroot / "usr/bin" / f"python{python_version(target)}"
    # Quietly replaced: tests of another run may be about to start it.
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
    # Where programs look for Python to start it again; and where packages are.
    (site / "emulated.pth").write_text(
        f"import sys; sys.executable = sys._base_executable = {str(target.python)!r}\n"
        f"{target.package}\n{target.test_packages}\n"
    )


def environment(target: Target, cpu: str = "", **more: str) -> dict[str, str]:
    """Environment for the emulated Python: the user's, without what speaks of the host's."""
    left_out = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CC", "CFLAGS", "LDFLAGS"}
    # Without bytecode each process compiles all that it imports, under emulation.
    left_out.add("PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    path = f"{target.toolchain}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    # Bytecode goes to one place, for neither the sources nor the wheel are to get any.
    kept["PYTHONPYCACHEPREFIX"] = str(target.bytecode)
    return {**kept, "PATH": path, "QEMU_CPU": cpu or target.default_cpu, **more}


def build_environment(target: Target, packages: Path) -> dict[str, str]:
    """Environment in which setuptools compiles for the emulated Python.

    Its own configuration names the cross compiler already, because Debian compiled the package with
    it. Only the headers lie elsewhere.
    """
    include = target.sysroot / "usr/include"
    return environment(
        target,
        CPPFLAGS=f"-I{include}/python{python_version(target)} -idirafter {include}",
        CFLAGS=os.environ.get("CFLAGS", ""),
        PYTHONPATH=str(packages),
    )
