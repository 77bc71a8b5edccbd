"""Models for other processes of this machine, with their plans and packed weights.

An ordinary pickle of a `Conv2d`, a `Linear` or an `InferenceSession` holds the weights, and the
process that unpickles it plans and packs anew. `prepared` takes plans and packed weights along, as
buffers that may lie in memory which many processes share.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _checks, config
from ._version import __version__
from .machine import current as current_machine
from .memory.arrays import empty_aligned
from .runtime import default_threads

__all__ = ["OtherPacking", "Prepared", "PreparedPickler", "prepared"]

_LINE = 64


class OtherPacking(ValueError):
    """Packed weights are of another instruction set, or version of pplconv, than this process's."""


class PreparedPickler(pickle.Pickler):
    """Keeps array memory out of band, and plans and packed weights of objects that have them.

    Parameters
    ----------
    file : io.BytesIO
        Receives the stream.
    keep : callable
        Takes each buffer; returns whether it goes into the stream. As pickle's
        ``buffer_callback``.
    threads : int or None
        Team of the receiving process; None for a pickle without plans and packed weights.
    """

    def __init__(
        self, file: io.BytesIO, keep: Callable[[pickle.PickleBuffer], Any], threads: int | None
    ) -> None:
        super().__init__(file, 5, buffer_callback=keep)
        self._threads = threads

    def reducer_override(self, obj: Any) -> Any:
        """Reduce some objects in a better way than their own ``__reduce_ex__``."""
        if type(obj) is np.ndarray and not obj.flags.forc and not obj.dtype.hasobject:
            # NumPy would copy the array into the stream, several times over.
            return obj.copy().__reduce_ex__(5)
        if self._threads is not None and hasattr(type(obj), "__reduce_prepared__"):
            return obj.__reduce_prepared__(self._threads)
        return NotImplemented


class Prepared:
    """A model taken apart, with plans and packed weights; made by `prepared`.

    It can be pickled again each time it is passed on; `model` builds the model where it is needed.
    With protocol 5 and a ``buffer_callback`` its arrays travel out of band, and are used where they
    arrive.
    """

    def __init__(self, stamp: tuple[str, ...], stream: bytes, buffers: list[Any]) -> None:
        self._stamp = stamp
        self._stream = stream
        self._buffers = buffers

    @property
    def nbytes(self) -> int:
        """Bytes of the pickle's stream and of all buffers."""
        return len(self._stream) + sum(memoryview(buffer).nbytes for buffer in self._buffers)

    def model(self) -> Any:
        """Build the model on the memory of this object; each call makes another model.

        Returns
        -------
        object
            Of the type that `prepared` was given. Its weights are read-only, and the memory that
            they lie in lives as long as it does.

        Raises
        ------
        OtherPacking
            If the packed weights are of another instruction set or version than this process has.
            The message names both.
        """
        here = _stamp()
        if here != self._stamp:
            raise OtherPacking(
                f"the packed weights are of {_told(self._stamp)}, and this process has "
                f"{_told(here)}: call pplconv.sharing.prepared in a process like this one"
            )
        self._buffers = [_on_lines(buffer) for buffer in self._buffers]
        return pickle.loads(self._stream, buffers=self._buffers)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # Before protocol 5 a pickle holds bytes only.
        wrap: Any = pickle.PickleBuffer if protocol >= 5 else bytes
        return Prepared, (self._stamp, self._stream, [wrap(buffer) for buffer in self._buffers])

    def __repr__(self) -> str:
        return f"<Prepared: {self.nbytes} bytes for {_told(self._stamp)}>"


def prepared(model: object, threads: int | None = None) -> Prepared:
    """Take a model apart for other processes of this machine, with its plans and packed weights.

    Parameters
    ----------
    model : object
        A `Conv2d`, a `Linear`, an `InferenceSession`, or any object that can be pickled and holds
        some. Plans for the input shapes that they have seen (``input_shape=``, ``plan_for`` or a
        call) go along.
    threads : int, optional
        Team of the processes that will use it; by default that of a call here. A team that was
        given to a model's constructor stays.

    Returns
    -------
    Prepared
        Its pickle carries everything; its ``model()`` gives a model that is ready.

    Raises
    ------
    TypeError, ValueError
        If `threads` is no number of at least 1.
    Exception
        Any error from pickling `model`.

    Notes
    -----
    Whoever unpickles must trust the sender, as with any pickle.

    Examples
    --------
    >>> import pickle, numpy as np, pplconv
    >>> conv = pplconv.Conv2d(np.ones((8, 3, 3, 3), np.float32), input_shape=(1, 3, 32, 32))
    >>> arrived = pickle.loads(pickle.dumps(pplconv.sharing.prepared(conv, threads=1)))
    >>> arrived.model()(np.ones((1, 3, 32, 32), np.float32)).shape
    (1, 8, 30, 30)
    """
    if threads is None:
        threads = default_threads(config.current(), current_machine())
    threads = _checks.integer("threads", threads, 1, config.MAX_THREADS)
    stream = io.BytesIO()
    buffers: list[Any] = []
    PreparedPickler(stream, buffers.append, threads).dump(model)
    return Prepared(_stamp(), stream.getvalue(), [buffer.raw() for buffer in buffers])


def _stamp() -> tuple[str, ...]:
    """Name everything that packed weights depend on besides the model."""
    machine = current_machine()
    isa = machine.usable_isas(config.current().max_isa)[-1]
    return __version__, machine.arch, isa, sys.byteorder


def _on_lines(buffer: Any) -> Any:
    """Return the buffer, copied if it does not begin on a cache line as packed weights must.

    Shared memory begins on one; bytes of a pickle's stream or of a message may begin anywhere.
    """
    memory = np.frombuffer(buffer, np.uint8)
    if memory.nbytes == 0 or memory.ctypes.data % _LINE == 0:
        return buffer
    copy = empty_aligned((memory.nbytes,), np.uint8)
    copy[:] = memory
    copy.flags.writeable = not memoryview(buffer).readonly
    return copy


def _told(stamp: tuple[str, ...]) -> str:
    version, arch, isa, _ = stamp
    return f"pplconv {version} with {isa} on {arch}"
