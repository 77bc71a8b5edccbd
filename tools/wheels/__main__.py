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
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from tools.arm.host import SetUpError
from tools.arm.targets import ROOT
from tools.release import released, version_of
from tools.wheels import foreign, native
from tools.wheels.pythons import WANTED, Python, find
from tools.wheels.sdist import make_sdist

MOST_BYTES = 5_000_000
SMOKE = Path(__file__).with_name("smoke.py")
# An environment with the wheel alone, and the callable that runs its Python.
Place = Callable[[Path], AbstractContextManager[Callable[..., str]]]
# The builder of a wheel in a folder, the builder of a second copy, and its test environment.
Steps = tuple[Callable[[Path], Path], Callable[[Path], Path], Place]
HOST = platform.machine()
MACHINES = [*dict.fromkeys((HOST, *(target.machine for target in foreign.TARGETS)))]


def main() -> int:
    """Run the command line; give the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.wheels", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder (default dist)")
    parser.add_argument("--python", action="append", metavar="X.Y[t]", help="only these")
    parser.add_argument("--machine", action="append", choices=MACHINES, help="only for these")
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
    for name in native.LEFT_OUT:
        os.environ.pop(name, None)
    if chosen.built:
        wheel = chosen.built.resolve()
        python = Python(f"{sys.version_info[0]}.{sys.version_info[1]}", Path(sys.executable))
        place = partial(native.installed, python)
        good = attempt(wheel.name, version, partial(native.repair, wheel, out, epoch), place)
    else:
        good = make_all(chosen, out, epoch, version)
    sums = "".join(f"{digest(path)}  {path.name}\n" for path in sorted(out.glob("pplconv-*")))
    (out / "SHA256SUMS").write_text(sums)
    sys.stdout.write(sums)
    return 0 if good else 1


def make_all(chosen: argparse.Namespace, out: Path, epoch: int, version: str) -> bool:
    """Make the sdist and the wheels; False if one fails, or a requested one is unavailable."""
    sdist = make_sdist(ROOT, out, epoch)
    say(f"{sdist.name}: {sdist.stat().st_size:,} bytes")
    good = True
    for what, steps in plan(chosen.python, chosen.machine, sdist, epoch):
        if steps is None:
            say(f"{what}: NOT BUILT HERE")
            good = good and not chosen.python
        else:
            *builds, place = steps
            make = partial(build, builds if chosen.twice else builds[:1], out)
            good = attempt(what, version, make, place) and good
    return good


def plan(
    asked: list[str] | None, machines: list[str] | None, sdist: Path, epoch: int
) -> Iterator[tuple[str, Steps | None]]:
    """Name each required wheel, with its builder where that is available."""
    versions = tuple(asked or WANTED)
    missing = [(machine, version) for machine in machines or MACHINES for version in versions]
    for version, python in find(versions).items():
        if (HOST, version) in missing:
            missing.remove((HOST, version))
            make = partial(native.make_wheel, python, sdist, epoch)
            yield f"{HOST}, CPython {version}", (make, make, partial(native.installed, python))
    for target in foreign.TARGETS:
        if target.machine not in {machine for machine, _ in missing}:
            continue
        try:
            version = foreign.prepare(target)
        except SetUpError as error:
            say(f"{target.machine}, Python of Debian {target.release or 'here'}: {error}")
            continue
        if (target.machine, version) in missing:
            missing.remove((target.machine, version))
            make, again = (partial(foreign.make_wheel, t) for t in (target, target.elsewhere))
            place = partial(foreign.installed, target)
            yield f"{target.machine}, CPython {version}, emulated", (make, again, place)
    for machine, version in missing:
        yield f"{machine}, CPython {version} (none with headers is to be had here)", None


def build(makes: list[Callable[[Path], Path]], out: Path) -> Path:
    """Build a wheel, and a second copy elsewhere if possible: the bytes must be equal."""
    wheel = makes[0](out)
    for make in makes[1:]:
        with tempfile.TemporaryDirectory(prefix="another-place-") as name:
            again = make(Path(name))
            if (again.name, digest(again)) != (wheel.name, digest(wheel)):
                raise RuntimeError(f"{wheel.name}: other bytes when it is built again")
        say(f"{wheel.name}: the same bytes when it is built again")
    return wheel


def attempt(what: str, version: str, make: Callable[[], Path], place: Place) -> bool:
    """Build, inspect and test a wheel; give the report and whether it passed."""
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
        with place(wheel) as run:
            run("-m", "pplconv", "info")
            said = run(SMOKE, version).splitlines()[-1]
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
    """Write a line of progress."""
    print(f"wheels: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
