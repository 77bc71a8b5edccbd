"""Mailboxes: no message is lost, torn or waited for in vain, whatever the two ends do meanwhile."""

from __future__ import annotations

import socket
import time

import numpy as np
import pytest

from pplconv.instances._mailbox import ANNOUNCED, BYTES, NOTHING, THERE, Inbox, Outbox
from pplconv.memory.arrays import empty_aligned
from tests.patience import PATIENCE
from tests.threads import at_once, begun, ended


@pytest.fixture
def memory():
    made = empty_aligned(BYTES, np.uint8)
    made[:] = 0
    return made


@pytest.fixture
def ends(memory):
    return Outbox(memory), Inbox(memory)


def test_a_message_goes_through_its_steps(ends):
    outbox, inbox = ends
    for turn in range(3):
        assert inbox.look() == NOTHING
        with pytest.raises(ValueError, match="no message"):
            inbox.take()
        before = time.monotonic()
        outbox.announce()
        after = time.monotonic()
        outbox.announce()  # for the same message
        assert inbox.look() == ANNOUNCED
        with pytest.raises(ValueError, match="no message"):
            inbox.take()
        outbox.post(turn, -1, 2, 1 << 62, 0)
        assert inbox.look() == THERE
        *words, since = inbox.take()
        assert words == [turn, -1, 2, 1 << 62, 0]
        assert before - 1e-6 <= since <= after + 1e-6


def test_a_message_need_not_be_announced(ends):
    outbox, inbox = ends
    before = time.monotonic()
    outbox.post(1, 2, 3, 4, 5)
    assert inbox.look() == THERE
    *words, since = inbox.take()
    assert words == [1, 2, 3, 4, 5] and before - 1e-6 <= since <= time.monotonic() + 1e-6
    assert inbox.look() == NOTHING


def test_who_naps_is_woken_once_a_nap(ends):
    outbox, inbox = ends
    assert outbox.sleeper() == 0
    assert inbox.nap()
    first = outbox.sleeper()
    assert first
    assert outbox.sleeper() == first, "until the writer says that it has"
    outbox.rang(first)
    assert outbox.sleeper() == 0
    inbox.wake()
    inbox.wake()
    assert outbox.sleeper() == 0
    assert inbox.nap()
    second = outbox.sleeper()
    assert second not in (0, first), "another nap"
    inbox.wake()
    assert outbox.sleeper() == 0


def test_nobody_naps_beside_a_message(ends):
    outbox, inbox = ends
    outbox.announce()
    assert inbox.nap(), "it may take long"
    inbox.wake()
    outbox.post(0, 0, 0, 0, 0)
    assert not inbox.nap()


@pytest.mark.parametrize("announced", [False, True])
def test_watching_ends(ends, announced):
    outbox, inbox = ends
    if announced:
        outbox.announce()
    # The other limit must not count, so it is longer than `PATIENCE`.
    times = (0.0, 0.02) if announced else (0.02, 10 * PATIENCE)
    signs = []
    ended(begun([lambda: signs.append(inbox.look(*times))]))
    assert signs == [ANNOUNCED if announced else NOTHING]


@pytest.mark.parametrize("steps", [["post"], ["announce", "post"]])
def test_a_message_is_seen_by_who_watches(ends, steps):
    """Others run meanwhile: the watch needs no lock of the interpreter."""
    outbox, inbox = ends
    seen = []
    watch = begun([lambda: seen.append(inbox.look(PATIENCE, PATIENCE))])
    for step in steps:
        time.sleep(0.02)  # only a wait can show that nothing is seen yet
        assert not seen
        outbox.announce() if step == "announce" else outbox.post(7, 0, 0, 0, 0)
    ended(watch)
    assert seen == [THERE] and inbox.take()[0] == 7


def test_memory_must_do(memory):
    for made in (memory[:-1], memory[: BYTES // 2], np.zeros(2 * BYTES, np.uint8)[_unaligned() :]):
        for end in (Outbox, Inbox):
            with pytest.raises(ValueError, match=f"memory must be {BYTES} bytes"):
                end(made)
    memory.flags.writeable = False
    with pytest.raises(ValueError, match=r"read-only|not writable"):
        Inbox(memory)


def _unaligned() -> int:
    """Return an offset that makes the address of a fresh array odd."""
    address = np.zeros(2 * BYTES, np.uint8).ctypes.data
    return 1 - address % 2


def test_it_writes_nowhere_else():
    room = empty_aligned(3 * BYTES, np.uint8)
    room[:] = 0xAA
    room[BYTES : 2 * BYTES] = 0
    outbox, inbox = Outbox(room[BYTES : 2 * BYTES]), Inbox(room[BYTES : 2 * BYTES])
    for _ in range(5):
        outbox.announce()
        inbox.nap()
        outbox.post(-1, -1, -1, -1, -1)
        inbox.wake()
        inbox.take()
    assert (room[:BYTES] == 0xAA).all() and (room[2 * BYTES :] == 0xAA).all()


@pytest.mark.parametrize("watch", [0.0, 20e-6])
def test_nobody_sleeps_through_a_message(watch):
    """Back and forth, each end asleep whenever it may be; one lost wake-up would hang here."""
    boxes = [empty_aligned(BYTES, np.uint8) for _ in range(2)]
    for box in boxes:
        box[:] = 0
    socks = socket.socketpair()
    for sock in socks:
        sock.settimeout(PATIENCE)
    rounds, got = 4000, ([], [])

    def play(side):
        outbox, inbox = Outbox(boxes[side]), Inbox(boxes[1 - side])
        for turn in range(rounds):
            for step in ("send", "receive") if side == 0 else ("receive", "send"):
                if step == "send":
                    if turn % 3:
                        outbox.announce()
                    outbox.post(turn, -turn, side, 0, 0)
                    if nap := outbox.sleeper():
                        socks[side].send(b"!")
                        outbox.rang(nap)
                    continue
                while inbox.look(watch, watch) != THERE:
                    if inbox.nap():
                        assert socks[side].recv(64)
                    inbox.wake()
                got[side].append(inbox.take()[:3])

    at_once(2, play)
    for side in (0, 1):
        assert got[side] == [(turn, -turn, 1 - side) for turn in range(rounds)]
        socks[side].close()
