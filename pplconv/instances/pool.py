"""`InstancePool`: several instances of a model behind one queue."""

from __future__ import annotations

import functools
import importlib
import math
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from threading import TIMEOUT_MAX, current_thread
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar

from .._checks import one_of
from . import joined_requests, lifetime
from .claims import divide
from .dispatcher import Closing, Dispatcher, answer
from .pool_arguments import check_factory, integer, number_or_auto, seconds
from .requests import PoolClosed, Request, RequestQueue, cancel
from .statistics import InstanceStatistics
from .worker import Worker
from .worker_placement import Placement

_Result = TypeVar("_Result")


class InstancePool(Generic[_Result]):
    """Several instances of a model that answer requests side by side.

    Parameters
    ----------
    factory : callable
        Makes a model, which is a callable. In thread mode all instances share one model with its
        packed weights, or with `pin` one for each NUMA node: the model must be safe to call
        from several threads, as `Conv2d` is. In process mode it must be picklable.
    instances, threads : int or "auto", optional
        Instances, and the team of each: pplconv calls inside the model use it unless they name
        ``threads=``. Auto fills the share of the process: ``PPLCONV_NUM_THREADS``, else
        ``OMP_NUM_THREADS``, else the physical cores that affinity mask and CPU quota leave; if
        both are left to it, with one instance of one thread each, which gives the highest
        throughput. ``instances=1`` gives the lowest latency of a single request.
    mode : {"thread", "process"}, optional
        Threads of this process: arrays are handed over as they are, and what a model does in
        Python is done by one at a time (the GIL). Or child processes, each with an interpreter
        of its own, which are replaced if they die (see `retries`).
    pin : bool, optional
        Bind each instance to cores of its own, and have it prefer its node's memory; what the
        model starts inherits the binding. By default nothing is bound.
    queue_size : int, optional
        Requests that may wait, beside those that run. A cancelled one keeps its place until an
        instance comes to it. By default 64, or four for each instance if that is more.
    full : {"block", "raise"}, optional
        What `submit` does when the queue is full: wait, or raise `QueueFull`.
    shutdown_timeout : float, optional
        Seconds that `close` takes at most where it is not told otherwise.
    retries : int, optional
        How often a request is run again if its worker process dies before the answer, for whatever
        reason. **By default once**, so a model that changes something outside
        its process (a database, a file) may do so twice; 0 runs no request twice. The future of
        a request that is given up holds `WorkerDied`.
    max_batch : int, optional
        Requests are joined along the first dimension of their arrays, up to so many rows in a call
        of the model, if their only argument is an array or a dict of arrays with as many rows
        each, and the other dimensions agree. Calls have a power of two of rows, where requests
        allow it, so that a model meets few shapes. By default 1: none are joined.
    max_delay : float, optional
        Seconds after its arrival for which a request may wait for others to join. By default 0:
        only those are joined that wait already.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it.
    RuntimeError
        In process mode, if this process is daemonic, as `multiprocessing` has it.
    BaseException
        What the factory raised.

    Warns
    -----
    RuntimeWarning
        If `pin` is asked for and the free cores do not suffice, or the system refuses: the
        instances then run unbound.

    See Also
    --------
    pplconv.runtime.team : tells the model's calls their team.
    pplconv.runtime.tolerance : around the code that makes the pool, it holds for the model's calls.

    Notes
    -----
    A future's callbacks run in the thread of the instance that answered it, which takes no
    request meanwhile; an exception in one is logged, and harms nothing. Neither there nor in the
    model does `submit` wait for room, as it might be waiting for itself: it raises `QueueFull`.

    Pinned pools of one process hold different cores until they are closed; auto fills those that
    are free. Cores to which other processes have bound threads, or which their pools hold, are
    taken last, as far as the system tells of them.

    A pool that is dropped without `close` answers what it has, and then ends. At the end of the
    interpreter, what waits is cancelled, and what runs has `shutdown_timeout`. In a forked child
    the pool is closed: its threads exist in the parent only.

    In process mode on Linux, workers are forked from one process, which has imported the program's
    main module and what the model needs, and has computed nothing; they have the environment of the
    time when the pool was made. Elsewhere, and where the main module starts threads when it is
    imported, each worker imports anew.

    In process mode, a process that waits for its next message may keep a core busy for up to half a
    millisecond before it sleeps. It does so while messages follow one another quickly and running
    requests leave at least one core idle; so a request need not wait for a processor to wake. Idle
    pools use no processor.

    `max_batch` is for models that compute each row by itself. Answers have the bits of the joined
    call, as sums may run in another order for another number of rows. If a joined call raises, or
    what it returns has other rows, each of its requests is run alone.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> w = np.ones((8, 3, 3, 3), np.float32)
    >>> with pplconv.InstancePool(lambda: pplconv.Conv2d(w, padding=1), instances=2) as pool:
    ...     future = pool.submit(np.ones((1, 3, 32, 32), np.float32))
    ...     future.result().shape
    (1, 8, 32, 32)
    """

    def __init__(
        self,
        factory: Callable[[], Callable[..., _Result]],
        instances: int | Literal["auto"] = "auto",
        threads: int | Literal["auto"] = "auto",
        mode: Literal["thread", "process"] = "thread",
        pin: bool = False,
        *,
        queue_size: int | None = None,
        full: Literal["block", "raise"] = "block",
        shutdown_timeout: float = 30.0,
        retries: int = 1,
        max_batch: int = 1,
        max_delay: float = 0.0,
    ) -> None:
        check_factory(factory)
        asked = number_or_auto("instances", instances), number_or_auto("threads", threads)
        self.mode = one_of("mode", mode, ("thread", "process"))
        size = None if queue_size is None else integer("queue_size", queue_size)
        self._patience = math.inf if one_of("full", full, ("block", "raise")) == "block" else 0.0
        self._timeout = seconds("shutdown_timeout", shutdown_timeout)
        retries = integer("retries", retries, least=0)
        joining = joined_requests.Batching(
            integer("max_batch", max_batch), seconds("max_delay", max_delay)
        )
        check = joined_requests.check_model if joining.most > 1 else None
        self._closing = Closing(self._timeout)
        self._forked = False
        divided, hold = divide(*asked, bool(pin))
        self.threads = divided.threads
        count = len(divided.placements)
        self._queue = RequestQueue(max(64, 4 * count) if size is None else size)
        try:
            make_worker = _maker(mode)(factory, divided.placements, divided.threads, check)
        except BaseException:
            for placement in divided.placements:
                hold.release(placement.cores)
            raise
        self._dispatchers = tuple(
            Dispatcher(
                index, self._queue, make_worker, divided.threads, self._closing, retries,
                joining, functools.partial(hold.release, placement.cores),
            )
            for index, placement in enumerate(divided.placements)
        )  # fmt: skip
        lifetime.watch(self)
        # Their threads hold no reference to the pool, so it can be dropped while they run.
        self._dropped = weakref.finalize(self, self._queue.stop_unlocked, count)
        self._dropped.atexit = False
        try:
            self._start()
        except BaseException:
            # The exception's traceback may keep all of this for long; not its memory and processes.
            getattr(make_worker, "close", lambda: None)()
            raise

    def _start(self) -> None:
        """Let all instances make their workers at the same time, and wait for all of them."""
        started = []
        try:
            for dispatcher in self._dispatchers:
                dispatcher.thread.start()
                started.append(dispatcher.started)
            for future in started:
                future.result()
        except BaseException:
            self._queue.stop(len(self._dispatchers))
            self._join(time.monotonic() + self._timeout)
            for dispatcher in self._dispatchers:
                if dispatcher.thread.ident is None:  # no thread will give its cores back
                    dispatcher.release()
            raise

    def __len__(self) -> int:
        return len(self._dispatchers)

    def __repr__(self) -> str:
        state = ", closed" if self._queue.stopped else ""
        return (
            f"<InstancePool: {len(self)} x {self.threads} threads, mode {self.mode!r}, "
            f"queue of {self._queue.size}{state}>"
        )

    def submit(self, /, *args: Any, **kwargs: Any) -> Future[_Result]:
        """Have an instance call its model with these arguments.

        Returns
        -------
        concurrent.futures.Future
            With the result, or the exception that the model raised. As long as no instance has
            come to it, it can be cancelled.

        Raises
        ------
        QueueFull
            If there is no room, and the pool was made with ``full="raise"``.
        PoolClosed
            If the pool is closed, or becomes so while this waits.
        """
        return self._submit(self._patience, args, kwargs)

    def submit_within(self, timeout: float, /, *args: Any, **kwargs: Any) -> Future[_Result]:
        """Submit, but wait at most `timeout` seconds for room, whatever the pool's rule is.

        Parameters
        ----------
        timeout : float
            Seconds; 0 not to wait, infinity to wait for as long as it takes.
        *args, **kwargs
            What to call the model with.

        Raises
        ------
        QueueFull
            If there was no room in time.
        PoolClosed
            See `submit`.
        """
        return self._submit(seconds("timeout", timeout), args, kwargs)

    def _submit(
        self, timeout: float, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Future[_Result]:
        if self._forked:
            raise PoolClosed("this pool belongs to the process that made it, not to a forked child")
        request = Request(args, kwargs)
        self._queue.put(request, timeout)
        return request.future

    def map(self, /, *iterables: Iterable[Any], timeout: float | None = None) -> Iterator[_Result]:
        """Call the model with the items of the iterables, one of each, as Python's `map` does.

        Waits for room in the queue, whatever the pool's rule is.

        Parameters
        ----------
        *iterables : iterable
            Read as far ahead as instances and queue can use, no further: they may be endless.
        timeout : float, optional
            Seconds from now after which waiting for a result raises.

        Returns
        -------
        iterator
            Results in the order of the items. It raises what the model raised for one. What is
            not yet answered when it ends early is cancelled.

        Raises
        ------
        PoolClosed
            See `submit`.
        concurrent.futures.TimeoutError
            From the iterator, when the time is over.
        """
        if not iterables:
            raise TypeError("map needs at least one iterable")
        deadline = math.inf
        if timeout is not None:
            deadline = time.monotonic() + seconds("timeout", timeout)
        items = zip(*iterables, strict=False)
        pending: deque[Future[_Result]] = deque()
        self._feed(items, pending)
        return self._results(items, pending, deadline)

    def _feed(self, items: Iterator[Any], pending: deque[Future[_Result]]) -> None:
        """Submit until enough of them wait to keep every instance busy."""
        while len(pending) < len(self) + self._queue.size:
            item = next(items, None)
            if item is None:
                return
            pending.append(self._submit(math.inf, item, {}))

    def _results(
        self, items: Iterator[Any], pending: deque[Future[_Result]], deadline: float
    ) -> Iterator[_Result]:
        try:
            while pending:
                left = max(0.0, deadline - time.monotonic())
                result = pending[0].result(None if math.isinf(left) else left)
                pending.popleft()
                self._feed(items, pending)  # before the reader gets to work
                yield result
        finally:
            for future in pending:
                future.cancel()

    def statistics(self) -> tuple[InstanceStatistics, ...]:
        """What each instance has done so far."""
        return tuple(dispatcher.statistics() for dispatcher in self._dispatchers)

    def close(self, timeout: float | None = None, *, cancel_pending: bool = False) -> None:
        """Take no more requests, answer what waits, and end all threads and processes.

        A closed pool can be closed again.

        Parameters
        ----------
        timeout : float, optional
            Seconds after which to return whatever goes on; the pool's `shutdown_timeout` by
            default. The future of what then runs or waits holds `PoolClosed`. A model that runs
            in a thread cannot be stopped: it goes on, but nothing waits for it, not even the
            end of the interpreter.
        cancel_pending : bool, optional
            Cancel what waits rather than answer it.

        Warns
        -----
        RuntimeWarning
            If the time was over.
        """
        if self._forked:
            return
        limit = self._timeout if timeout is None else seconds("timeout", timeout)
        deadline = time.monotonic() + limit
        self._closing.begin(deadline)
        self._queue.stop(len(self))
        if cancel_pending:
            for request in self._queue.drain():
                cancel(request.future)
        if self._join(deadline):
            return
        self._closing.abandoned = True
        error = f"the pool was closed, and its time limit of {limit:g} s was over"
        waiting = self._queue.drain()
        for request in waiting:
            answer(request.future, error=PoolClosed(f"{error} before an instance came to this"))
        running = sum(
            dispatcher.abandon(PoolClosed(f"{error} while this ran"))
            for dispatcher in self._dispatchers
        )
        warnings.warn(
            f"{error}: {running} running and {len(waiting)} waiting requests were given up",
            RuntimeWarning,
            stacklevel=2,
        )

    def _join(self, deadline: float) -> bool:
        """Wait for the threads; whether all have ended, but for the calling one."""
        here = current_thread()
        threads = [d.thread for d in self._dispatchers if d.thread is not here]
        for thread in threads:
            if thread.ident is not None:  # it was started
                thread.join(min(max(0.0, deadline - time.monotonic()), TIMEOUT_MAX))
        return not any(thread.is_alive() for thread in threads)

    def __enter__(self) -> InstancePool[_Result]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close: what waits is answered, or cancelled if the block was left by an exception."""
        self.close(cancel_pending=kind is not None)

    def _at_exit(self) -> None:
        self.close(cancel_pending=True)

    def _in_child(self) -> None:
        self._forked = True
        self._dropped.detach()


_Maker = Callable[
    [Callable[[], Any], Sequence[Placement], int, Callable[[object], None] | None],
    Callable[[int], Worker],
]


def _maker(mode: str) -> _Maker:
    """The function that makes a mode's workers, imported on demand: each mode imports a lot."""
    name = {"thread": "threaded", "process": "process"}[mode]
    maker: _Maker = getattr(
        importlib.import_module(f".{name}", __package__),
        {"thread": "make_thread_workers", "process": "make_process_workers"}[mode],
    )
    return maker
