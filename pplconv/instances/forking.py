"""A process that has imported all modules that workers need, and forks them (Linux).

A worker that is started anew imports for a second or two: Python, NumPy, ONNX. This process imports
once, computes nothing, and has no threads of Python. Its children begin with the imported modules,
in memory that they share with it. So a worker that died is replaced within a tenth of a second, and
further workers cost little memory.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import pickle
import select
import signal
import socket
import sys
import threading
import warnings
import weakref
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import parent_process
from multiprocessing.context import SpawnProcess
from typing import Any

from ..runtime import spread_children
from . import lifetime
from .child import Handle, Order, Watched, serve

__all__ = ["CAN_FORK", "ForkServer", "Forked", "NotForked"]


def _can_fork() -> bool:
    """Whether this system has descriptors of processes, and lets us use them."""
    names = (hasattr(os, "pidfd_open"), hasattr(signal, "pidfd_send_signal"))
    if sys.platform != "linux" or not all(names) or not hasattr(socket, "send_fds"):
        return False
    try:
        own = os.pidfd_open(os.getpid())
    except OSError:  # an older kernel, or a sandbox
        return False
    try:
        signal.pidfd_send_signal(own, 0)
    except OSError:
        return False
    finally:
        os.close(own)
    return True


CAN_FORK = _can_fork()
"""Whether this system can fork workers."""

_LONGEST_ORDER = 1 << 16
_READY, _UNFIT = b"ready", b"unfit"


class NotForked(Exception):
    """The process cannot fork workers, or has ended."""


class Forked:
    """A worker that is no child of this process, with the needed methods of a `SpawnProcess`.

    Parameters
    ----------
    pid, pidfd : int
        Number and descriptor of the process; this object closes the descriptor.
    lifeline : int
        End of a pipe, which this object closes; the worker ends when all such ends are closed.
    """

    def __init__(self, pid: int, pidfd: int, lifeline: int) -> None:
        self.pid = pid
        self.sentinel = pidfd
        self._close = weakref.finalize(self, _close_all, pidfd, lifeline)
        self._close.atexit = False

    @property
    def exitcode(self) -> int | None:
        """None while it runs; else 1, as only its parent learns the real code."""
        return 1 if self._ended(0) else None

    def kill(self) -> None:
        """End it at once."""
        if not self._close.alive:
            return
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.sentinel, signal.SIGKILL)

    def join(self, timeout: float) -> None:
        """Wait for its end, but no longer than so many seconds."""
        self._ended(timeout)

    def close(self) -> None:
        """Close the descriptors: the worker ends, at some later time."""
        self._close()

    def _ended(self, timeout: float) -> bool:
        if not self._close.alive:
            return True
        waiting = select.poll()
        waiting.register(self.sentinel, select.POLLIN)
        return bool(waiting.poll(1000 * timeout))


def _close_all(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class ForkServer:
    """The forking process, seen from the process that wants workers.

    Parameters
    ----------
    modules : sequence of str
        Modules that it imports.

    Raises
    ------
    NotForked
        If it imported a module that must not be forked.
    ChildProcessError
        If it ended before it was ready; the argument is its exit code.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self._owner = os.getpid()
        self._sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process: SpawnProcess = multiprocessing.get_context("spawn").Process(
            target=_fork_all, args=(theirs, tuple(modules)), name="pplconv-workers", daemon=True
        )
        # Blocked until it is ignored there: Ctrl-C must not end what is still starting.
        masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with spread_children():
                self._process.start()
        except BaseException:
            self._sock.close()
            raise
        finally:
            theirs.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        lifetime.own(self._process)
        said = self._first_word()
        if said != _READY:
            code = self.close()
            if said == _UNFIT:
                raise NotForked("it uses threads that a fork would lose")
            raise ChildProcessError(code)

    def _first_word(self) -> bytes:
        waiting = select.poll()
        waiting.register(self._sock, select.POLLIN)
        waiting.register(self._process.sentinel, select.POLLIN)
        waiting.poll()
        with suppress(OSError):
            return self._sock.recv(len(_READY), socket.MSG_DONTWAIT)
        return b""

    def start(self, sock: socket.socket, order: Order) -> Forked:
        """Start a worker.

        Parameters
        ----------
        sock : socket.socket
            The worker's end of the connection to it.
        order : Order
            All that it needs to know.

        Raises
        ------
        NotForked
            If this process has ended.
        """
        watched, lifeline = os.pipe()
        try:
            fds = [sock.fileno(), watched, order.mailboxes.fd, order.segment.fd]
            socket.send_fds(self._sock, [pickle.dumps(order.without_handles())], fds)
            said, (pidfd,) = self._answer()
        except (OSError, ValueError) as error:
            os.close(lifeline)
            raise NotForked("it has ended") from error
        except BaseException:
            # Interrupted: a late answer would be taken for the answer to the next order.
            os.close(lifeline)
            self.close()
            raise
        finally:
            os.close(watched)
        return Forked(int(said), pidfd, lifeline)

    def _answer(self) -> tuple[bytes, list[int]]:
        waiting = select.poll()
        waiting.register(self._sock, select.POLLIN)
        waiting.register(self._process.sentinel, select.POLLIN)
        waiting.poll()
        said, fds, *_ = socket.recv_fds(self._sock, 64, 1, socket.MSG_DONTWAIT)
        return said, fds

    def close(self) -> int | None:
        """End the process, and give its exit code; the workers that it forked go on."""
        if os.getpid() != self._owner or self._sock.fileno() < 0:
            return None
        self._sock.close()
        self._process.kill()
        self._process.join()
        code: int | None = self._process.exitcode
        with suppress(ValueError):  # a program that ignores SIGCHLD is not told of its end
            self._process.close()
        return code


def _fork_all(sock: socket.socket, modules: Sequence[str]) -> None:
    """Fork a worker for each order; returns at the end, in this process and in each worker."""
    # The process that orders decides how to react to a signal to the whole process group.
    for sent in (signal.SIGINT, signal.SIGHUP):
        signal.signal(sent, signal.SIG_IGN)
    # A program may ignore the ends of its children; here each is waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    parent = parent_process()
    assert parent is not None and parent.pid is not None
    try:
        ended = os.pidfd_open(parent.pid)
    except OSError:
        sock.send(_UNFIT)
        return
    for module in modules:
        # If a module cannot be imported here, the worker imports it or reports the error.
        with suppress(Exception):
            importlib.import_module(module)
    if threading.active_count() > 1 or _foreign_threads():
        sock.send(_UNFIT)
        return
    gc.collect()
    gc.freeze()  # collecting these objects would slow workers down, and write to shared memory
    sock.send(_READY)
    _Forks(sock, ended).serve_all()


def _foreign_threads() -> bool:
    """Whether there are threads besides this one and OpenBLAS's, which stops its own for a fork.

    Other threads, such as those of OpenMP under another library, are missing in the child, where a
    library that counts on them waits for ever.
    """
    from threadpoolctl import threadpool_info

    blas: int = sum(
        pool["num_threads"] - 1
        for pool in threadpool_info()
        if pool["internal_api"] == "openblas" and pool.get("threading_layer") == "pthreads"
    )
    return len(os.listdir("/proc/self/task")) > 1 + blas


class _Forks:
    """The loop of the process that forks.

    Parameters
    ----------
    sock : socket.socket
        Socket that brings orders.
    parent : int
        Descriptor that is readable when the process that orders has ended.
    """

    def __init__(self, sock: socket.socket, parent: int) -> None:
        self._sock = sock
        self._parent = parent
        self._children: dict[int, int] = {}  # processes by their descriptors

    def serve_all(self) -> None:
        """Fork until the other end is closed; in a worker, do its work."""
        waiting = select.poll()
        for descriptor in (self._sock.fileno(), self._parent):
            waiting.register(descriptor, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in waiting.poll()}
            for pidfd in ready & set(self._children):
                waiting.unregister(pidfd)
                os.waitpid(self._children.pop(pidfd), 0)
                os.close(pidfd)
            if self._parent in ready:
                return
            if self._sock.fileno() not in ready:
                continue
            told, fds, *_ = socket.recv_fds(self._sock, _LONGEST_ORDER, 4)
            if not told:
                return
            with warnings.catch_warnings():
                # Threads of libraries: those that Python has loaded here take forks.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
            if pid == 0:
                self._work(told, fds)
                return
            for fd in fds:
                os.close(fd)
            pidfd = os.pidfd_open(pid)
            self._children[pidfd] = pid
            waiting.register(pidfd, select.POLLIN)
            with suppress(OSError):  # nobody is there; the loop ends
                socket.send_fds(self._sock, [str(pid).encode()], [pidfd])

    def _work(self, told: bytes, fds: list[int]) -> None:
        """Be a worker."""
        self._sock.close()
        _close_all(*self._children)
        random: Any = sys.modules.get("numpy.random")
        if random is not None:
            random.seed()  # else all workers would draw the same numbers
        sock, watched, mailboxes, segment = fds
        order = pickle.loads(told).with_handles(Handle(mailboxes), Handle(segment))
        serve(socket.socket(fileno=sock), order, Watched(watched, self._parent))
