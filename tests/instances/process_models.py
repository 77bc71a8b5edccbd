"""Models and factories that worker processes import."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np

import pplconv
import pplconv.planner

SHAPE = (1, 32, 24, 20)


class Convolutions:
    """Two convolutions, prepared for one shape."""

    def __init__(self, layout="NCHW", dtype="float32", channels=32, shape=SHAPE):
        rng = np.random.default_rng(7)
        draw = lambda *s: rng.standard_normal(s).astype(dtype)  # noqa: E731
        keep = {"layout": layout, "input_shape": shape, "padding": 1}
        self.first = pplconv.Conv2d(
            draw(channels, channels, 3, 3), draw(channels), activation=("prelu", draw(channels)),
            **keep,
        )  # fmt: skip
        self.second = pplconv.Conv2d(draw(channels, 1, 3, 3), groups=channels, **keep)

    def __call__(self, x):
        return self.second(self.first(x))


class Echo:
    """Returns its arguments; has arrays of its own."""

    def __init__(self):
        self.kept = []
        self.table = np.zeros(100_000)
        self.fixed = np.arange(100_000.0)
        self.fixed.flags.writeable = False

    def __call__(self, *args, **kwargs):
        return (args, kwargs) if kwargs else args[0] if len(args) == 1 else args


class Servant(Echo):
    """Calls the method that a request names."""

    def __call__(self, what, *args):
        return getattr(self, what)(*args)

    def pid(self):
        return os.getpid()

    def facts(self, x):
        return x.shape, x.dtype.str, x.flags.c_contiguous, x.flags.f_contiguous, x.flags.writeable

    def keep(self, x):
        self.kept.append(x[1:])
        return len(self.kept)

    def sums(self):
        return [float(x.sum()) for x in self.kept]

    def count(self, by):
        self.table += by
        return float(self.table[-1])

    def write_fixed(self):
        self.fixed[0] = 1

    def change(self, x):
        x += 1
        return x

    def sleep(self, seconds, begun):
        """Create the file `begun`, then sleep."""
        Path(begun).touch()
        time.sleep(seconds)

    def linger(self, begun, end):
        """Create the file `begun`, then wait for the file `end`."""
        Path(begun).touch()
        while not Path(end).exists():
            time.sleep(0.001)
        return "lingered"

    def die(self, _):
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()

    def fork_and_die(self, child):
        """Die, and leave a child that lives until it is killed; its id is in the file `child`."""
        pid = os.fork()
        if pid == 0:
            signal.alarm(3600)  # in case the test never kills it
            signal.pause()
            os._exit(0)
        Path(child).write_text(str(pid))
        self.die(child)

    def fail(self, name):
        if name == "lambda":
            error = ValueError("not picklable")
            error.cause = lambda: None
            raise error
        if name == "exit":
            raise SystemExit(3)
        if name == "demanding":
            raise Demanding("one", "two")
        {}[name]

    def lock(self):
        return threading.Lock()

    def tolerance(self):
        return pplconv.planner.default_tolerance()

    def affinity(self):
        return [sorted(os.sched_getaffinity(int(t))) for t in os.listdir("/proc/self/task")]

    def threads(self):
        from pplconv.config import current

        return current().num_threads

    def resources(self):
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    def pools(self, x):
        return pools(x)

    def disposition(self):
        return (
            signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
            signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        )


class Demanding(Exception):
    """An exception whose pickle cannot be read."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def doubling():
    return np.multiply


def pools(x):
    """Return the answers of a pool of threads, and the refusal of a pool of processes."""
    with pplconv.InstancePool(doubling, instances=2, threads=1) as pool:
        answers = [pool.submit(x, 2.0).result() for _ in range(2)]
    refused = ""
    try:
        pplconv.InstancePool(doubling, instances=1, threads=1, mode="process").close()
    except RuntimeError as error:
        refused = str(error)
    return answers, refused


class Unpicklable(Servant):
    def __init__(self):
        super().__init__()
        self.key = threading.Lock()


def no_callable():
    return 3


class BrokenInWorkers(Servant):
    def __reduce__(self):
        return _broken, (os.getpid(),)


def _broken(parent):
    if os.getpid() != parent:
        raise LookupError("no such model here")
    return BrokenInWorkers()
