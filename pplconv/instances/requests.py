"""Requests, and the bounded queue in which they wait."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any


class QueueFull(RuntimeError):
    """The queue had no room for a request, and the caller did not want to wait longer for it."""


class PoolClosed(RuntimeError):
    """The pool is closed: it takes no request, or gave up the one whose future holds this."""


class _Mark:
    """Stands in the queue for a request that was put back."""


_MARK = _Mark()


class Request:
    """One requested call of the model.

    Parameters
    ----------
    args, kwargs : tuple, dict
        Arguments of the model.
    """

    __slots__ = ("__weakref__", "args", "future", "kwargs", "submitted")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs
        self.future: Future[Any] = Future()
        self.future.add_done_callback(partial(_let_go, weakref.ref(self)))
        self.submitted = time.perf_counter()


def _let_go(request: weakref.ref[Request], future: Future[Any]) -> None:
    """Free the arguments of a cancelled request, which itself stays in the queue."""
    found = request() if future.cancelled() else None
    if found is not None:
        # From now on it looks like a request that is joined with no other.
        found.args, found.kwargs = (None,), {}


class RequestQueue:
    """First in, first out; bounded; ended by `stop`.

    The items lie in a `SimpleQueue`, whose `put` and `get` are single steps of the interpreter:
    Ctrl-C cannot strike between storing a request and waking the one thread that takes it.  Its
    length is the only count there is, so none can go wrong.

    Parameters
    ----------
    size : int
        Requests that may wait.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.takers: set[int] = set()
        """Threads that empty the queue: none of them may wait for room."""
        self.stopped = False
        self._items: SimpleQueue[Request | _Mark | None] = SimpleQueue()
        # Requests that were put back come first; `_items` holds a mark for each of them.
        self._front: deque[Request | None] = deque()
        self._mutex = threading.Lock()
        self._room = threading.Condition(self._mutex)
        self._waiting = 0

    def put(self, request: Request, timeout: float) -> None:
        """Add a request, and wait up to `timeout` seconds for room.

        Raises
        ------
        QueueFull
            If there was no room in time. In a thread that takes from the queue, it is raised at
            once: otherwise all threads might wait for room.
        PoolClosed
            If the queue was stopped.
        """
        with self._mutex:
            if self._items.qsize() >= self.size and not self.stopped:
                self._wait(timeout)
            if self.stopped:
                raise PoolClosed("this pool is closed: it takes no requests")
            self._items.put(request)

    def take(self) -> Request | None:
        """Wait for a request; None means that no more will come."""
        return self._taken(self._items.get())

    def take_within(self, timeout: float) -> Request | None:
        """Take a request that is there within `timeout` seconds; None if none is, or none will be.

        Parameters
        ----------
        timeout : float
            Seconds; 0 or less not to wait.
        """
        try:
            request = self._taken(self._items.get(timeout > 0, timeout if timeout > 0 else None))
        except Empty:
            return None
        if request is None:
            self._items.put(None)  # `take` meets it again; nothing follows the end
        return request

    def _taken(self, item: Request | _Mark | None) -> Request | None:
        with self._mutex:
            if self._front:
                if not isinstance(item, _Mark):
                    self._front.append(item)
                item = self._front.popleft()
            if self._waiting:
                self._room.notify()
        assert not isinstance(item, _Mark)
        return item

    def put_back(self, requests: Sequence[Request]) -> None:
        """Put taken requests back, before all others, regardless of the queue's size."""
        with self._mutex:
            self._front.extendleft(reversed(requests))
            for _ in requests:
                self._items.put(_MARK)

    def stop(self, takers: int) -> None:
        """Refuse requests from now on; after the last, each of `takers` threads takes None."""
        with self._mutex:
            self.stop_unlocked(takers)
            self._room.notify_all()

    def stop_unlocked(self, takers: int) -> None:
        """Do the same without the lock, when no requests can be added any more.

        A pool may be garbage-collected in a thread that holds any lock.
        """
        if not self.stopped:
            self.stopped = True
            for _ in range(takers):
                self._items.put(None)

    def drain(self) -> list[Request]:
        """Take out the requests of a stopped queue, so that the caller can answer them."""
        requests, ends = [], 0
        try:
            while True:
                request = self._taken(self._items.get_nowait())
                if request is None:
                    ends += 1
                else:
                    requests.append(request)
        except Empty:
            pass
        for _ in range(ends):
            self._items.put(None)
        return requests

    def _wait(self, timeout: float) -> None:
        if threading.get_ident() in self.takers:
            timeout = 0.0
        deadline = time.monotonic() + timeout
        self._waiting += 1
        try:
            while self._items.qsize() >= self.size and not self.stopped:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise QueueFull(f"{self.size} requests wait already")
                self._room.wait(None if math.isinf(left) else min(left, threading.TIMEOUT_MAX))
        except BaseException:
            self._room.notify()  # a taker may have woken this thread
            raise
        finally:
            self._waiting -= 1


def cancel(future: Future[Any]) -> None:
    """Cancel a future unless somebody else has set it, and tell those who wait for several."""
    future.cancel()
    try:
        future.set_running_or_notify_cancel()
    except InvalidStateError:  # set by somebody else
        return
