"""Debian's Python for an emulated machine, unpacked into a folder.

apt has a state of its own here, which says that the machine is another one and has nothing
installed; its sources and keys are those of the host. The host's packages and architectures stay as
they are, and no package script runs.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tools.arm.host import SetUpError, run
from tools.arm.kept import digest, keep, say
from tools.arm.targets import Target

# libgomp and libstdc++ are what the package and third-party wheels link.
_LIBRARIES = ("libgomp1", "libstdc++6")
# They come along as dependencies of each other and are of no use without a system.
_UNUSED = ("dpkg_", "tar_", "media-types_", "perl", "debconf_")
_CONFIGURATION = """\
APT::Architecture "{1}";
APT::Architectures {{ "{1}"; }};
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Dir::State "{0}";
Dir::State::status "{0}/status";
Dir::Cache "{0}/cache";
"""


def make_sysroot(target: Target) -> str:
    """Have the sysroot; give the hash of what it is made of."""
    key = digest(Path(__file__).read_bytes(), _sources(), *target.from_debian)
    what = f"sysroot: Debian's Python for {target.machine}"
    keep(target.sysroot, key, what, lambda folder: _fill(target, folder))
    return key


def python_version(target: Target) -> str:
    """Version of the sysroot's Python: major and minor."""
    (name,) = (n.name for n in target.sysroot.glob("usr/bin/python3.*") if n.name.count(".") == 1)
    return name.removeprefix("python")


def glibc_version(target: Target) -> tuple[int, int]:
    """Version of the sysroot's C library."""
    text = next(target.sysroot.glob("**/libc.so.6")).read_bytes()
    match = re.search(rb"GNU C Library [^\n]* version (\d+)\.(\d+)", text)
    if match is None:
        raise SetUpError("the sysroot's C library does not tell its version")
    return int(match[1]), int(match[2])


def dist_packages(target: Target) -> Path:
    """Folder of the sysroot that its Python looks for packages in."""
    return target.sysroot / f"usr/local/lib/python{python_version(target)}/dist-packages"


def _sources() -> str:
    """The host's own lists of where packages come from: another release is another Python."""
    folder = Path("/etc/apt")
    files = [folder / "sources.list", *sorted(folder.glob("sources.list.d/*"))]
    files = [path for path in files if path.is_file() and path.suffix in (".list", ".sources")]
    if not files:
        raise SetUpError("no sources of Debian packages in /etc/apt: the sysroot is made of them")
    return "\0".join(path.read_text(errors="replace") for path in files)


def _fill(target: Target, folder: Path) -> None:
    state = target.build / "apt"
    archives = state / "cache" / "archives"
    for name in (state / "lists" / "partial", archives / "partial"):
        name.mkdir(parents=True, exist_ok=True)
    (state / "status").write_text("")
    configuration = state / "apt.conf"
    configuration.write_text(_CONFIGURATION.format(state, target.debian))
    environment = {**os.environ, "APT_CONFIG": str(configuration)}
    # One of several lists may be out of reach, as while a mirror is brought up to date: whether
    # what is wanted can be had without it shows below.
    if subprocess.run(["apt-get", "update", "-qq"], env=environment, check=False).returncode:
        say("apt goes on with the lists that it could get")
    python = _newest_python(target, environment)
    for old in archives.glob("*.deb"):
        old.unlink()
    wanted = (f"{python}-minimal", f"lib{python}-stdlib", *_LIBRARIES, *target.from_debian)
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
    # Where several packages have a library, links that no script has made lead to one of them.
    libraries = folder / "usr/lib" / target.triple
    for place in ("blas/libblas.so.3", "lapack/liblapack.so.3"):
        if (libraries / place).exists():
            (libraries / Path(place).name).symlink_to(place)


def _newest_python(target: Target, environment: dict[str, str]) -> str:
    """Name of Debian's own Python, as ``python3.11``."""
    command = ["apt-cache", "depends", "python3-minimal"]
    listed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    match = re.search(r"Depends: (python3\.\d+)-minimal", listed.stdout)
    if match is None:
        raise SetUpError(
            f"apt knows no Python for {target.debian}: " + (listed.stderr or listed.stdout)
        )
    return match[1]
