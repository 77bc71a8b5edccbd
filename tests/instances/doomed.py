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

    def before(owner, name):
        real = getattr(owner, name)

        @functools.wraps(real)
        def wrapped(*args, **kwargs):
            model.die()
            return real(*args, **kwargs)

        setattr(owner, name, wrapped)

    def after(owner, name):
        real = getattr(owner, name)

        @functools.wraps(real)
        def wrapped(*args, **kwargs):
            result = real(*args, **kwargs)
            model.die()
            return result

        setattr(owner, name, wrapped)

    if step == "computed":
        before(channel, "write")
    elif step == "announced":
        before(transport, "flatten")
    elif step == "segment made":
        after(channel, "_new_segment")
    elif step == "written":
        after(channel, "write")
    elif step == "segment sent":
        after(transport.socket, "send_fds")
    elif step == "posted":
        real_write = channel.write

        def write(self, obj):
            wake = channel._wake_reader
            laid = real_write(self, obj)
            if model.called and wake is real_wake:  # what comes next is the wake-up after the post
                before(channel, "_wake_reader")
            return laid

        real_wake = channel._wake_reader
        channel.write = write
    elif step == "sent":
        after(channel, "send")
    elif step == "receives":
        before(channel, "receive")
    elif step == "naps":
        before(channel, "_read_socket")
    return model


def make(step: str, token: str) -> Doomed:
    return Doomed(step, token)


def large() -> np.ndarray:
    """An array that needs a larger segment than the first message of a worker."""
    return np.arange(50_000.0)
