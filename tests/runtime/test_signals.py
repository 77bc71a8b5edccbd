"""Ctrl-C while the loops run, while weights are packed and during a search; failing callbacks."""

from __future__ import annotations

import signal
import sys
import time

import numpy as np
import pytest

import pplconv
from pplconv.planner import Request, plan_problem
from pplconv.problem import ConvProblem
from pplconv.schedules.team import threads_in_use
from tests.runtime.processes import finish, run, start

pytestmark = pytest.mark.unemulated(
    "times signals in emulated processes, where seconds pass before a loop begins"
)

needs_proc = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="counts threads in /proc"
)

# A process that was started with SIGINT ignored has no KeyboardInterrupt.
HANDLED = "signal.signal(signal.SIGINT, signal.default_int_handler)\n"


@needs_proc
@pytest.mark.parametrize("threads", [1, 2])
def test_interrupted_call(threads: int) -> None:
    """The exception comes as the call returns, before anything else; the call is complete.

    A thread presses Ctrl-C when it sees part of the output written. If the rest is still missing
    afterwards, the call was running. On a busy machine it may have ended first: then try again.
    """
    assert run(
        HANDLED + f"conv = pplconv.Conv2d(w, threads={threads})\n"
        "conv(x)\n"
        "before = os_threads()\n"
        "batch, inside = 64, [False]\n"
        "def left(): return np.isnan(out[:, -1, -1, -1])\n"
        "def press():\n"
        "  eventually(lambda: not left().all())\n"
        "  os.kill(os.getpid(), signal.SIGINT)\n"
        "  inside.append(left().any())\n"
        "while not inside[-1]:\n"
        "  images = np.ones((batch, 16, 28, 28), np.float32)\n"
        "  out = np.full((batch, 32, 26, 26), np.nan, np.float32)\n"
        "  conv.plan_for(images.shape)\n"
        "  presser = threading.Thread(target=press)\n"
        "  went_on = False\n"
        "  try:\n"
        "    presser.start()\n"
        "    conv(images, out=out)\n"
        "    went_on = True\n"
        "    while True: time.sleep(0.001)\n"
        "  except KeyboardInterrupt: pass\n"
        "  presser.join()\n"
        "  batch = min(2 * batch, 4096)\n"
        "print(went_on, np.isnan(out).any(), np.array_equal(out[0], out[-1]),\n"
        "      threads_left(before), team.threads_in_use())\n"
        "print(np.array_equal(conv(images[:1])[0], out[-1]))"
    ) == ["False False True 0 0", "True"]


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
        "try:\n"
        "  while True:\n"
        f"    pplconv.Conv2d(weight, input_shape=image.shape, threads={threads})\n"
        "except KeyboardInterrupt: pass\n"
        "print(os_threads() - before, team.threads_in_use())\n"
        f"conv = pplconv.Conv2d(weight, input_shape=image.shape, threads={threads})\n"
        "print(conv(image)[0, 0, 0, 0] == 2048 * 9)"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    time.sleep(0.3)  # any moment will do: it packs again and again until the signal comes
    process.send_signal(signal.SIGINT)
    assert finish(process) == ["0 0", "True"]


@needs_proc
def test_interrupted_search(tmp_path) -> None:
    wisdom = tmp_path / "wisdom.json"
    assert run(
        "from pplconv.planner import searching\n"
        "seconds, turns, fifth = searching.Bench._seconds, [], threading.Event()\n"
        "def counted(*arguments):\n"
        "  turns.append(1)\n"
        "  if len(turns) == 5: fifth.set()\n"
        "  return seconds(*arguments)\n"
        "searching.Bench._seconds = counted\n"
        "def press():\n"
        "  fifth.wait()\n"
        "  os.kill(os.getpid(), signal.SIGINT)\n"
        "def handler(*_):\n"
        "  turns.append('interrupted')\n"
        "  raise KeyboardInterrupt\n"
        "signal.signal(signal.SIGINT, handler)\n"
        "conv = pplconv.Conv2d(w, threads=2, search='measure', search_seconds=60)\n"
        "pplconv.conv2d(x, w, threads=2)\n"
        "before = os_threads()\n"
        "presser = threading.Thread(target=press)\n"
        "presser.start()\n"
        # Hundreds of turns, were it not interrupted.
        "try: conv(np.ones((8, 16, 60, 60), np.float32))\n"
        "except KeyboardInterrupt: print(turns[-1])\n"
        "presser.join()\n"
        "print(threads_left(before), team.threads_in_use(),\n"
        "      len(pplconv.wisdom.export()['entries']))\n"
        "print(pplconv.Conv2d(w)(x).shape)\n"
        # The convolution's lock is open.
        "thread = threading.Thread(target=conv.plan_for, args=((0, 16, 8, 8),))\n"
        "thread.start(); thread.join(); print('open')",
        PPLCONV_WISDOM=str(wisdom),
    ) == ["interrupted", "0 0 0", "(2, 32, 26, 26)", "open"]
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
        # The first call has imported everything: an import cannot be entered twice.
        "signal.signal(signal.SIGALRM, signal.SIG_IGN)\n"
        "handler()\n"
        "signal.signal(signal.SIGALRM, handler)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.005)\n"
        "while count < 150:\n"
        "  for side in range(5, 40): conv(np.ones((1, 16, side, 7), np.float32))\n"
        "signal.signal(signal.SIGALRM, signal.SIG_IGN)\n"
        "print(count >= 150, team.threads_in_use())"
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
