"""Debian's Python for an emulated machine, unpacked into a folder.

apt has a state of its own here, which says that the machine is another one and has nothing
installed; its sources and keys are those of the host, where another release is found as well. The
host's packages and architectures stay as they are, and no package script runs.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
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
Dir::Etc::sourcelist "-";
Dir::Etc::sourceparts "{0}/sources";
Dir::State "{0}";
Dir::State::status "{0}/status";
Dir::Cache "{0}/cache";
"""


def make_sysroot(target: Target) -> str:
    """Have the sysroot; give the hash of what it is made of."""
    sources = (text for pair in _sources(target.release).items() for text in pair)
    key = digest(Path(__file__).read_bytes(), *sources, target.version, *target.from_debian)
    what = f"sysroot: Python of Debian {target.release or 'here'} for {target.machine}"
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


def _sources(release: str) -> dict[str, str]:
    """The host's own lists of where packages come from, by name; another release's if asked for."""
    folder = Path("/etc/apt")
    files = [folder / "sources.list", *sorted(folder.glob("sources.list.d/*"))]
    files = [path for path in files if path.is_file() and path.suffix in (".list", ".sources")]
    texts = {path.name: path.read_text(errors="replace") for path in files}
    if release:
        texts = of_release(texts, platform.freedesktop_os_release()["VERSION_CODENAME"], release)
    if not texts:
        raise SetUpError("no sources of Debian packages in /etc/apt: the sysroot is made of them")
    return texts


def of_release(texts: dict[str, str], own: str, other: str) -> dict[str, str]:
    """Lists of packages with another release's name in the place of the host's own.

    Those that do not name it are left out, for they are of others' packages, and what is in these
    may be of the host's release alone.
    """
    found = {name: re.sub(rf"(?<![\w-]){own}\b", other, text) for name, text in texts.items()}
    return {name: text for name, text in found.items() if text != texts[name]}


def _fill(target: Target, folder: Path) -> None:
    state = target.build / "apt"
    archives = state / "cache" / "archives"
    for name in (state / "lists" / "partial", archives / "partial"):
        name.mkdir(parents=True, exist_ok=True)
    (state / "status").write_text("")
    shutil.rmtree(state / "sources", ignore_errors=True)
    (state / "sources").mkdir()
    for file, text in _sources(target.release).items():
        (state / "sources" / file).write_text(text)
    configuration = state / "apt.conf"
    configuration.write_text(_CONFIGURATION.format(state, target.debian))
    environment = {**os.environ, "APT_CONFIG": str(configuration)}
    # One of several lists may be out of reach, as while a mirror is brought up to date: whether
    # what is wanted can be had without it shows below.
    if subprocess.run(["apt-get", "update", "-qq"], env=environment, check=False).returncode:
        say("apt goes on with the lists that it could get")
    python = f"python{target.version}" if target.version else _own_python(target, environment)
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
    # What packages since trixie take for granted, and bookworm's have themselves.
    for merged in folder.glob("usr/lib*"):
        if not (folder / merged.name).exists():
            (folder / merged.name).symlink_to(f"usr/{merged.name}")
    # Where several packages have a library, links that no script has made lead to one of them.
    libraries = folder / "usr/lib" / target.triple
    for place in ("blas/libblas.so.3", "lapack/liblapack.so.3"):
        if (libraries / place).exists():
            (libraries / Path(place).name).symlink_to(place)


def _own_python(target: Target, environment: dict[str, str]) -> str:
    """Name of Debian's own Python, as ``python3.11``."""
    command = ["apt-cache", "depends", "python3-minimal"]
    listed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    match = re.search(r"Depends: (python3\.\d+)-minimal", listed.stdout)
    if match is None:
        raise SetUpError(
            f"apt knows no Python for {target.debian}: " + (listed.stderr or listed.stdout)
        )
    return match[1]
