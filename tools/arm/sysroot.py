"""Debian's Python for an emulated machine, unpacked into a folder.

apt runs with a separate state that describes another, empty machine. It uses the host's sources and
keys, which serve other releases as well. The host's packages and architectures do not change, and
no package script runs.
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

# The package and third-party wheels link libgomp and libstdc++.
_LIBRARIES = ("libgomp1", "libstdc++6")
# Dependencies that are useless without a whole system.
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
    """Build the sysroot if necessary; give the hash of its sources."""
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
    """Folder of packages of the sysroot's Python."""
    return target.sysroot / f"usr/local/lib/python{python_version(target)}/dist-packages"


def _sources(release: str) -> dict[str, str]:
    """The host's lists of package sources, by name; rewritten for another release if given."""
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
    """Replace the host's release by another in lists of package sources.

    Lists that do not name the release are left out: they have third-party packages, which may be
    for the host's release only.
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
    # One of several lists may be unreachable, for example while a mirror is updated. The download
    # below shows whether the others suffice.
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
    # Headers only: the package's further dependencies are not needed.
    run("apt-get", "download", "-qq", f"lib{python}-dev", env=environment, cwd=archives)
    for package in sorted(archives.glob("*.deb")):
        if not package.name.startswith(_UNUSED):
            run("dpkg-deb", "--extract", package, folder)
    # Links that packages since trixie expect; bookworm's packages contain them.
    for merged in folder.glob("usr/lib*"):
        if not (folder / merged.name).exists():
            (folder / merged.name).symlink_to(f"usr/{merged.name}")
    # Package scripts would link alternatives of a library; here the links are made by hand.
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
