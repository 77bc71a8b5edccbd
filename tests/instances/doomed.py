"""A model whose worker is killed once, at a chosen step of a request or an answer."""

from __future__ import annotations

import functools
import os
import signal
import threading
from pathlib import Path

import numpy as np

from pplconv.instances import transport

ANSWERED = ("posted", "sent", "receives", "naps")
"""Steps after which the answer is in the mailbox, whether or not the reader was woken."""

STEPS = ("computed", "announced", "segment made", "written", "segment sent", *ANSWERED)


class Doomed:
    """Adds 1; kills its worker at the chosen step while the file `token` exists."""

    def __init__(self, step: str, token: str) -> None:
        self.step, self.token, self.runs = step, token, f"{token}.runs"
        self.called = False

    def __reduce__(self):
        return _prepare, (self.step, self.token)

    def __call__(self, x):
        self.called = True
        with open(self.runs, "a") as runs:
            runs.write("x")
        return x + 1

    def die(self) -> None:
        if self.called:
            try:
                Path(self.token).unlink()
            except FileNotFoundError:
                return
            os.kill(os.getpid(), signal.SIGKILL)
            threading.Event().wait()


def _prepare(step: str, token: str) -> Doomed:
    model = Doomed(step, token)
    channel = transport.Channel

    def die_in(owner, name, first):
        real = getattr(owner, name)

        @functools.wraps(real)
        def wrapped(*args, **kwargs):
            if first:
                model.die()
            result = real(*args, **kwargs)
            if not first:
                model.die()
            return result

        setattr(owner, name, wrapped)

    # Whose function the worker dies in, and whether before it does anything.
    places = {
        "computed": (channel, "write", True),
        "announced": (transport, "flatten", True),
        "segment made": (channel, "_new_segment", False),
        "written": (channel, "write", False),
        "segment sent": (transport.socket, "send_fds", False),
        "sent": (channel, "send", False),
        "receives": (channel, "receive", True),
        "naps": (channel, "_read_socket", True),
    }
    if step in places:
        die_in(*places[step])
    elif step == "posted":
        real_write = channel.write

        def write(self, obj):
            wake = channel._wake_reader
            laid = real_write(self, obj)
            if model.called and wake is real_wake:  # what comes next is the wake-up after the post
                die_in(channel, "_wake_reader", True)
            return laid

        real_wake = channel._wake_reader
        channel.write = write
    return model


def make(step: str, token: str) -> Doomed:
    return Doomed(step, token)


def large() -> np.ndarray:
    """An array that needs a larger segment than the first message of a worker."""
    return np.arange(50_000.0)
