"""Times a new user's path from a wheel to a first picture, in an empty environment.

``python -m tools.stranger [WHEEL]`` makes an empty environment, installs the wheel and Pillow in
it, filters a picture there and writes it as PNG. The limit is two minutes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.wheels.native import call, environment, make_environment
from tools.wheels.pythons import ask

ROOT = Path(__file__).resolve().parents[1]
MOST_SECONDS = 120.0

# Rings in place of a photograph, and their edges.
PICTURE = """
import numpy as np
from PIL import Image
from pplconv import imaging

y, x = np.mgrid[-256:256, -256:256] / 40
image = (127.5 + 127.5 * np.sin(x * x + y * y)).astype(np.uint8)
edges = imaging.filter2d(image, np.array([[-1, -1, -1], [-1, 8, -1], [-1, -1, -1]]))
Image.fromarray(edges).save("edges.png")
"""

LOOK = """
import numpy as np
from PIL import Image
picture = np.asarray(Image.open("edges.png"))
assert picture.shape == (512, 512) and picture.dtype == np.uint8
assert 0 < picture.mean() < 255 and picture.min() == 0 and picture.max() == 255
"""


def walk(wheel: Path, folder: Path) -> dict[str, float]:
    """Follow the path; give the seconds of each part.

    Parameters
    ----------
    wheel : Path
        A wheel for the running Python.
    folder : Path
        An empty folder.
    """
    python = ask(Path(sys.executable))
    if python is None:
        raise RuntimeError("this Python is no CPython with headers")
    env = environment(0)
    seconds = {}
    begin = time.monotonic()

    def ended(what: str) -> None:
        nonlocal begin
        begin, before = time.monotonic(), begin
        seconds[what] = begin - before

    own = make_environment(python, folder / "env", env)
    ended("environment")
    pip = ("-m", "pip", "--disable-pip-version-check", "--quiet", "install")
    call(own, "-I", *pip, "--only-binary", ":all:", wheel, "pillow", env=env, cwd=folder)
    ended("pip install")
    (folder / "first.py").write_text(PICTURE)
    call(own, "first.py", env=env, cwd=folder)
    ended("picture")
    call(own, "-I", "-c", LOOK, env=env, cwd=folder)
    return seconds


def main() -> int:
    """Time the path of a wheel; give the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.stranger", description=__doc__)
    parser.add_argument("wheel", nargs="?", type=Path, help="default: this Python's in dist/")
    chosen = parser.parse_args()
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    wheels = [chosen.wheel] if chosen.wheel else sorted((ROOT / "dist").glob(f"*-{tag}-{tag}-*"))
    if not wheels:
        parser.error(f"dist/ has no wheel of {tag}: `make wheels` makes one")
    with tempfile.TemporaryDirectory() as name:
        try:
            seconds = walk(wheels[0].resolve(), Path(name))
        except (RuntimeError, subprocess.CalledProcessError) as error:
            print(f"stranger: {error}", file=sys.stderr)
            return 1
    total = sum(seconds.values())
    for what, spent in seconds.items():
        print(f"stranger: {what:<12} {spent:6.1f} s")
    print(f"stranger: {'in all':<12} {total:6.1f} s, of {MOST_SECONDS:.0f} s")
    return 0 if total <= MOST_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
