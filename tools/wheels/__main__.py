"""``python -m tools.wheels``; ``make wheels`` calls it."""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tools.arm.host import SetUpError
from tools.arm.targets import ROOT
from tools.release import released, version_of
from tools.wheels import foreign, native
from tools.wheels.pythons import WANTED, Python, find
from tools.wheels.sdist import make_sdist

MOST_BYTES = 5_000_000
# What makes a wheel, and what tries it.
Steps = tuple[Callable[[], Path], Callable[[Path], str]]


def main() -> int:
    """Make what the arguments say; give the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.wheels", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder (default dist)")
    parser.add_argument("--python", action="append", metavar="X.Y[t]", help="only these")
    parser.add_argument("--twice", action="store_true", help="each again, elsewhere")
    parser.add_argument("--built", type=Path, help="only repair and try this wheel of this Python")
    chosen = parser.parse_args()
    out = chosen.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for old in [*out.glob("pplconv-*"), *out.glob("SHA256SUMS")]:
        old.unlink()
    version = version_of(ROOT)
    _, epoch = released(ROOT)
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
    if chosen.built:
        wheel = chosen.built.resolve()
        python = Python(f"{sys.version_info[0]}.{sys.version_info[1]}", Path(sys.executable))
        trial = partial(native.try_wheel, python, version=version)
        good = attempt(wheel.name, partial(native.repair, wheel, out, epoch), trial)
    else:
        good = make_all(chosen.python, out, epoch, version, chosen.twice)
    sums = "".join(f"{digest(path)}  {path.name}\n" for path in sorted(out.glob("pplconv-*")))
    (out / "SHA256SUMS").write_text(sums)
    sys.stdout.write(sums)
    return 0 if good else 1


def make_all(asked: list[str] | None, out: Path, epoch: int, version: str, twice: bool) -> bool:
    """Make the sdist and the wheels; False if one fails, or is asked for and cannot be had."""
    sdist = make_sdist(ROOT, out, epoch)
    say(f"{sdist.name}: {sdist.stat().st_size:,} bytes")
    good = True
    for what, steps in plan(asked, sdist, out, epoch, version, twice):
        if steps is None:
            say(f"{what}: NOT BUILT HERE")
            good = good and not asked
        else:
            good = attempt(what, *steps) and good
    return good


def plan(
    asked: list[str] | None, sdist: Path, out: Path, epoch: int, version: str, twice: bool
) -> Iterator[tuple[str, Steps | None]]:
    """Name each wheel that there should be, with what makes it where that can be had."""
    wanted = tuple(asked or WANTED)
    found = find(wanted)
    for name in wanted:
        what = f"{platform.machine()}, CPython {name}"
        if name not in found:
            yield f"{what} (no such Python with headers on this machine)", None
            continue
        make = partial(build_native, found[name], sdist, out, epoch, twice)
        yield what, (make, partial(native.try_wheel, found[name], version=version))
    if not asked:
        try:
            foreign.prepare()
        except SetUpError as error:
            yield f"aarch64 ({error})", None
        else:
            trial = partial(foreign.try_wheel, version=version)
            yield "aarch64", (partial(foreign.make_wheel, out), trial)
            yield "aarch64, other CPythons (Debian has one)", None


def build_native(python: Python, sdist: Path, out: Path, epoch: int, twice: bool) -> Path:
    """Build a wheel, and again elsewhere if asked: the bytes have to be the same."""
    wheel = native.make_wheel(python, sdist, out, epoch)
    if twice:
        with tempfile.TemporaryDirectory(prefix="another-place-") as name:
            again = native.make_wheel(python, sdist, Path(name), epoch)
            if (again.name, digest(again)) != (wheel.name, digest(wheel)):
                raise RuntimeError(f"{wheel.name}: other bytes when it is built again")
        say(f"{wheel.name}: the same bytes when it is built again")
    return wheel


def attempt(what: str, make: Callable[[], Path], trial: Callable[[Path], str]) -> bool:
    """Make a wheel, look at it and try it; say how that went and whether it went well."""
    begin = time.monotonic()
    try:
        wheel = make()
        size = wheel.stat().st_size
        libraries = native.bundled(wheel)
        if "manylinux" not in wheel.name:
            raise RuntimeError(f"{wheel.name} has no manylinux tag")
        if size > MOST_BYTES:
            raise RuntimeError(f"{wheel.name} has {size:,} bytes, more than {MOST_BYTES:,}")
        built = time.monotonic()
        said = trial(wheel)
    except (RuntimeError, SetUpError) as error:
        say(f"{what}: FAILED\n{error}")
        return False
    say(f"{wheel.name}: {size:,} bytes, with {' '.join(libraries)}, in {built - begin:.0f} s")
    say(f"{what}, alone with what it requires: {said}, in {time.monotonic() - built:.0f} s")
    return True


def digest(path: Path) -> str:
    """Hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def say(text: str) -> None:
    """Write a line about what is being done."""
    print(f"wheels: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
