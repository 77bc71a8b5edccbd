"""Modules that need no GIL, and what their threads share."""

from __future__ import annotations

import gc
import importlib
import sys
import sysconfig
import threading
from pathlib import Path

import numpy as np
import pytest

import pplconv

ROOT = Path(pplconv.__file__).parent
FREE = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def compiled() -> list[str]:
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    found = [path for path in ROOT.rglob("*") if path.name.endswith(suffixes)]
    return sorted(
        ".".join((*path.relative_to(ROOT.parent).parts[:-1], path.name.split(".")[0]))
        for path in found
    )


def test_every_compiled_module_says_that_it_needs_no_gil() -> None:
    """By the one directive of the build, which an interpreter without a GIL believes."""
    names = compiled()
    assert len(names) >= 13
    for name in names:
        importlib.import_module(name)
    enabled = getattr(sys, "_is_gil_enabled", None)
    if FREE and enabled is not None:
        assert not enabled()


def test_the_build_has_the_directive() -> None:
    setup = ROOT.parent / "setup.py"
    if not setup.exists():
        pytest.skip("the installed package has no setup.py beside it")
    assert '"freethreading_compatible": True' in setup.read_text(encoding="utf-8")


def at_once(count: int, function) -> None:
    """Call ``function(index)`` in threads that start together; raise what they raise."""
    barrier = threading.Barrier(count)
    errors: list[BaseException] = []

    def work(index: int) -> None:
        try:
            barrier.wait(timeout=60)
            function(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=240)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


@pytest.fixture
def _often():
    """Let threads take turns after a few instructions."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("_often")
def test_the_latest_plan_is_replaced_while_it_is_read() -> None:
    """Two shapes in turns, each call of another one than the call before."""
    conv = pplconv.Conv2d(np.ones((4, 4, 3, 3), np.float32), threads=1)
    # More shapes than are kept, so that plans go while others run.
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
    before = sum(isinstance(o, pplconv.Conv2d) for o in gc.get_objects())
    for _ in range(3):
        at_once(4, work)
    gc.collect()
    assert sum(isinstance(o, pplconv.Conv2d) for o in gc.get_objects()) == before
