"""A model that answers: its instances, what it takes and gives, and the requests that want it."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import numpy as np

from pplconv import InstancePool, runtime

from .http_errors import Refused
from .http_tensors import DATATYPES, Tensor, shown

__all__ = ["Serving"]

_LONGEST_QUEUE = 1 << 16
_RETRY_AFTER = 1


class Serving:
    """One model and its instances.

    Parameters
    ----------
    make_model : callable
        Makes the session.
    version : str
        Version of the model.
    queue_size : int
        Requests that may wait, besides those that run.
    shapes : sequence of mapping
        Sets of input shapes that are prepared before the first request.
    settings : dict
        Arguments of the pool.
    max_making : int
        Sets of new shapes whose programs may be made or waited for.
    shapes_only : bool
        Whether all other shapes are refused.

    Attributes
    ----------
    unused : asyncio.Event
        Set while no request wants this model.

    Raises
    ------
    TypeError, ValueError
        If the model is no session, or an argument does not fit it.
    BaseException
        Any exception that `make_model` raises.
    """

    def __init__(
        self,
        make_model: Callable[[], Any],
        version: str,
        queue_size: int,
        shapes: Sequence[Mapping[str, Sequence[int]]],
        settings: Mapping[str, Any],
        max_making: int,
        shapes_only: bool,
    ) -> None:
        session = make_model()
        if not (callable(session) and hasattr(session, "get_inputs")):
            raise TypeError(
                f"make_model must make a pplconv.InferenceSession, got {type(session).__name__}"
            )
        self.version = version
        self._session = session
        # A program is made for each of their values.
        self._told: frozenset[str] = getattr(session, "shape_inputs", frozenset())
        self._most_told: int = getattr(session, "most_shape_elements", 0)
        self._joins = settings["max_batch"] > 1
        self.inputs = [Tensor.of(value) for value in session.get_inputs()]
        self.outputs = [Tensor.of(value) for value in session.get_outputs()]
        feeds = list(self._feeds(shapes, settings["max_batch"]))
        self._only = {self._shapes_of(given) for given in shapes} if shapes_only else None
        if settings["mode"] == "process":  # programs that are ready now go to all workers at once
            for feed in feeds:
                session.plan_for(feed)
        # The server counts its requests itself, those that no instance has taken yet included.
        self.pool: InstancePool[Any] = InstancePool(
            lambda: session, queue_size=_LONGEST_QUEUE, **settings
        )
        self.places = queue_size + len(self.pool) * settings["max_batch"]
        try:
            for feed in feeds:
                self.pool.submit(feed).result()
        except BaseException:
            self.pool.close(cancel_pending=True)
            raise
        self._takes = settings["max_batch"]
        self.makes_apart = (
            settings["mode"] == "thread" and not self._joins and hasattr(session, "is_ready_for")
        )
        """Whether a program is made before an instance is asked, and not by the instance."""
        # If instances make programs themselves, answered requests tell which programs exist.
        self._answered: OrderedDict[Any, None] = OrderedDict()
        kept = getattr(session, "programs_kept", 1)
        self._kept = max(1, kept // settings["max_batch"].bit_length())
        for feed in feeds:
            self.note(feed)
        self._makers = asyncio.Semaphore(1 if self.makes_apart else max(1, len(self.pool) // 2))
        self._max_making = max_making
        self._making: Counter[Any] = Counter()  # requests by their shapes
        self._waiting: Counter[asyncio.Future[Any]] = Counter()  # and by their turns
        self._turns: dict[Any, asyncio.Future[Any]] = {}
        self._users = 0
        self.unused = asyncio.Event()
        self.unused.set()

    def _shapes_of(self, feed: Mapping[str, Any]) -> tuple[tuple[int, ...], ...]:
        """The shapes of a feed, or of shapes; without rows where they are joined."""
        first = 1 if self._joins else 0
        return tuple(
            tuple(getattr(feed[tensor.name], "shape", feed[tensor.name]))[first:]
            for tensor in self.inputs
        )

    def check(self, feed: Mapping[str, Any]) -> None:
        """Refuse shapes that are not served.

        Raises
        ------
        Refused
            If only some shapes are served, and these are not among them.
        """
        if self._only is None:
            return
        rows = max((len(array) for array in feed.values() if array.ndim), default=0)
        if self._shapes_of(feed) not in self._only or (self._joins and rows > self._takes):
            got = {name: list(array.shape) for name, array in feed.items()}
            raise Refused(422, f"inputs: shapes {shown(got)} are none of those that are served")

    def knows(self, feed: Mapping[str, Any]) -> bool:
        """Whether there is a program for a request, as far as is known."""
        if self.makes_apart:
            try:
                with runtime.team(self.pool.threads):
                    return bool(self._session.is_ready_for(feed))
            except (TypeError, ValueError):  # an instance will say what is wrong
                return True
        return not hasattr(self._session, "is_ready_for") or self._key(feed) in self._answered

    def make(self, feed: Mapping[str, Any]) -> None:
        """Make the program for a request, where `makes_apart`."""
        with runtime.team(self.pool.threads):
            self._session.plan_for(feed)

    def note(self, feed: Mapping[str, Any]) -> None:
        """Note that an instance has answered a request."""
        key = self._key(feed)
        self._answered[key] = None
        self._answered.move_to_end(key)
        while len(self._answered) > self._kept:
            self._answered.popitem(last=False)

    def _key(self, feed: Mapping[str, Any]) -> Any:
        small = tuple(
            feed[tensor.name].tobytes()
            for tensor in self.inputs
            if tensor.name in self._told and feed[tensor.name].size <= self._most_told
        )
        return self._shapes_of(feed), small

    @asynccontextmanager
    async def makes(self, feed: Mapping[str, Any]) -> AsyncIterator[None]:
        """Wait for this request's turn to have its program made; in the event loop only.

        Raises
        ------
        Refused
            503 if programs of too many other shapes are waited for.
        """
        key = self._key(feed)
        if key not in self._making and len(self._making) >= self._max_making:
            raise Refused(503, "programs of other shapes are made: try again", _RETRY_AFTER)
        # Requests that may be joined share a turn.
        turn = self._turns.get(key) if self._joins else None
        if turn is None:
            turn = self._turns[key] = asyncio.ensure_future(self._makers.acquire())
        self._making[key] += 1
        self._waiting[turn] += 1
        try:
            await asyncio.shield(turn)
            yield
        finally:
            self._leave(key, turn)

    def _leave(self, key: Any, turn: asyncio.Future[Any]) -> None:
        """Let the next turn make its program, if all requests of this turn have theirs."""
        for counter, item in ((self._making, key), (self._waiting, turn)):
            counter[item] -= 1
            if not counter[item]:
                del counter[item]
        if turn in self._waiting:
            return
        if self._turns.get(key) is turn:
            del self._turns[key]
        if not turn.done():
            turn.cancel()
        elif not turn.cancelled():
            self._makers.release()

    def _feeds(
        self, shapes: Sequence[Mapping[str, Sequence[int]]], max_batch: int
    ) -> Iterator[dict[str, Any]]:
        """Yield zeros of the shapes to prepare, in batches of all sizes."""
        sizes = [1 << i for i in range(max_batch.bit_length()) if 1 << i < max_batch] + [max_batch]
        for given in shapes:
            for size in sizes:
                feed = {}
                for tensor in self.inputs:
                    if tensor.name not in given:
                        raise ValueError(f"shapes: no shape is given for input {tensor.name!r}")
                    shape = tuple(given[tensor.name])
                    if max_batch > 1:
                        shape = (size, *shape[1:])
                    dtype = DATATYPES[tensor.datatype].newbyteorder("=")
                    feed[tensor.name] = np.zeros(shape, dtype)
                yield feed

    @contextmanager
    def wanted(self) -> Iterator[None]:
        """Keep the instances while a request is read, waits or runs; in the event loop only."""
        self._users += 1
        self.unused.clear()
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self.unused.set()
