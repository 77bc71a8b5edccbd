"""What runs in a worker process: the model, one request at a time."""

from __future__ import annotations

import fcntl
import mmap
import os
import pickle
import select
import signal
import socket
import threading
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import connection, parent_process, reduction
from typing import Any, NamedTuple

from .. import config
from ..runtime import spread
from .pool_arguments import make_model
from .shared import Bytes, Laid, map_segment, unpack
from .transport import MAILBOXES, Channel, Gone

__all__ = ["Failure", "Handle", "Order", "Ready", "Watched", "serve"]


class Handle:
    """A descriptor that a process receives when it is started.

    Parameters
    ----------
    fd : int
        Its number in this process.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __reduce__(self) -> tuple[object, ...]:
        if self.fd < 0:
            return Handle, (self.fd,)
        return _received, (reduction.DupFd(self.fd),)


def _received(passed: Any) -> Handle:
    return Handle(passed.detach())


_NONE = Handle(-1)


@dataclass(frozen=True)
class Order:
    """All that a worker needs to know at its start.

    Attributes
    ----------
    mailboxes : Handle
        Descriptor of the memory that both ends of the channel see.
    segment : Handle
        Descriptor of the segment of the model.
    size : int
        Size of the segment in bytes.
    laid : Laid
        Location of the model in the segment.
    is_factory : bool
        Whether the segment holds a factory, which makes the model.
    threads : int
        Team size of a call.
    cores : tuple of int
        Logical CPUs to be bound to; empty for none.
    tolerance : float or None
        Error that a call without ``tolerance=`` may spend; None for the environment's.
    """

    mailboxes: Handle
    segment: Handle
    size: int
    laid: Laid
    is_factory: bool
    threads: int
    cores: tuple[int, ...]
    tolerance: float | None

    def without_handles(self) -> Order:
        """The same for a process that receives the descriptors apart from it."""
        return self.with_handles(_NONE, _NONE)

    def with_handles(self, mailboxes: Handle, segment: Handle) -> Order:
        """The same with other descriptors."""
        return replace(self, mailboxes=mailboxes, segment=segment)


class Watched(NamedTuple):
    """Descriptors that tell a forked worker that the process which ordered it has ended.

    Attributes
    ----------
    pipe : int
        A pipe whose other end that process holds.
    process : int
        A pidfd of that process.
    """

    pipe: int
    process: int


@dataclass(frozen=True)
class Ready:
    """The first answer of a worker.

    Attributes
    ----------
    cores : tuple of int
        Logical CPUs that it is bound to.
    trouble : str or None
        Why it is not bound although it should be.
    """

    cores: tuple[int, ...]
    trouble: str | None


@dataclass(frozen=True)
class Failure:
    """An exception that is sent to the parent.

    Attributes
    ----------
    text : str
        The traceback.
    summary : str
        The exception in a line.
    exception : bytes or None
        Its pickle, if it has one.
    """

    text: str
    summary: str
    exception: bytes | None

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Record what was raised."""
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        summary = "".join(traceback.format_exception_only(type(error), error)).strip()
        try:
            # An exception that would end this process must not end the parent.
            pickled = pickle.dumps(error) if isinstance(error, Exception) else None
        except Exception:
            pickled = None
        return cls(text, summary, pickled)


def serve(sock: socket.socket, order: Order, watched: Watched | None = None) -> None:
    """Work until the parent closes the channel, or ends.

    Parameters
    ----------
    sock : socket.socket
        The connection to the parent.
    order : Order
        All that the worker needs to know.
    watched : Watched, optional
        Descriptors of a forked worker; by default those that a spawned child has of its parent.
    """
    # Ctrl-C goes to every process of a terminal, and the parent decides what it means. It has been
    # blocked since before this process began.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGHUP"):  # the pool's process may handle it without ending
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _end_with_parent(watched)
    try:
        mailboxes = map_segment(order.mailboxes.fd, MAILBOXES)
    finally:
        os.close(order.mailboxes.fd)
    channel = Channel(sock, mailboxes, 1)
    try:
        _answer_all(channel, order)
    except Gone:
        pass
    finally:
        channel.close()


def _answer_all(channel: Channel, order: Order) -> None:
    try:
        config.ask_for_threads(order.threads)
        if order.tolerance is not None:
            config.ask_for_tolerance(order.tolerance)
        ready = _bind(order.cores)
        model = _model(order)
    except BaseException as error:
        _say(channel, Failure.of(error))
        return
    _say(channel, ready)
    while True:
        written, block = _answer(channel, channel.receive(), model)
        if block is not None:
            channel.done_with(block)
        channel.send(written)


def _answer(
    channel: Channel, laid: Laid, model: Callable[..., object]
) -> tuple[Laid, weakref.ref[Bytes] | None]:
    """Answer one request; its arrays in the request's memory end with this function."""
    block = None
    try:
        request: Any
        request, block = channel.view(laid)
        args, kwargs = request
        answer = model(*args, **kwargs)
        try:
            return channel.write(answer), block
        except (MemoryError, RecursionError):
            raise
        except Exception as error:
            kind = type(answer).__name__
            raise TypeError(f"the model's answer, a {kind}, cannot be sent: {error}") from error
    except BaseException as error:
        return channel.write(Failure.of(error)), block


def _say(channel: Channel, obj: object) -> None:
    channel.send(channel.write(obj))


def _model(order: Order) -> Callable[..., object]:
    try:
        block = map_segment(order.segment.fd, order.size, mmap.ACCESS_COPY)
    finally:
        os.close(order.segment.fd)
    sent: Any = unpack(block, order.laid)
    model: Callable[..., object] = make_model(sent) if order.is_factory else sent
    return model


def _bind(cores: tuple[int, ...]) -> Ready:
    if not cores:
        spread()
        return Ready((), None)
    try:
        # Threads that libraries have started already are bound as well.
        for thread in os.listdir("/proc/self/task"):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread), cores)
    except (AttributeError, OSError, ValueError) as error:
        return Ready((), str(error))
    return Ready(cores, None)


def _end_with_parent(watched: Watched | None) -> None:
    """End this process when the parent ends, whatever it is doing then."""
    waited: list[Any]
    if watched is not None:
        waited = list(watched)
        has_ended = bool(select.select([watched.process], [], [], 0)[0])
    else:
        parent = parent_process()
        assert parent is not None
        waited = [parent.sentinel]
        # Other children of the parent may hold the pipe's other end open.
        with suppress(AttributeError, OSError):
            waited.append(os.pidfd_open(parent.pid or 0))
        has_ended = os.getppid() != parent.pid
    threading.Thread(target=_exit_after, args=(waited,), daemon=True).start()
    if has_ended:  # before it could be watched
        os._exit(1)
    # The thread has to wait for the GIL, which a model may keep; the signal does not.
    pipe = waited[0]
    with suppress(AttributeError, OSError):
        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(pipe, fcntl.F_SETFL, os.O_ASYNC | fcntl.fcntl(pipe, fcntl.F_GETFL))


def _exit_after(waited: list[Any]) -> None:
    connection.wait(waited)
    os._exit(1)
