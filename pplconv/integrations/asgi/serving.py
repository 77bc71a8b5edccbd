"""A model that answers: its instances, what it takes and gives, and the requests that want it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pplconv import InstancePool

from .tensors import DATATYPES, Tensor

__all__ = ["Serving"]

_LONGEST_QUEUE = 1 << 16


class Serving:
    """One model and its instances.

    Parameters
    ----------
    make_model : callable
        Makes the session.
    version : str
        Of the model.
    queue_size : int
        Requests that may wait, beside those that run.
    shapes : sequence of mapping
        To be ready for before the first request.
    settings : dict
        For the pool.

    Attributes
    ----------
    unused : asyncio.Event
        Set while no request wants this model.

    Raises
    ------
    TypeError, ValueError
        If the model is no session, or something does not fit it.
    BaseException
        What `make_model` raised.
    """

    def __init__(
        self,
        make_model: Callable[[], Any],
        version: str,
        queue_size: int,
        shapes: Sequence[Mapping[str, Sequence[int]]],
        settings: Mapping[str, Any],
    ) -> None:
        session = make_model()
        if not (callable(session) and hasattr(session, "get_inputs")):
            raise TypeError(
                f"make_model must make a pplconv.InferenceSession, got {type(session).__name__}"
            )
        self.version = version
        self.inputs = [Tensor.of(value) for value in session.get_inputs()]
        self.outputs = [Tensor.of(value) for value in session.get_outputs()]
        feeds = list(self._feeds(shapes, settings["max_batch"]))
        if settings["mode"] == "process":  # what is ready now goes to all workers at once
            for feed in feeds:
                session.plan_for(feed)
        # The server counts its requests, those among them that no instance has taken yet.
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
        self._users = 0
        self.unused = asyncio.Event()
        self.unused.set()

    def _feeds(
        self, shapes: Sequence[Mapping[str, Sequence[int]]], max_batch: int
    ) -> Iterator[dict[str, Any]]:
        """Yield zeros of the shapes that the model is to be ready for, in batches of all sizes."""
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
