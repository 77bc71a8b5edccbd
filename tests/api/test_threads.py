"""The same bits for any team, calls from many Python threads, no GIL while computing."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import pplconv
from tests.api.buffers import GuardedOutput
from tests.api.layers import every_layer
from tests.api.problems import CURVES, Problem, stated_error
from tests.patience import PATIENCE, eventually
from tests.reference import assert_convolution

TEAMS = (1, 2, 3, 5)
# Where Linux lists the threads of this process; elsewhere only plans can be asked.
THREADS = Path("/proc/self/task")

# batch, groups, ic, oc, image, kernel, stride, padding, dilation; each has work for two cores,
# however fast they are.
SHAPES = [
    (1, 1, 64, 64, (14, 14), (3, 3), 1, 1, 1),
    (1, 1, 3, 32, (65, 49), (7, 7), 2, 3, 1),
    (1, 1, 128, 96, (28, 28), (1, 1), 1, 0, 1),
    (3, 1, 33, 70, (17, 31), (1, 1), 1, 0, 1),
    (2, 1, 80, 48, (29, 33), (1, 1), 2, 0, 1),
    (1, 1, 300, 17, (9, 9), (3, 3), 1, 1, 1),
    (2, 4, 48, 52, (16, 16), (3, 3), 1, "same_upper", 1),
    (1, 64, 64, 64, (60, 61), (3, 3), 1, 1, 1),
    (3, 16, 16, 48, (41, 40), (5, 5), 2, 2, 1),
    (5, 1, 27, 25, (26, 26), (2, 3), (1, 2), ((1, 0), (2, 1)), (2, 1)),
    (1, 1, 512, 48, (7, 7), (3, 3), 1, 1, 1),
    (4, 1, 512, 512, (1, 1), (1, 1), 1, 0, 1),
    (1, 1, 64, 64, (1, 500), (1, 5), 1, (0, 2), 1),
]
# One output: no team, whatever is asked for.
ALONE = (1, 1, 1, 1, (1, 1), (1, 1), 1, 0, 1)


@pytest.mark.sampled(18)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "mb{}g{}ic{}oc{}".format(*s[:4]))
def test_same_bits_for_any_team(dtype, layout, shape):
    problem = Problem(
        dtype, layout, *shape, activation=("clip", -1, 2), with_bias=True, with_residual=True
    )
    planned = check_teams(problem, dtype)
    assert all(threads > 1 for threads in planned[1:]), "no team ran"


def test_one_output_for_any_team():
    assert check_teams(Problem("float32", "NCHW", *ALONE), "float32") == [1] * len(TEAMS)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("activation", CURVES, ids=str)
def test_activations_give_the_same_bits_for_any_team(activation, layout):
    """Other segments, other tiles: an element may lie in a vector here and in a tail there."""
    planned = check_teams(Problem("float32", layout, *SHAPES[0], activation=activation), "float32")
    assert all(threads > 1 for threads in planned[1:]), "no team ran"


def check_teams(problem: Problem, dtype: str) -> list[int]:
    """Hold all of `TEAMS` to the same bits; give how many threads computed for each."""
    arrays = problem.arrays()
    results, teams = [], []
    for threads in TEAMS:
        output = GuardedOutput(problem.output_shape, dtype)
        conv = pplconv.Conv2d(
            arrays["weight"], arrays["bias"], **problem.parameters, threads=threads
        )
        team = conv.plan_for(problem.input_shape).threads
        assert 1 <= team <= threads
        arguments = {**arrays, **problem.parameters, "threads": threads, "out": output.array}
        calls = {
            "conv2d": lambda given=arguments: pplconv.conv2d(**given),
            "Conv2d": lambda conv=conv: results.append(conv(arrays["input"], arrays["residual"])),
        }
        for name, call in calls.items():
            started = threads_started(call, team - 1)
            assert started in (None, team - 1), f"{name}: {team} planned, {started} started"
        output.assert_margins_intact()
        results.append(output.array)
        teams.append(team)
    stated = stated_error(arrays["weight"], problem.input_shape, **problem.parameters)
    assert_convolution(results[0], **arrays, **problem.parameters, stated=stated)
    for result in results[1:]:
        assert result.tobytes() == results[0].tobytes()
    return teams


@pytest.fixture(autouse=True)
def one_start_of_teams(monkeypatch):
    """Fix the start time of teams, which is measured: plans between two team sizes depend on it."""
    monkeypatch.setenv("PPLCONV_TEAM_START_US", "1")


def threads_here() -> set[int] | None:
    """Threads of this process, None where the system does not list them."""
    return {int(task.name) for task in THREADS.iterdir()} if THREADS.exists() else None


def threads_of_python() -> set[int | None]:
    """Threads that Python has started, or been called from."""
    return {thread.native_id for thread in threading.enumerate()}


def threads_started(call, most: int) -> int | None:
    """Make a call; give how many threads OpenMP started, None where none are listed.

    The call has its own thread: OpenMP keeps a team for each thread that calls, while it lives.
    Threads that Python knows are not OpenMP's: an earlier test's thread may start another one.
    Python does not know threads that are ending, so threads beyond `most` get a while to be gone.
    """
    started: list[int | None] = []

    def work():
        before = threads_here()
        call()
        if before is None:
            started.append(None)
            return
        new = threads_here() - before - threads_of_python()

        def still() -> bool:
            nonlocal new
            new &= threads_here() - threads_of_python()
            return len(new) <= most

        eventually(still, f"no more than {most} threads")
        started.append(len(new))

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result(timeout=PATIENCE)
    return started[0]


def run_at_once(function, count):
    """Call ``function(index)`` from ``count`` threads that start together; give the results."""
    barrier = threading.Barrier(count)

    def start(index):
        barrier.wait(timeout=PATIENCE)
        return function(index)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start, range(count)))


@every_layer
@pytest.mark.parametrize("threads", [1, 2])
def test_one_layer_from_eight_threads(kind, threads, rng):
    """Shapes differ between calls, so plans are made, found and dropped while others run."""
    layer = kind.made(rng, threads=threads)
    other = pickle.loads(pickle.dumps(layer))
    calls = [(x, other(x)) for x in (kind.input(rng, size) for size in range(5, 25))]
    if kind.kind is pplconv.QConv2d:  # has no scale for a residual
        calls = [(x, None) for x, _ in calls]
    alone = [other(*call).tobytes() for call in calls]

    def work(index):
        order = np.random.default_rng(index).permutation(len(calls))
        return all(layer(*calls[i]).tobytes() == alone[i] for _ in range(5) for i in order)

    assert run_at_once(work, 8) == [True] * 8


def test_conv2d_from_many_threads(rng):
    """Each thread has its own weights and layout; nothing of one call reaches another."""

    def work(index):
        numbers = np.random.default_rng(index)
        dtype = ("float32", "float64")[index % 2]
        layout = ("NCHW", "NHWC")[index // 2 % 2]
        for turn in range(12):
            problem = Problem(
                dtype,
                layout,
                batch=1 + turn % 2,
                groups=1 + turn % 3,
                in_channels=6,
                out_channels=12,
                image=(8 + turn, 9 + index),
                kernel=(3, 3) if turn % 4 else (1, 1),
                padding=turn % 2,
                with_bias=True,
                seed=int(numbers.integers(2**32)),
            )
            arrays = problem.arrays()
            y = pplconv.conv2d(**arrays, **problem.parameters, threads=1 + index % 3)
            stated = stated_error(arrays["weight"], problem.input_shape, **problem.parameters)
            assert_convolution(y, **arrays, **problem.parameters, stated=stated)
        return True

    assert run_at_once(work, 10) == [True] * 10


@pytest.mark.sampled(2)
@pytest.mark.parametrize("algorithm", ["im2col", "pointwise", "direct", "winograd"])
def test_gil_is_released_while_computing(algorithm, rng):
    """Another Python thread goes on while one call computes: it sees output that is half written.

    If a call held the GIL, others would see all of it or nothing.
    """
    k = 1 if algorithm == "pointwise" else 3
    weight = rng.standard_normal((64, 64, k, k)).astype(np.float32)
    conv = pplconv.Conv2d(weight, algorithm=algorithm, threads=1)
    x = np.ones((64, 64, 56, 56), np.float32)
    out = np.empty((64, 64, 57 - k, 57 - k), np.float32)
    conv.plan_for(x.shape)

    def half_seen() -> bool:
        """Whether another thread, which looks again and again, saw the call at work."""
        out.fill(np.nan)
        stop, seen = threading.Event(), []

        def look():
            while not seen and not stop.wait(0.0005):
                missing = np.isnan(out[:, -1, -1, -1])
                if missing.any() and not missing.all():
                    seen.append(missing.sum())

        looker = threading.Thread(target=look)
        looker.start()
        try:
            conv(x, out=out)
        finally:
            stop.set()
            looker.join()
        return bool(seen)

    # A busy machine may not let it run at the time: once more then.
    assert any(half_seen() for _ in range(50))
