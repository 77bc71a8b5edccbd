"""Threads that start teams under pins: the pin that each follows, and its team's first core."""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import Protocol

from pplconv import _binding

from .places import Cores

_numbers = itertools.count(1)
_all: weakref.WeakValueDictionary[int, Leader]
_here = threading.local()


class Pinned(Protocol):
    """The part of a `Pin` that a leader needs: its cores, and the binding to them."""

    cores: Cores
    binding: _binding.Binding


class Leader:
    """One thread that starts teams; lives as long as the thread does."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.pin: Pinned | None = None
        # The binding that the thread has entered. Only the thread itself replaces it: its loops may
        # be reading it while another thread ends the pin.
        self.entered: _binding.Binding | None = None
        # For each active pin that it has followed: its first place and the largest of its teams.
        self.first: dict[Pinned, int] = {}
        self.team = 1

    def follow(self, pin: Pinned | None, team: int) -> int:
        """Bind the calling thread, which is this leader, and its teams as `pin` demands.

        Returns
        -------
        int
            0, or the errno for which the calling thread could not be bound.
        """
        if pin is None:
            if self.entered is not None:
                _binding.leave()
            self.pin = self.entered = None
            return 0
        self.team = max(self.team, team)
        if self.pin is pin and self.entered is pin.binding:
            return 0
        first = self.place_in(pin)
        error = pin.binding.enter(self.number, first)
        self.pin, self.entered = pin, pin.binding
        return error

    def place_in(self, pin: Pinned) -> int:
        """First place of this leader's team: where teams of other leaders leave most room."""
        if pin not in self.first:
            places = len(pin.cores)
            load = [0] * places
            for other in list(_all.values()):
                if other is not self and other.pin is pin:
                    for i in range(min(other.team, places)):
                        load[(other.first[pin] + i) % places] += 1
            team = min(self.team, places)
            self.first[pin] = min(
                range(places),
                key=lambda first: sum(load[(first + i) % places] for i in range(team)),
            )
        return self.first[pin]

    def abandon(self, pin: Pinned, then: Pinned | None) -> int:
        """Go on under `then` after `pin` has ended; any thread may call this.

        Returns
        -------
        int
            0, or the errno for which a thread could not be moved.
        """
        first = self.first.pop(pin, 0)
        if self.pin is not pin:
            return 0
        self.pin = then
        if then is None:
            return pin.binding.move(self.number, None)
        return pin.binding.move(self.number, then.binding, self.place_in(then) - first)


def this_leader() -> Leader:
    """Return the leader of the calling thread."""
    leader: Leader | None = getattr(_here, "leader", None)
    if leader is None:
        leader = _here.leader = Leader()
        _all[leader.number] = leader
    return leader


def all_leaders() -> list[Leader]:
    """Every thread that has led a team under a pin and has not ended."""
    return list(_all.values())


def forget_leaders() -> None:
    """Forget all, the calling thread included: in a forked child."""
    global _all, _here
    _all = weakref.WeakValueDictionary()
    _here = threading.local()


forget_leaders()
