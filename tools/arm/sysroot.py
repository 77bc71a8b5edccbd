"""Debian's Python for AArch64, unpacked into a folder.

apt has a state of its own here, in which the machine is an AArch64 one with nothing installed; its
sources and keys are those of the host. The host's packages and architectures stay as they are, and
no package script runs.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tools.arm.host import SetUpError, run
from tools.arm.kept import digest, keep
from tools.arm.places import BUILD, SYSROOT

# libgomp and libstdc++ are what the package and third-party wheels link.
_LIBRARIES = ("libgomp1", "libstdc++6")
# They come along as dependencies of each other and are of no use without a system.
_UNUSED = ("dpkg_", "tar_", "media-types_", "perl", "debconf_")
_CONFIGURATION = """\
APT::Architecture "arm64";
APT::Architectures {{ "arm64"; }};
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Dir::State "{0}";
Dir::State::status "{0}/status";
Dir::Cache "{0}/cache";
"""


def make_sysroot() -> str:
    """Have the sysroot; give the hash of what it is made of."""
    key = digest(Path(__file__).read_bytes(), _sources())
    keep(SYSROOT, key, "sysroot: Debian's Python for AArch64", _fill)
    return key


def python_version() -> str:
    """Version of the sysroot's Python: major and minor."""
    (name,) = (n.name for n in SYSROOT.glob("usr/bin/python3.*") if n.name.count(".") == 1)
    return name.removeprefix("python")


def glibc_version() -> tuple[int, int]:
    """Version of the sysroot's C library."""
    text = next(SYSROOT.glob("**/libc.so.6")).read_bytes()
    match = re.search(rb"GNU C Library [^\n]* version (\d+)\.(\d+)", text)
    if match is None:
        raise SetUpError("the sysroot's C library does not tell its version")
    return int(match[1]), int(match[2])


def dist_packages() -> Path:
    """Folder of the sysroot that its Python looks for packages in."""
    return SYSROOT / f"usr/local/lib/python{python_version()}/dist-packages"


def _sources() -> str:
    """The host's own lists of where packages come from: another release is another Python."""
    folder = Path("/etc/apt")
    files = [folder / "sources.list", *sorted(folder.glob("sources.list.d/*"))]
    files = [path for path in files if path.is_file() and path.suffix in (".list", ".sources")]
    if not files:
        raise SetUpError("no sources of Debian packages in /etc/apt: the sysroot is made of them")
    return "\0".join(path.read_text(errors="replace") for path in files)


def _fill(folder: Path) -> None:
    state = BUILD / "apt"
    archives = state / "cache" / "archives"
    for name in (state / "lists" / "partial", archives / "partial"):
        name.mkdir(parents=True, exist_ok=True)
    (state / "status").write_text("")
    configuration = state / "apt.conf"
    configuration.write_text(_CONFIGURATION.format(state))
    environment = {**os.environ, "APT_CONFIG": str(configuration)}
    run("apt-get", "update", "-qq", env=environment)
    python = _newest_python(environment)
    for old in archives.glob("*.deb"):
        old.unlink()
    wanted = (f"{python}-minimal", f"lib{python}-stdlib", *_LIBRARIES)
    run(
        *("apt-get", "install", "-y", "-qq", "--download-only", *wanted),
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    # Headers: what it depends on beyond them is not needed.
    run("apt-get", "download", "-qq", f"lib{python}-dev", env=environment, cwd=archives)
    for package in sorted(archives.glob("*.deb")):
        if not package.name.startswith(_UNUSED):
            run("dpkg-deb", "--extract", package, folder)


def _newest_python(environment: dict[str, str]) -> str:
    """Name of Debian's own Python, as ``python3.11``."""
    command = ["apt-cache", "depends", "python3-minimal"]
    listed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    match = re.search(r"Depends: (python3\.\d+)-minimal", listed.stdout)
    if match is None:
        raise SetUpError("apt knows no Python for arm64: " + (listed.stderr or listed.stdout))
    return match[1]
