"""The thread of an instance: takes requests, has its worker run them, answers them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any

from .joined_requests import Batching, gather, join, split
from .requests import Request, RequestQueue
from .statistics import InstanceStatistics, Record
from .worker import Worker, WorkerDied

# The logger that concurrent.futures uses for callbacks that raise.
_LOGGER = logging.getLogger("concurrent.futures")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
"""Seconds, at first and at most, for which an instance without a worker takes no requests."""

_ATTEMPTS = 3
"""How often a worker is made for a request that no other instance has."""


class Dispatcher:
    """One instance of a pool.

    Parameters
    ----------
    index : int
        Index of the instance.
    queue : RequestQueue
        Queue of requests, shared by all instances.
    make_worker : callable
        Makes the worker of an index.
    threads : int
        Size of the team, for the statistics.
    closing : Closing
        State of the pool's end, shared by the dispatchers.
    retries : int
        How often a request is run again if its worker dies before the answer.
    batching : Batching
        How requests are joined.
    release : callable
        Gives back the cores of the instance; called when its thread has ended.
    """

    def __init__(
        self,
        index: int,
        queue: RequestQueue,
        make_worker: Callable[[int], Worker],
        threads: int,
        closing: Closing,
        retries: int,
        batching: Batching,
        release: Callable[[], None],
    ) -> None:
        self.release = release
        self.started: Future[None] = Future()
        # Taken from the queue and not yet answered.
        self.current: list[Request] = []
        self._index = index
        self._queue = queue
        self._make_worker = make_worker
        self._threads = threads
        self._closing = closing
        self._retries = retries
        self._batching = batching
        self._record = Record()
        self._worker: Worker | None = None
        self._node: int | None = None
        self._cores: tuple[int, ...] = ()
        # A daemon: the interpreter waits for no model that does not end.
        self.thread = threading.Thread(
            target=self._main, name=f"pplconv-instance-{index}", daemon=True
        )

    def statistics(self) -> InstanceStatistics:
        """What this instance has done so far."""
        record = self._record
        p50, p95 = record.percentiles()
        return InstanceStatistics(
            self._index, record.served, record.errors, record.replaced, record.retried, p50, p95,
            self._node, self._cores, self._threads,
        )  # fmt: skip

    def abandon(self, error: BaseException) -> int:
        """Answer the running requests with `error`, give their worker up, and count them."""
        requests, worker = self.current, self._worker
        if not requests or not self.thread.is_alive():
            return 0
        for request in requests:
            answer(request.future, error=error)
        if worker is not None:
            worker.abandon()
        return len(requests)

    def _main(self) -> None:
        self._queue.takers.add(threading.get_ident())
        try:
            try:
                self._worker = self._make()
            except BaseException as error:
                self.started.set_exception(error)
                return
            self.started.set_result(None)
            self._serve_all()
        finally:
            self._drop(self._closing.seconds_left())
            del self._make_worker  # with the last of them go models and shared memory
            self._queue.takers.discard(threading.get_ident())
            self.release()

    def _serve_all(self) -> None:
        pause = _FIRST_PAUSE
        while (request := self._queue.take()) is not None:
            self._serve(gather(self._queue, request, self._batching))
            del request  # idle instances keep no arrays alive
            if self._worker is not None:
                pause = _FIRST_PAUSE
            elif not self._closing.event.is_set() and not self._replaced():
                # Requests would fail here, but might succeed in other instances.
                self._closing.event.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _serve(self, requests: list[Request]) -> None:
        """Answer the requests of one call."""
        self.current = [request for request in requests if _begun(request.future)]
        requests.clear()
        call = self.current.copy()
        if len(call) > 1 and self._serve_joined(call):
            return
        while call and not self._closing.abandoned:  # else they are answered
            self._serve_alone(call.pop(0))
        self.current = []

    def _serve_joined(self, requests: list[Request]) -> bool:
        """Answer requests by one call; False if they must be run one by one."""
        failure = None
        results: list[Any] | None = None
        try:
            results = split(self._run((join(requests),), {}), requests)
        except WorkerDied as death:
            failure = death
        except BaseException:  # it is not known which request caused it
            return False
        if failure is None and results is None:
            return False
        for index in range(len(requests)):
            self._answer(requests[index], None if results is None else results[index], failure)
        # A failure's traceback holds this frame, which must not hold the failure in turn.
        requests.clear()
        del failure
        return True

    def _serve_alone(self, request: Request) -> None:
        result, failure = None, None
        try:
            result = self._run(request.args, request.kwargs)
        except BaseException as error:  # the model's: an instance outlives even SystemExit
            failure = error
        self._answer(request, result, failure)
        del request, failure  # as above

    def _answer(self, request: Request, result: Any, failure: BaseException | None) -> None:
        self._record.add(time.perf_counter() - request.submitted, failed=failure is not None)
        self.current = [other for other in self.current if other is not request]
        answer(request.future, result, failure)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Have a request run, and again if the worker dies, as often as the pool allows."""
        again = self._retries
        if self._worker is not None and self._worker.ended and not self._closing.abandoned:
            self._drop(1.0)  # that worker has not seen this request, so no request runs twice
        while True:
            if self._worker is None:
                self._replace(_ATTEMPTS)
            assert self._worker is not None
            try:
                return self._worker.run(args, kwargs)
            except WorkerDied as death:
                self._drop(1.0)
                if self._closing.abandoned:
                    raise
                if not again:
                    raise WorkerDied(self._given_up()) from death
                again -= 1
                self._record.retried += 1

    def _given_up(self) -> str:
        """Message for a request that is not run again."""
        if self._retries == 0:
            then = "which is not run again (retries=0)"
        elif self._retries == 1:
            then = "and so did the one that ran it again"
        else:
            then = f"and so did each of the {self._retries} that ran it again"
        return f"instance {self._index}: the worker died while it ran this request, {then}"

    def _make(self) -> Worker:
        worker = self._make_worker(self._index)
        self._node, self._cores = worker.node, worker.cores
        return worker

    def _replace(self, attempts: int = 1) -> None:
        """Make another worker; it may be killed too before it is ready."""
        while self._worker is None:
            try:
                self._worker = self._make()
            except Exception as error:
                attempts -= 1
                if not attempts or self._closing.event.wait(_FIRST_PAUSE):
                    raise WorkerDied(
                        f"instance {self._index}: the worker died, and there is no other: {error}"
                    ) from error
        self._record.replaced += 1

    def _replaced(self) -> bool:
        try:
            self._replace()
        except WorkerDied as error:
            _LOGGER.error("%s", error)
            return False
        return True

    def _drop(self, timeout: float) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        try:
            worker.close(timeout)
        except Exception:
            _LOGGER.exception("instance %d: its worker could not be closed", self._index)


class Closing:
    """State of a pool's end, shared by its dispatchers.

    Parameters
    ----------
    timeout : float
        Seconds that workers have to close where nobody sets a deadline.
    """

    def __init__(self, timeout: float) -> None:
        self.event = threading.Event()
        self.abandoned = False
        self._timeout = timeout
        self._deadline: float | None = None

    def begin(self, deadline: float) -> None:
        """Say when the pool is to be closed, in seconds of `time.monotonic`."""
        self._deadline = deadline
        self.event.set()

    def seconds_left(self) -> float:
        """Seconds that are left to close, not below 0."""
        if self._deadline is None:
            return self._timeout
        return max(0.0, self._deadline - time.monotonic())


def _begun(future: Future[Any]) -> bool:
    """Begin with a request; False if its future was cancelled, or set by other code."""
    try:
        return future.set_running_or_notify_cancel()
    except InvalidStateError:
        return False


def answer(future: Future[Any], result: Any = None, error: BaseException | None = None) -> None:
    """Set a future; it may be answered already, and its callbacks may raise anything."""
    try:
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
    except InvalidStateError:
        pass  # given up when the pool was closed: the first answer stays
    except BaseException:
        # The future itself only catches an Exception of its callbacks.
        _LOGGER.critical("exception calling callback for %r", future, exc_info=True)
