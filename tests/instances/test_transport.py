"""Two ends of a channel in one process: how long a reader watches, and which messages it gets."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

from pplconv.instances import transport
from pplconv.instances.transport import MAILBOXES, Channel, Gone
from pplconv.memory.arrays import empty_aligned
from tests.patience import PATIENCE, eventually


@contextmanager
def pair(watches=True):
    memory = empty_aligned(MAILBOXES, np.uint8)
    memory[:] = 0
    ends = [Channel(sock, memory, side) for side, sock in enumerate(socket.socketpair())]
    for end in ends:
        end.watches = watches
    try:
        yield ends
    finally:
        for end in ends:
            end.close()


@contextmanager
def watches_of(monkeypatch):
    """Collect the seconds for which readers watch for a first sign."""
    real, asked = transport._mailbox.Inbox, []

    class Inbox:
        def __init__(self, memory):
            self.real = real(memory)

        def look(self, first=0.0, then=0.0):
            asked.append(first)
            return self.real.look(first, then)

        def __getattr__(self, name):
            return getattr(self.real, name)

    monkeypatch.setattr(transport._mailbox, "Inbox", Inbox)
    yield asked


def late(end, obj):
    """Send from another thread, to a reader who sleeps already and has waited for long."""

    def send():
        eventually(end._outbox.sleeper, "a reader who sleeps")
        time.sleep(0.01)  # twenty times the longest watch, once the reader is known to sleep
        end.send(end.write(obj))

    thread = threading.Thread(target=send)
    thread.start()
    return thread


@pytest.mark.parametrize("watches", [True, False])
def test_who_waited_long_sleeps_at_once(watches, monkeypatch):
    with watches_of(monkeypatch) as asked, pair(watches) as (one, other):
        thread = late(one, "late")
        assert other.copy(other.receive()) == "late"
        thread.join(PATIENCE)
        thread = late(one, "again")
        del asked[:]
        other.receive()
        thread.join(PATIENCE)
        assert len(asked) >= 2 and not any(asked)


@pytest.mark.parametrize("watches", [True, False])
def test_who_had_a_message_soon_watches_for_the_next(watches, monkeypatch):
    with watches_of(monkeypatch) as asked, pair(watches) as (one, other):
        one.send(one.write("at once"))
        assert other.copy(other.receive()) == "at once"
        one.send(one.write("again"))
        del asked[:]
        assert other.copy(other.receive()) == "again"
        assert bool(asked[0]) is watches


def test_the_watch_is_twice_what_waking_takes(monkeypatch):
    with watches_of(monkeypatch) as asked, pair() as (one, other):
        for waking, expected in ((0.0, 20e-6), (60e-6, 120e-6), (1.0, 500e-6)):
            one.send(one.write("soon"))
            other.receive()
            other._waking = waking
            one.send(one.write("soon"))
            del asked[:]
            other.receive()
            assert asked[0] == pytest.approx(expected)


def test_waking_is_timed_and_nothing_else_is():
    with pair() as (one, other):
        before = other._waking
        one.send(one.write("there already"))
        other.receive()
        assert other._waking == before
        thread = late(one, "woken")
        other._soon = False
        other.receive()
        thread.join(PATIENCE)
        assert other._waking != before


def test_a_large_message_is_waited_for_longer(monkeypatch):
    """The other end copies it before it answers."""
    with watches_of(monkeypatch) as asked, pair() as (one, other):
        for size in (4, 1 << 18):
            one.send(one.write(np.zeros(size, np.float32)))
            other.receive()
            other.send(other.write(None))
            one.receive()
            one._soon, one._waking = True, 60e-6
            one.send(one.write(np.zeros(size, np.float32)))
            other.receive()
            other.send(other.write(None))
            del asked[:]
            one.receive()
            assert asked[0] == pytest.approx(120e-6 + 100e-12 * (4 * size if size > 4 else 64))


def test_the_end_of_the_other_is_met_after_its_last_message():
    with pair() as (one, other):
        one.send(one.write("last words"))
        one.close()
        assert other.copy(other.receive()) == "last words"
        with pytest.raises(Gone):
            other.receive()


def test_a_message_that_was_announced_and_never_sent_is_none():
    with pair() as (one, other):
        one.write("never sent")
        one.close()
        with pytest.raises(Gone):
            other.receive()


def test_a_segment_that_did_not_arrive_is_told(monkeypatch):
    with pair() as (one, other):
        monkeypatch.setattr(
            transport.socket, "send_fds", lambda sock, messages, fds: sock.sendall(messages[0])
        )
        one.send(one.write("x"))
        with pytest.raises(Gone, match="too many open files"):
            other.receive()
