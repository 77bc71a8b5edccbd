"""Engines that stand for those of `benchmarks.networks`, in workers of their own.

Each computes 2x + 1 of its only input, or fails to.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np

from benchmarks.networks.engines import Engine


class Right(Engine):
    """2x + 1, in a millisecond or so."""

    name = "right"
    distribution = "numpy"
    note = "stands for a peer"
    seconds = 0.001

    def load(self, path, shapes, threads):
        self.shapes = {name: tuple(shape) for name, shape in shapes.items()}
        # As native libraries print, too.
        os.write(1, b"a line that is no answer\n")

    def run(self, feed):
        (x,) = feed.values()
        assert {name: array.shape for name, array in feed.items()} == self.shapes
        time.sleep(self.seconds)
        return [2 * x + 1]


class Ours(Right):
    """The same, as pplconv's."""

    name = "ours"
    ours = True
    note = "stands for pplconv"


class Reference(Right):
    """The same, without waiting."""

    name = "reference"
    seconds = 0.0


class Wrong(Right):
    """A hundredth too much."""

    name = "wrong"

    def run(self, feed):
        return [1.01 * y for y in super().run(feed)]


class WrongOurs(Wrong):
    name = "ours"
    ours = True


class Tired(Right):
    """Right until it has been timed."""

    name = "tired"

    def load(self, path, shapes, threads):
        super().load(path, shapes, threads)
        self.runs = 0

    def run(self, feed):
        self.runs += 1
        return [y * (self.runs < 4) for y in super().run(feed)]


class Refusing(Right):
    name = "refusing"

    def load(self, path, shapes, threads):
        raise NotImplementedError("an operator that it lacks")


class Dying(Right):
    """Killed in its first run, as by the system when memory runs out."""

    name = "dying"

    def run(self, feed):
        print("last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


class Unconverted(Right):
    name = "unconverted"

    @classmethod
    def convert(cls, path, folder):
        raise RuntimeError("the converter failed")


class Absent(Right):
    name = "absent"
    module = "no_such_module"


class Pinned(Right):
    """Gives the CPUs that it may run on, in place of the outputs."""

    name = "pinned"

    def run(self, feed):
        return [np.array(sorted(os.sched_getaffinity(0)))]


class TwoOutputs(Right):
    name = "two"

    def run(self, feed):
        return [*super().run(feed), np.zeros(3, np.float32)]


class Patient(Right):
    """Takes a millisecond for each thread."""

    def load(self, path, shapes, threads):
        super().load(path, shapes, threads)
        self.seconds = 1e-3 * threads


class PatientOurs(Patient):
    name = "ours"
    ours = True
