"""Ctrl-C while the loops run, while weights are packed and during a search; failing callbacks."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import pplconv
from pplconv.planner import Request, plan_problem
from pplconv.problem import ConvProblem
from pplconv.schedules.team import threads_in_use
from processes import finish, run, start

pytestmark = pytest.mark.unemulated(
    "times signals in emulated processes, where seconds pass before a loop begins"
)

needs_proc = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="counts threads in /proc"
)

# A process that was started with SIGINT ignored has no KeyboardInterrupt.
HANDLED = "signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def interrupt(process: subprocess.Popen[str], after: str, wait: float) -> None:
    """Press Ctrl-C, `wait` seconds after a process has said that it begins."""
    assert process.stdout is not None
    assert process.stdout.readline() == after + "\n"
    time.sleep(wait)
    process.send_signal(signal.SIGINT)


def lateness(threads: int) -> float:
    """Seconds from a call's end, which its last element tells, until the exception is there."""
    process = start(
        HANDLED + f"conv = pplconv.Conv2d(w, threads={threads})\n"
        "conv(x)\n"
        "batch = 64\n"
        "while True:\n"
        "  images = np.ones((batch, 16, 28, 28), np.float32)\n"
        "  out = np.empty((batch, 32, 26, 26), np.float32)\n"
        "  conv.plan_for(images.shape)\n"
        "  begin = time.monotonic(); conv(images, out=out)\n"
        "  if time.monotonic() - begin > 0.5: break\n"
        "  batch *= 2\n"
        "expected = out[-1].copy()\n"
        "before = os_threads()\n"
        "ended = []\n"
        "def watch():\n"
        "  while np.isnan(out[::8, -1, -1, -1]).any(): time.sleep(0.001)\n"
        "  ended.append(time.monotonic())\n"
        "out.fill(np.nan)\n"
        "watcher = threading.Thread(target=watch, daemon=True)\n"
        "watcher.start()\n"
        "print('begins', flush=True)\n"
        "try:\n"
        "  conv(images, out=out)\n"
        "  time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "  caught = time.monotonic()\n"
        "  watcher.join(60)\n"
        "  print(np.array_equal(out[-1], expected), threads_left(before),\n"
        "        team.threads_in_use(), caught - ended[0])\n"
        "  print(np.array_equal(conv(images)[-1], expected))"
    )
    interrupt(process, "begins", 0.1)
    first, again = finish(process)
    right, threads_left, in_use, late = first.split()
    assert (right, threads_left, in_use, again) == ("True", "0", "0", "True")
    return float(late)


@pytest.mark.sampled(1)
@needs_proc
@pytest.mark.parametrize("threads", [1, 2])
def test_interrupted_call(threads: int) -> None:
    """The exception comes at once; where other work holds a thread up, it does not always."""
    assert any(lateness(threads) < 0.2 for _ in range(4))


@needs_proc
@pytest.mark.parametrize("threads", [1, 2])
def test_interrupted_packing(threads: int) -> None:
    """Packing is part of a constructor that says its input's shape, and of `conv2d`."""
    process = start(
        HANDLED + "weight = np.ones((2048, 2048, 3, 3), np.float32)\n"
        "image = np.ones((1, 2048, 4, 4), np.float32)\n"
        f"pplconv.conv2d(x, w, threads={threads})\n"
        "before = os_threads()\n"
        "print('begins', flush=True)\n"
        "made = 0\n"
        "try:\n"
        "  while True:\n"
        f"    pplconv.Conv2d(weight, input_shape=image.shape, threads={threads})\n"
        "    made += 1\n"
        "except KeyboardInterrupt: pass\n"
        "print(os_threads() - before, team.threads_in_use())\n"
        f"conv = pplconv.Conv2d(weight, input_shape=image.shape, threads={threads})\n"
        "print(conv(image)[0, 0, 0, 0] == 2048 * 9)"
    )
    interrupt(process, "begins", 0.3)
    assert finish(process) == ["0 0", "True"]


@needs_proc
def test_interrupted_search(tmp_path) -> None:
    wisdom = tmp_path / "wisdom.json"
    process = start(
        HANDLED + "conv = pplconv.Conv2d(w, threads=2, search='measure', search_seconds=60)\n"
        "pplconv.conv2d(x, w, threads=2)\n"
        "before = os_threads()\n"
        "print('begins', flush=True)\n"
        # A search of seconds.
        "try: conv(np.ones((128, 16, 60, 60), np.float32))\n"
        "except KeyboardInterrupt: caught = time.monotonic()\n"
        "print(os_threads() - before, team.threads_in_use(),\n"
        "      len(pplconv.wisdom.export()['entries']))\n"
        "print(pplconv.Conv2d(w)(x).shape)\n"
        # The convolution's lock is open.
        "thread = threading.Thread(target=conv.plan_for, args=((0, 16, 8, 8),))\n"
        "thread.start(); thread.join(60); print(thread.is_alive())",
        PPLCONV_WISDOM=str(wisdom),
    )
    interrupt(process, "begins", 0.5)
    begin = time.monotonic()
    assert finish(process) == ["0 0 0", "(2, 32, 26, 26)", "False"]
    assert time.monotonic() - begin < 10  # the search would have taken twice as long
    assert not wisdom.exists()


def test_a_handler_that_convolves() -> None:
    """A signal handler may run between any two steps of a call, and make a call of its own."""
    assert run(
        "conv = pplconv.Conv2d(w, threads=2, padding=1)\n"
        "count = 0\n"
        "def handler(*_):\n"
        "  global count\n"
        "  count += 1\n"
        "  side = 5 + count % 40\n"
        "  conv(np.ones((1, 16, side, side), np.float32))\n"
        "  pplconv.conv2d(x, w, threads=2)\n"
        "  signal.setitimer(signal.ITIMER_REAL, 0.005)\n"
        # Whatever is imported at the first call is there: an import cannot be entered twice.
        "signal.signal(signal.SIGALRM, signal.SIG_IGN)\n"
        "handler()\n"
        "signal.signal(signal.SIGALRM, handler)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.005)\n"
        "end = time.monotonic() + 2\n"
        "while time.monotonic() < end or count < 20:\n"
        "  for side in range(5, 40): conv(np.ones((1, 16, side, 7), np.float32))\n"
        "signal.signal(signal.SIGALRM, signal.SIG_IGN)\n"
        "print(count >= 20, team.threads_in_use())"
    ) == ["True 0"]


class Boom(Exception):
    """Raised by callbacks."""


PROBLEM = ConvProblem.parse("mb1ic32ih20oc32kh3ph1")


@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_failing_progress_callback_wedges_nothing(at: int) -> None:
    calls = 0

    def progress(_share: float, _text: str) -> None:
        nonlocal calls
        calls += 1
        if calls > at:
            raise Boom

    before = threads_in_use()
    request = Request(PROBLEM, threads=2)
    with pytest.raises(Boom):
        plan_problem(request, search="measure", search_seconds=0.2, again=True, progress=progress)
    assert threads_in_use() == before
    planned = plan_problem(request, search="measure", search_seconds=0.05, again=True)
    assert planned.plan.search == "measure"


def test_a_callback_that_convolves() -> None:
    """A search may show its progress by any means."""
    conv = pplconv.Conv2d(np.ones((8, 4, 3, 3), np.float32), threads=2)
    sums: list[float] = []

    def progress(_share: float, _text: str) -> None:
        sums.append(float(conv(np.ones((1, 4, 9, 9), np.float32)).sum()))

    plan_problem(
        Request(PROBLEM, threads=2),
        search="measure",
        search_seconds=0.05,
        again=True,
        progress=progress,
    )
    assert set(sums) == {8 * 49 * 36.0}


class Hostile:
    """An operand whose conversion fails, and one that convolves."""

    def __init__(self, conv: pplconv.Conv2d | None) -> None:
        self.conv = conv

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        if self.conv is None:
            raise Boom
        return np.asarray(self.conv(np.ones((1, 4, 11, 11), np.float32)))[:, :4]


def test_operands_that_fail_or_convolve() -> None:
    conv = pplconv.Conv2d(np.ones((8, 4, 3, 3), np.float32), threads=2)
    before = threads_in_use()
    for _ in range(3):
        with pytest.raises(Boom):
            conv(Hostile(None))
        with pytest.raises(Boom):
            conv(np.ones((1, 4, 9, 9), np.float32), Hostile(None))
    assert conv(Hostile(conv)).shape == (1, 8, 7, 7)
    assert threads_in_use() == before
