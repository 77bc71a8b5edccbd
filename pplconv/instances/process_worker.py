"""A worker process, seen from the parent."""

from __future__ import annotations

import os
import select
import socket
import threading
from contextlib import suppress
from multiprocessing.context import SpawnProcess

from .child import Failure
from .forking import Forked
from .pool_errors import raised
from .shared import Bytes
from .spare import SpareCores
from .transport import Channel, Gone
from .worker import Worker, WorkerDied

__all__ = ["ProcessWorker"]

# Seconds for the system to end a process that was killed.
_KILL_SECONDS = 10.0
# The longest time that poll is sure to accept.
_A_WEEK = 604800.0


class ProcessWorker(Worker):
    """Sends requests to a process, and waits for the answers.

    `close` and `abandon` may be called by another thread while `run` waits, which then raises
    `WorkerDied`.

    Parameters
    ----------
    process : SpawnProcess or Forked
        The started process.
    sock : socket.socket
        The connection to the process.
    mailboxes : ndarray
        Memory shared with the process; see `Channel`.
    spare : SpareCores
        Shared with other workers of the machine.
    node : int or None
        NUMA node on which it runs.
    """

    def __init__(
        self,
        process: SpawnProcess | Forked,
        sock: socket.socket,
        mailboxes: Bytes,
        spare: SpareCores,
        node: int | None,
    ) -> None:
        self._owner = os.getpid()
        self._process = process
        self._spare = spare
        self._node = node
        self._cores: tuple[int, ...] = ()
        self._dead = False
        self._running = threading.Lock()
        self._ended: int | None = None
        # It becomes readable when the process ends. Its pipes may stay open longer, in processes
        # that it has started.
        with suppress(AttributeError, OSError):
            self._ended = (
                os.dup(process.sentinel) if isinstance(process, Forked)
                else os.pidfd_open(process.pid or 0)
            )  # fmt: skip
        ended = process.sentinel if self._ended is None else self._ended
        self._channel = Channel(sock, mailboxes, 0, ended)

    @property
    def node(self) -> int | None:
        """The NUMA node it runs on, None if that is not known."""
        return self._node

    @property
    def cores(self) -> tuple[int, ...]:
        """The logical CPUs it is bound to, empty if it is not bound."""
        return self._cores

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self._dead or self._ends_within(0.0)

    @property
    def pid(self) -> int | None:
        """Number of the process."""
        return self._process.pid

    def bound_to(self, cores: tuple[int, ...]) -> None:
        """Note the CPUs that the process says it is bound to."""
        self._cores = cores

    def run(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Call the model in the process, and wait for its result.

        Parameters
        ----------
        args, kwargs : tuple, dict
            Submitted arguments; arrays reach the model unchanged, in memory that it may write to
            and keep.

        Returns
        -------
        object
            The result. Its arrays own their memory and, except small ones, begin on a cache line.

        Raises
        ------
        WorkerDied
            If the process ends before it has answered, or had ended.
        Exception
            The model's exception, with a `RemoteTraceback` as its cause, or a RuntimeError that
            describes it if it cannot be pickled; or an exception of pickling the request or the
            answer. The process goes on.
        """
        if os.getpid() != self._owner:
            raise RuntimeError("this worker belongs to the process that this one was forked from")
        with self._running:
            if self._dead:
                raise WorkerDied("the worker process has ended")
            self._channel.watches = self._spare.begin()
            try:
                answer = self._ask(args, kwargs)
            finally:
                self._spare.end()
        if isinstance(answer, Failure):
            raise raised(answer)
        return answer

    def _ask(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        written = self._channel.write((args, kwargs))
        try:
            self._channel.send(written)
            laid = self._channel.receive()
        except Gone as gone:
            self._dead = True
            raise WorkerDied(f"the worker process {self.pid} has ended: {gone}") from None
        except BaseException:
            # Interrupted: the answer may still come, and would be taken for the next request's.
            self.abandon()
            raise
        return self._channel.copy(laid)

    def first_answer(self) -> object:
        """Wait for the first message of the process, before any request."""
        with self._running:
            try:
                return self._channel.copy(self._channel.receive())
            except Gone as gone:
                self._dead = True
                raise WorkerDied(str(gone)) from None

    def abandon(self) -> None:
        """Kill the process; `run` raises `WorkerDied`."""
        self._dead = True
        if os.getpid() == self._owner:
            with suppress(ValueError, OSError):  # closed already
                self._process.kill()

    def close(self, timeout: float) -> None:
        """Let the process end if it is done within `timeout` seconds, else kill it.

        Parameters
        ----------
        timeout : float
            Seconds that the running request may take; 0: it is not waited for.
        """
        if os.getpid() != self._owner:
            return
        self._channel.finish()
        if self._dead or not self._ends_within(timeout):
            self.abandon()
        with suppress(ValueError):  # closed already
            self._process.join(_KILL_SECONDS)
        with self._running:
            self._dead = True
            self._channel.close()
            if self._ended is not None:
                os.close(self._ended)
                self._ended = None

    def _ends_within(self, timeout: float) -> bool:
        if self._ended is None:
            self._process.join(min(max(0.0, timeout), _A_WEEK))
            return self._process.exitcode is not None
        waiting = select.poll()
        waiting.register(self._ended, select.POLLIN)
        return bool(waiting.poll(1000 * min(max(0.0, timeout), _A_WEEK)))
