"""Memory that cannot be had: MemoryError, nothing leaked, and the next call works.

Native memory of a call (scratch and packed weights) comes from one function of
``pplconv.memory.workspace``, where each allocation of a call fails in turn. NumPy's and Python's
own allocations have no such place, so they fail in processes of their own, Python's one by one,
NumPy's because the process may have no more.
"""

from __future__ import annotations

import gc
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

import pplconv
from pplconv import wisdom
from pplconv.memory import workspace
from tests import children
from tests.patience import PATIENCE

F32 = np.float32
# A name for each algorithm, with a problem that it serves: weight, groups, more arguments.
ALGORITHMS = {
    "depthwise": ((24, 1, 3, 3), 24, {"padding": 1}),
    "pointwise": ((40, 24, 1, 1), 1, {}),
    "winograd": ((40, 24, 3, 3), 1, {"padding": 1, "tolerance": 1e-3}),
    "direct": ((40, 24, 3, 3), 1, {"padding": 1}),
    "im2col": ((40, 24, 3, 3), 1, {"stride": 2}),
}
# Each search has its own workspace, so that none of them finds a result of another.
fresh_workspace = itertools.count(1 << 30)


def arrays(shape: tuple[int, ...], *weight: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal(shape).astype(F32), rng.standard_normal(weight).astype(F32)


@pytest.fixture(autouse=True)
def no_failure_is_left() -> Iterator[None]:
    yield
    workspace.fail_allocation(0)


def held() -> int:
    """Bytes of native memory that somebody holds."""
    gc.collect()
    workspace.empty_pool()
    return workspace.allocated_bytes()


def fail_each(act: Callable[[], np.ndarray], most: int = 100) -> int:
    """Let each allocation of `act` fail in turn, and say how many there are.

    After each failure as much memory is held as before, and `act` gives the same bytes.
    """
    expected = act().tobytes()
    before = held()
    for failed in range(most):
        workspace.fail_allocation(failed + 1)
        try:
            result = act()
        except MemoryError as error:
            assert "cannot allocate" in str(error)
        else:
            workspace.fail_allocation(0)
            assert result.tobytes() == expected
            return failed
        assert held() == before, f"allocation {failed + 1} leaks"
        assert act().tobytes() == expected, f"the call after allocation {failed + 1} failed"
        assert held() == before
    raise AssertionError(f"{most} allocations are more than a call can have")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_conv2d(algorithm, threads):
    shape, groups, given = ALGORITHMS[algorithm]
    arguments = dict(given)
    x, weight = arrays((2, 24, 30, 29), *shape)
    out = np.empty_like(pplconv.conv2d(x, weight, groups=groups, **arguments))
    arguments["algorithm"], arguments["threads"] = algorithm, threads

    def act() -> np.ndarray:
        out.fill(7)
        try:
            return pplconv.conv2d(x, weight, groups=groups, out=out, **arguments)
        except MemoryError:
            assert np.all(out == 7), "a part of the result was written"
            raise

    assert fail_each(act) == 2, "packed weights and scratch; the plan is kept"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_object_is_made_and_called(algorithm):
    shape, groups, arguments = ALGORITHMS[algorithm]
    x, weight = arrays((1, 24, 17, 18), *shape)

    def act() -> np.ndarray:
        conv = pplconv.Conv2d(weight, groups=groups, algorithm=algorithm, **arguments)
        return conv(x)

    # Packed weights and scratch; a plan of the direct algorithm has a table, too.
    assert fail_each(act) == (3 if algorithm == "direct" else 2)


def test_an_object_outlives_a_failure():
    """Its earlier plans still work, and the failed shape is planned as if never asked for."""
    x, weight = arrays((1, 24, 30, 29), 40, 24, 3, 3)
    other = arrays((1, 24, 5, 4), 1)[0]
    for algorithm in ("auto", "direct"):
        conv = pplconv.Conv2d(weight, padding=1, algorithm=algorithm)
        first, second = conv(x), pplconv.Conv2d(weight, padding=1, algorithm=algorithm)(other)
        failures = 0
        while True:
            workspace.fail_allocation(failures + 1)
            try:
                result = conv(other)
            except MemoryError:
                failures += 1
                assert conv(x).tobytes() == first.tobytes()
            else:
                break
        workspace.fail_allocation(0)
        assert failures >= 1
        assert result.tobytes() == second.tobytes()
        assert conv(x).tobytes() == first.tobytes()


def test_a_search():
    """It leaves nothing in wisdom, and the search after it finds something."""
    x, weight = arrays((1, 24, 14, 14), 40, 24, 3, 3)
    before = held()
    arguments = {
        "padding": 1, "input_shape": x.shape, "search": "exhaustive", "search_seconds": 0.05,
        "max_workspace": next(fresh_workspace),
    }  # fmt: skip
    known = wisdom.export()["entries"]
    # Two candidates are timed at least, with weights and scratch each; then those of the object.
    for failed in range(1, 5):
        workspace.fail_allocation(failed)
        with pytest.raises(MemoryError, match="cannot allocate"):
            pplconv.Conv2d(weight, **arguments)
        assert held() == before
        assert wisdom.export()["entries"] == known
    conv = pplconv.Conv2d(weight, **arguments)
    assert conv.plan_for(x.shape).search == "exhaustive"
    assert len(wisdom.export()["entries"]) == len(known) + 1


@pytest.mark.unsanitized("a sanitizer keeps for a while what was freed")
def test_memory_stays_the_same_over_many_failures():
    """A megabyte that leaked each time would be seen."""
    x, weight = arrays((1, 64, 40, 40), 256, 64, 3, 3)
    process = psutil.Process()
    conv = pplconv.Conv2d(weight, padding=1)
    conv(x)

    def fail_often(times: int) -> int:
        failures = 0
        for i in range(times):
            workspace.fail_allocation(1 + i % 2)
            try:
                if i % 3:
                    pplconv.conv2d(x, weight, padding=1)
                else:
                    conv(x)
            except MemoryError:
                failures += 1
        workspace.fail_allocation(0)
        return failures

    fail_often(30)
    held_before, before = held(), process.memory_info().rss
    assert fail_often(120) > 60
    assert held() == held_before
    # Of the half a megabyte of weights alone there would be forty by now.
    assert process.memory_info().rss - before < 16 << 20


def run_probe(name: str, *arguments: str) -> dict:
    """Run a script beside this one in a process of its own."""
    environment = children.environment(PPLCONV_WISDOM="off", OPENBLAS_NUM_THREADS="1")
    script = str(Path(__file__).with_name(name))
    found = children.python(script, *arguments, timeout=2 * PATIENCE, env=environment)
    assert found.returncode == 0, found.stderr
    assert "Exception ignored" not in found.stderr, found.stderr
    return json.loads(found.stdout)


@pytest.mark.unemulated("limits of memory are not passed on to the system")
def test_arrays_of_numpy():
    """NumPy asks malloc, where nothing can be injected; but a process may be out of memory."""
    pytest.importorskip("resource", reason="this system limits no process's memory")
    found = run_probe("exhausted_probe.py")
    assert found == dict.fromkeys(
        ("Conv2d", "conv2d", "a copy of the input", "to_blocked", "empty_aligned"), "MemoryError"
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("act", ["call", "function", "new shape", "to_blocked"])
def test_objects_of_python(act):
    """Each allocation of Python's own fails in turn."""
    pytest.importorskip("_testcapi", reason="this Python is built without its test modules")
    found = run_probe("nomemory_probe.py", act)
    assert found["other"] == {}, "anything but MemoryError"
    assert found["wrong"] == [], "the next call gave other bytes"
    assert found["leaked"] == [], "native memory leaked"
    assert found["failed"] >= 3
