"""Modules that need no GIL, what their threads share, and teams in sub-interpreters."""

from __future__ import annotations

import ast
import gc
import importlib
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import pplconv
from tests.programs import finding, output
from tests.threads import at_once

ROOT = Path(pplconv.__file__).parent
# The sources of the package: the tests run from there, wherever the package is installed.
SOURCES = Path(__file__).resolve().parents[2]
FREE = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def compiled() -> list[str]:
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    found = [path for path in ROOT.rglob("*") if path.name.endswith(suffixes)]
    return sorted(
        ".".join((*path.relative_to(ROOT.parent).parts[:-1], path.name.split(".")[0]))
        for path in found
    )


def directives(source: str) -> list[object]:
    """Return every value that Python code gives to ``freethreading_compatible``."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Dict):
            pairs = list(zip(node.keys, node.values, strict=True))
        elif isinstance(node, ast.Call):
            pairs = [(ast.Constant(word.arg), word.value) for word in node.keywords]
        else:
            continue
        for key, value in pairs:
            if isinstance(key, ast.Constant) and key.value == "freethreading_compatible":
                found.append(value.value if isinstance(value, ast.Constant) else None)
    return found


def test_the_build_has_every_module_say_that_it_needs_no_gil() -> None:
    """setup.py sets the directive once, and no module overrides it.

    With a GIL a module holds no trace of it: the slot is compiled for free-threaded Pythons alone.
    """
    assert directives((SOURCES / "setup.py").read_text(encoding="utf-8")) == [True]
    sources = {path.relative_to(SOURCES): path for path in (SOURCES / "pplconv").rglob("*.pyx")}
    assert {".".join(name.with_suffix("").parts) for name in sources} == set(compiled())
    overriding = [str(n) for n, path in sources.items() if b"freethreading" in path.read_bytes()]
    assert overriding == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("cythonize(m, compiler_directives={'freethreading_compatible': False})", [False]),
        ("dict(freethreading_compatible=True)", [True]),
        ("cythonize(m)  # freethreading_compatible", []),
    ],
)
def test_a_build_that_says_otherwise_is_noticed(source: str, found: list[object]) -> None:
    assert directives(source) == found


# Alone in its process: any other extension may have brought the GIL back.
_IMPORT_ALL = """
import importlib
import numpy, psutil
enabled = sys._is_gil_enabled()
for name in {names!r}:
    importlib.import_module(name)
    assert sys._is_gil_enabled() == enabled, name
print(enabled)
"""


@pytest.mark.skipif(not FREE, reason="with a GIL, importing a module says nothing of its need")
def test_no_module_brings_the_gil_back() -> None:
    assert output("-c", finding(_IMPORT_ALL.format(names=compiled()))) == "False\n"


def test_every_compiled_module_can_be_imported() -> None:
    names = compiled()
    assert len(names) >= 13
    for name in names:
        importlib.import_module(name)


@pytest.fixture
def _often():
    """Let threads take turns after a few instructions."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("_often")
def test_the_latest_plan_is_replaced_while_it_is_read() -> None:
    """Threads call one convolution with shapes in random order."""
    conv = pplconv.Conv2d(np.ones((4, 4, 3, 3), np.float32), threads=1)
    # More shapes than are kept, so that plans are dropped while others run.
    images = [np.ones((1, 4, 5, 5 + i), np.float32) for i in range(24)]

    def work(index: int) -> None:
        order = np.random.default_rng(index).integers(0, len(images), 400)
        for i in order:
            y = conv(images[i])
            assert y.shape == (1, 4, 3, 3 + i)
            assert (y == 36).all()

    at_once(8, work)


@pytest.mark.usefixtures("_often")
def test_scratch_is_one_calls_at_a_time() -> None:
    """Scratch of many sizes, more calls at once than the pool has buffers."""
    rng = np.random.default_rng(3)
    cases = []
    for side in (9, 14, 21, 30):
        x = rng.standard_normal((1, 16, side, side)).astype(np.float32)
        w = rng.standard_normal((24, 16, 3, 3)).astype(np.float32)
        for algorithm in ("im2col", "winograd"):
            y = pplconv.conv2d(x, w, algorithm=algorithm, threads=1)
            cases.append((x, w, algorithm, y))

    def work(index: int) -> None:
        for turn in range(40):
            x, w, algorithm, y = cases[(index + turn) % len(cases)]
            assert np.array_equal(pplconv.conv2d(x, w, algorithm=algorithm, threads=1), y)

    at_once(12, work)


@pytest.mark.usefixtures("_often")
def test_plans_of_conv2d_are_dropped_while_they_are_found() -> None:
    """More settings than `conv2d` keeps plans for."""
    w = np.ones((1, 1, 1, 1), np.float32)

    def work(index: int) -> None:
        for turn in range(120):
            side = 1 + (37 * index + turn) % 320
            y = pplconv.conv2d(np.ones((1, 1, 1, side), np.float32), w, threads=1)
            assert y.shape == (1, 1, 1, side)

    at_once(8, work)


def test_nothing_is_kept_of_threads_that_ended() -> None:
    """Convolutions made, used and dropped by threads leave as many objects as one does."""

    def work(_index: int) -> None:
        conv = pplconv.Conv2d(np.ones((8, 4, 3, 3), np.float32), padding=1)
        conv(np.ones((1, 4, 9, 9), np.float32))

    at_once(4, work)
    gc.collect()
    before = sum(type(o) is pplconv.Conv2d for o in gc.get_objects())
    for _ in range(3):
        at_once(4, work)
    gc.collect()
    assert sum(type(o) is pplconv.Conv2d for o in gc.get_objects()) == before


# NumPy can be loaded once in a process, so the main interpreter has none of it.
INNER = """
import warnings
warnings.simplefilter("ignore")
import numpy as np, pplconv
random = np.random.default_rng()
x = random.integers(-3, 4, (1, 16, 40, 40)).astype(np.float32)
w = random.integers(-3, 4, (32, 16, 1, 1)).astype(np.float32)
for _ in range(3):
    y = pplconv.conv2d(x, w, threads=2)
    assert (y == np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0])).all()
print("right", flush=True)
"""
OUTER = """
try:
    import _interpreters as interpreters
    made = interpreters.create("legacy")
except ImportError:
    import _xxsubinterpreters as interpreters
    made = interpreters.create(isolated={isolated})
error = interpreters.run_string(made, {inner!r})
assert error is None, error
"""


# Those of CPython 3.12 and later have a GIL of their own if they are isolated: NumPy refuses it.
@pytest.mark.parametrize("isolated", [False, True] if sys.version_info < (3, 12) else [False])
def test_a_team_computes_in_a_sub_interpreter(isolated):
    assert output("-c", OUTER.format(isolated=isolated, inner=finding(INNER))) == "right\n"
