"""Instances as processes: the model's weights in memory that they share, requests through memory.

``factory()`` is called once, here.  The model is pickled with its arrays left out of band; these
lie in a segment of shared memory, one for each NUMA node, and every worker's model is unpickled on
top of it.  A `Conv2d` brings its plans and packed weights along, for every input shape that it was
prepared for (``input_shape=``, or a call): workers neither plan nor pack those again. If a worker
writes to an array of its model, only that worker sees it.

On Linux one process, started by spawn, imports the modules that the model needs, and workers are
forked from it (`forking`). Elsewhere, and if it has imported a module that must not be forked, each
worker is started by spawn.

A model that cannot be pickled is made in each worker, by ``factory`` itself, and shares nothing.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.context import SpawnProcess

from .. import config
from ..machine import current as current_machine
from ..runtime import process_threads, scoped_tolerance, spread_children
from . import lifetime
from .child import Failure, Handle, Order, Ready, serve
from .forking import CAN_FORK, Forked, ForkServer, NotForked
from .pool_arguments import make_model
from .pool_errors import raised
from .process_worker import ProcessWorker
from .shared import Parcel, create, map_segment, seal
from .spare import SpareCores
from .splitting import usable_cores
from .transport import MAILBOXES
from .worker import WorkerDied
from .worker_placement import Placement

__all__ = ["ProcessWorkers", "make_process_workers"]

_KILL_SECONDS = 10.0


def make_process_workers(
    factory: Callable[[], Callable[..., object]],
    placements: Sequence[Placement],
    threads: int,
    check: Callable[[object], None] | None = None,
) -> ProcessWorkers:
    """Prepare instances that run in processes of their own.

    Parameters
    ----------
    factory : callable
        Makes the model, a callable; called here, once. If the model cannot be pickled, the factory
        is called again in each worker, and must then be picklable itself: a function at the top
        level of a module.
    placements : sequence of Placement
        Placement of each worker: bound to the cores that it names, with weights on their node.
    threads : int
        Team size of each worker.
    check : callable, optional
        Raises if the model is unsuitable.

    Returns
    -------
    ProcessWorkers
        Makes a worker by its index.

    Raises
    ------
    TypeError
        If `factory` makes no callable, or neither it nor its model can be pickled.
    MemoryError
        If there is no memory to share the model in.
    RuntimeError
        If this process is daemonic.
    """
    return ProcessWorkers(factory, placements, threads, check)


class ProcessWorkers:
    """Makes workers; called with the index of a placement, again when a worker has died.

    Parameters
    ----------
    factory, placements, threads, check
        See `make_process_workers`.
    """

    def __init__(
        self,
        factory: Callable[[], Callable[..., object]],
        placements: Sequence[Placement],
        threads: int,
        check: Callable[[object], None] | None = None,
    ) -> None:
        _check_children()
        self._factory = factory
        self._placements = list(placements)
        self._threads = threads
        self._warned = False
        machine = current_machine()
        share = process_threads(config.current(), machine)
        self._spare = SpareCores(min(share, usable_cores(machine)), threads)
        # Workers do not run inside a tolerance that is set around the code that makes the pool.
        self._tolerance = scoped_tolerance()
        parcel, self._is_factory = _take_apart(factory, threads, check)
        self._laid = parcel.laid
        self._size = parcel.size
        self._held = _Held(parcel.modules("pplconv"))
        self._finalizer = weakref.finalize(self, self._held.release)
        try:
            for placement in self._placements:
                if placement.node not in self._held.segments:
                    self._held.segments[placement.node] = _segment_near(parcel, placement.cores)
        except BaseException:
            self.close()
            raise

    @property
    def shares(self) -> bool:
        """Whether the workers share one model's memory; if not, each has called ``factory``."""
        return not self._is_factory

    def __call__(self, index: int) -> ProcessWorker:
        """Start a worker, and wait until it has its model.

        Parameters
        ----------
        index : int
            Of the placement.

        Raises
        ------
        RuntimeError
            If the worker cannot be made ready; the message says why.
        """
        placement = self._placements[index]
        worker, process = self._start(placement)
        try:
            ready = worker.first_answer()
            if isinstance(ready, Failure):
                verb = "call" if self._is_factory else "take over the model of"
                raise RuntimeError(
                    f"a worker process cannot {verb} factory {self._factory!r}; what it takes must "
                    f"be importable there: {ready.summary}"
                ) from raised(ready)
        except BaseException as error:
            worker.close(0)
            if isinstance(error, WorkerDied):
                if isinstance(process, Forked):  # its program had been imported
                    what = "calling" if self._is_factory else "taking over the model of"
                    raise RuntimeError(
                        f"a worker process ended while {what} factory {self._factory!r}"
                    ) from None
                raise RuntimeError(self._why_it_ended(process.exitcode)) from None
            raise
        assert isinstance(ready, Ready)
        worker.bound_to(ready.cores)
        if ready.trouble is not None and not self._warned:
            self._warned = True
            warnings.warn(
                f"workers cannot be bound to their cores ({ready.trouble}); they run unbound",
                RuntimeWarning,
                stacklevel=2,
            )
        return worker

    def _why_it_ended(self, code: object) -> str:
        return (
            f"a worker process ended before it was ready (exit code {code}). It "
            f"imports the program's main module, where factory {self._factory!r} may be: a script "
            'must make its workers behind `if __name__ == "__main__":`, not when it is imported'
        )

    def _start(self, placement: Placement) -> tuple[ProcessWorker, SpawnProcess | Forked]:
        if not self._finalizer.alive:
            raise RuntimeError("the workers are closed")
        fd = create("pplconv-mailboxes", MAILBOXES)
        try:
            return self._start_with(fd, placement)
        finally:
            os.close(fd)

    def _start_with(
        self, mailboxes: int, placement: Placement
    ) -> tuple[ProcessWorker, SpawnProcess | Forked]:
        memory = map_segment(mailboxes, MAILBOXES)
        order = Order(
            Handle(mailboxes), Handle(self._held.segments[placement.node]), self._size, self._laid,
            self._is_factory, self._threads, placement.cores, self._tolerance,
        )  # fmt: skip
        ours, theirs = socket.socketpair()
        try:
            process = self._held.start(theirs, order)
        except BaseException as error:
            ours.close()
            if isinstance(error, ChildProcessError):
                raise RuntimeError(self._why_it_ended(error.args[0])) from None
            raise
        finally:
            theirs.close()
        return ProcessWorker(process, ours, memory, self._spare, placement.node), process

    def close(self) -> None:
        """Kill the workers that are left, and free the shared memory; nothing if done before."""
        self._finalizer()


class _Held:
    """Processes and memory that must be freed at the end in any case.

    Parameters
    ----------
    modules : sequence of str
        Modules that workers import.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self.segments: dict[int | None, int] = {}
        self._modules = modules
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._forks = CAN_FORK
        self._server: ForkServer | None = None
        self._processes: list[SpawnProcess | Forked] = []

    def start(self, sock: socket.socket, order: Order) -> SpawnProcess | Forked:
        """Start a worker, which is killed at the end if it still runs."""
        with self._lock:
            process = self._forked(sock, order) or _spawned(sock, order)
            self._processes = [other for other in self._processes if other.exitcode is None]
            self._processes.append(process)
        return process

    def _forked(self, sock: socket.socket, order: Order) -> Forked | None:
        """Fork a worker; None if this system or the model does not allow it."""
        while self._forks:
            fresh = self._server is None
            try:
                self._server = self._server or ForkServer(self._modules)
                return self._server.start(sock, order)
            except NotForked:
                # A server that was killed is replaced; one that cannot fork now never can.
                server, self._server = self._server, None
                if server is not None:
                    server.close()
                self._forks = not fresh
        return None

    def release(self) -> None:
        """Kill the processes that are left, and free the memory; nothing in a forked child."""
        if os.getpid() != self._owner:
            return
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join(_KILL_SECONDS)
            with suppress(ValueError):  # it lives on
                process.close()
        if self._server is not None:
            self._server.close()
        while self.segments:
            os.close(self.segments.popitem()[1])


def _check_children() -> None:
    """Refuse now if `multiprocessing` would refuse each process later, by an assertion."""
    if multiprocessing.current_process().daemon:
        raise RuntimeError(
            "mode='process' needs child processes, which multiprocessing refuses to a daemonic "
            "process such as this one (workers of multiprocessing.Pool are daemonic, and those of "
            "an InstancePool): make it with daemon=False, or use mode='thread'"
        )


def _spawned(sock: socket.socket, order: Order) -> SpawnProcess:
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(sock, order), name="pplconv-instance", daemon=True
    )
    # Blocked until the worker ignores it: Ctrl-C must not end a worker that is still starting.
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with spread_children():
            process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
    lifetime.own(process)
    return process


def _take_apart(
    factory: Callable[[], object], threads: int, check: Callable[[object], None] | None
) -> tuple[Parcel, bool]:
    """Pickle the model or, if that fails, the factory; return whether it was the factory."""
    model = make_model(factory, check)
    try:
        return Parcel(model, threads=threads), False
    except MemoryError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    try:
        return Parcel(factory), True
    except Exception as error:
        raise TypeError(
            f"factory {factory!r} is of no use to another process: what it makes cannot be "
            f"pickled ({reason}), and then it must be pickled itself, as a function at the top "
            f"level of a module can ({error})"
        ) from error


def _segment_near(parcel: Parcel, cores: tuple[int, ...]) -> int:
    """Write a segment from one of the cores: memory lies where it is touched first."""
    fd = -1
    trouble: list[BaseException] = []

    def write() -> None:
        nonlocal fd
        with suppress(AttributeError, OSError, ValueError):
            if cores:
                os.sched_setaffinity(0, cores)  # of this thread alone
        try:
            fd = create("pplconv-model", parcel.size)
            parcel.write(map_segment(fd, parcel.size))
            seal(fd)
        except BaseException as error:
            trouble.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    if trouble:
        if fd >= 0:
            os.close(fd)
        raise trouble[0]
    return fd
