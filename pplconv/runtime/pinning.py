"""Threads of teams bound to cores, and put back: only if `pin` asks for it."""

from __future__ import annotations

import os
import threading
import warnings
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from pplconv import _binding
from pplconv._checks import flag
from pplconv.machine import current as current_machine

from .leaders import Leader, all_leaders, forget_leaders, this_leader
from .places import Cores, Places, choose_places

if TYPE_CHECKING:
    from collections.abc import Sequence

# Guards the list and all leaders. Loops never wait for it.
_lock = threading.RLock()
_pins: list[Pin] = []


@dataclass(frozen=True, slots=True)
class BoundThread:
    """A thread that a pin has bound.

    Parameters
    ----------
    thread_id : int
        The system's number of the thread, as `threading.get_native_id` has it.
    core : int
        Which of `Pin.cores` it was bound to.
    cpus : tuple of int
        Logical CPUs it may run on, read back from the system.
    """

    thread_id: int
    core: int
    cpus: tuple[int, ...]


class Pin:
    """What `pin` returns: a pin that lasts until `unpin`, or until its ``with`` block ends.

    Attributes
    ----------
    cores : tuple of tuple of int
        Logical CPUs of each physical core, one thread of a team each; () if nothing could be
        bound.
    node : int or None
        NUMA node of all of them; None if they belong to several.
    memory_node : int or None
        NUMA node whose memory is preferred; None if there is only one node, or the system refused.
    active : bool
        Whether threads are bound.
    """

    def __init__(self, places: Places, owner: Leader | None) -> None:
        self.cores: Cores = places.cores
        self.node = places.node
        self.memory_node: int | None = None
        self.active = False
        # The only leader whose teams are bound; None: all leaders.
        self._owner = owner
        self._warned = False
        if self.cores:
            self.binding = _binding.Binding(self.cores)

    def threads(self) -> tuple[BoundThread, ...]:
        """List the threads that are bound now, with their CPUs read back from the system."""
        if not self.active:
            return ()
        found = self.binding.members()
        return tuple(
            sorted(
                (BoundThread(tid, place, cpus) for tid, _, place, cpus in found),
                key=lambda thread: (thread.core, thread.thread_id),
            )
        )

    def unpin(self) -> None:
        """Put every thread's CPUs back as they were; from any thread, and at most once.

        Threads go back to the pin around this one if there is one that serves them.

        Warns
        -----
        RuntimeWarning
            If the system refuses.
        """
        error = _end(self)
        if error:
            warnings.warn(
                f"pplconv.runtime.pin: threads could not be put back: {os.strerror(error)}",
                RuntimeWarning,
                stacklevel=2,
            )

    def __enter__(self) -> Pin:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.unpin()

    def __repr__(self) -> str:
        state = "active" if self.active else "not active"
        return f"<Pin: node {self.node}, {len(self.cores)} cores, {state}>"

    def serves(self, leader: Leader) -> bool:
        """Whether this pin applies to teams of `leader`."""
        return self._owner is None or self._owner is leader

    def complain(self, what: str, stacklevel: int) -> None:
        """Warn, the first time for this pin."""
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"pplconv.runtime.pin: {what}; the work goes on",
                RuntimeWarning,
                stacklevel=stacklevel + 1,
            )


def pin(
    node: int | None = None,
    cores: int | Sequence[int] | None = None,
    *,
    everyone: bool = True,
) -> Pin:
    """Bind the threads of pplconv's teams to the cores of one NUMA node, one thread a core.

    Takes effect at once for the calling thread, which is the first of its teams, and for each
    other thread when it first takes part in a convolution.  Teams become no larger than there
    are cores.  Scratch memory and packed weights that are allocated from then on prefer the
    node's memory; what was allocated before stays where it is.  Results do not change by a bit.

    Without a call of this function, or an `InstancePool` made with ``pin=True``, pplconv binds
    nothing.

    Parameters
    ----------
    node : int, optional
        NUMA node, by the system's number.  None: the one with the most cores inside the
        affinity mask (the lowest of several), or that of the CPUs in `cores`.
    cores : int or sequence of int, optional
        How many cores of the node, or ids of logical CPUs.  A thread may run on all CPUs of its
        core that are inside the affinity mask, or, where ids are given, on those of them that
        are named.  None: all cores.
    everyone : bool, optional
        Whether teams of all Python threads are bound, or only those of the calling thread.
        Where several threads lead teams at once, their teams begin at different cores while
        there are enough.

    Returns
    -------
    Pin
        A context manager.  `Pin.unpin`, or the end of the ``with`` block, puts every thread
        back to the CPUs that it had; pins may be nested, and end in any order.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it.

    Warns
    -----
    RuntimeWarning
        Once for a pin, if the machine has not what was asked for or the system refuses it:
        another system than Linux, a sandbox, a node or CPUs that are not there or outside the
        affinity mask.  What can be had is bound; where that is nothing, everything runs as if
        nobody had asked.

    Notes
    -----
    *Whose threads.*  The first thread of a team is the caller's own: while it is bound, everything
    it does runs on its core. Threads and processes that it starts meanwhile inherit its CPUs, as
    usual on Linux. Those that then lead or join a team of pplconv are bound and put back like
    others; all others are never touched, not even by `Pin.unpin`.  The other
    threads of a team are pplconv's own, and wait for the next team of the same Python thread.  No
    other library has its work done by them.

    *Forked children* begin without pins, on the CPUs that the forking thread had before.

    *Memory.*  Nobody's memory policy changes.  On machines of several nodes, buffers are
    mappings of their own, for which the node is preferred by ``mbind`` with ``MPOL_PREFERRED``.

    Examples
    --------
    >>> import pplconv.runtime
    >>> with pplconv.runtime.pin(cores=1) as pin:
    ...     len(pin.cores)
    1
    """
    # Read this before binding: a bound thread would find one core in its mask.
    places = choose_places(current_machine(), node, cores)
    made = Pin(places, None if flag("everyone", everyone) else this_leader())
    trouble = [places.complaint] if places.complaint else []
    if places.cores:
        trouble += _begin(made, places)
    if trouble:
        try:
            made.complain("; ".join(trouble), 2)
        except BaseException:  # if warnings are errors, the caller would have no Pin to end
            _end(made)
            raise
    return made


def pinned_team(threads: int) -> int:
    """Bind the calling thread as the pins want, and cut its next team down to their cores.

    Call this before each team is started while there are pins (``_binding.pinned``).

    Parameters
    ----------
    threads : int
        Team size that would otherwise be used.

    Returns
    -------
    int
        No more than the cores of the pin that serves the calling thread.

    Warns
    -----
    RuntimeWarning
        Once for a pin, if a thread of an earlier team could not be bound.
    """
    with _lock:
        leader = this_leader()
        pin = _serving(leader)
        if pin is None:
            leader.follow(None, threads)
            return threads
        threads = min(threads, len(pin.cores))
        leader.follow(pin, threads)
        failures, error = pin.binding.failures, pin.binding.error
    if failures:
        pin.complain(f"a thread could not be bound: {os.strerror(error)}", 2)
    return threads


def pinned_cores() -> int | None:
    """Number of cores that pins leave the calling thread's teams; None if no pin serves it.

    Binds nothing, unlike `pinned_team`.
    """
    with _lock:
        pin = _serving(this_leader()) if _pins else None
        return None if pin is None else len(pin.cores)


def _begin(pin: Pin, places: Places) -> list[str]:
    """Start a pin; return what the system refused, in words."""
    trouble = []
    with _lock:
        try:
            if not _pins:
                _binding.keep_older(_threads_of_process())
            _pins.append(pin)
            _binding.count_pins(1)
            pin.active = True
            if places.prefers_memory and places.node is not None:
                error = pin.binding.prefer_memory(places.node)
                if error:
                    trouble.append(
                        f"memory of NUMA node {places.node} refused: {os.strerror(error)}"
                    )
                else:
                    pin.memory_node = places.node
            error = this_leader().follow(pin, 1)
        except BaseException:
            _end(pin)
            raise
        if error:
            trouble = [f"binding threads refused: {os.strerror(error)}"]
            _end(pin)
            pin.cores, pin.memory_node = (), None
    return trouble


def _end(pin: Pin) -> int:
    """End an active pin; return 0, or the errno if a thread could not be put back."""
    with _lock:
        if pin not in _pins:
            return 0
        _pins.remove(pin)
        _binding.count_pins(-1)
        pin.active = False
        pin.binding.end()
        error = 0
        for leader in all_leaders():
            error = leader.abandon(pin, _serving(leader)) or error
        # Teams may outlive the threads that led them for a moment.
        error = pin.binding.move(0, None) or error
        if not _pins:
            _binding.keep_older(())
        return error


def _serving(leader: Leader) -> Pin | None:
    """The pin that binds a leader's teams: its own latest pin, else the latest pin for all."""
    serving = [pin for pin in _pins if pin.serves(leader)]
    own = [pin for pin in serving if pin._owner is not None]
    chosen = own or serving
    return chosen[-1] if chosen else None


def _threads_of_process() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/task")]
    except (OSError, ValueError):  # not Linux, or no /proc: all threads count as started later
        return []


def _in_child() -> None:
    """Forget all pins: the C side has put the calling thread back, and no other exists."""
    global _lock
    _lock = threading.RLock()  # another thread of the parent may hold it
    for pin in _pins:
        pin.active = False
    _pins.clear()
    forget_leaders()
    _binding.keep_older(())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
