"""The thread of an instance: takes requests, has its worker run them, answers them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any

from .requests import Request, RequestQueue
from .statistics import InstanceStatistics, Record
from .worker import Worker, WorkerDied

# The logger that concurrent.futures uses for callbacks that raise.
_LOGGER = logging.getLogger("concurrent.futures")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
"""Seconds for which an instance without a worker leaves requests to other instances."""


class Dispatcher:
    """One instance of a pool.

    Parameters
    ----------
    index : int
        Of the instance.
    queue : RequestQueue
        Where its requests come from, shared by all.
    make_worker : callable
        Makes the worker of an index.
    threads : int
        Size of the team, for the statistics.
    closing : Closing
        What the dispatchers know of the pool's end.
    retries : int
        How often a request is run again if its worker dies before the answer.
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
        release: Callable[[], None],
    ) -> None:
        self.release = release
        self.started: Future[None] = Future()
        self.current: Request | None = None
        self._index = index
        self._queue = queue
        self._make_worker = make_worker
        self._threads = threads
        self._closing = closing
        self._retries = retries
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

    def abandon(self, error: BaseException) -> bool:
        """Answer the running request with `error`, and give its worker up; False if none runs."""
        request, worker = self.current, self._worker
        if request is None or not self.thread.is_alive():
            return False
        answer(request.future, error=error)
        if worker is not None:
            worker.abandon()
        return True

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
            self._serve(request)
            del request  # idle instances keep no arrays alive
            if self._worker is not None:
                pause = _FIRST_PAUSE
            elif not self._closing.event.is_set() and not self._replaced():
                # Requests would fail here, but might succeed in other instances.
                self._closing.event.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _serve(self, request: Request) -> None:
        future = request.future
        try:
            if not future.set_running_or_notify_cancel():
                return
        except InvalidStateError:  # set by somebody else
            return
        self.current = request
        result, failure = None, None
        try:
            result = self._run(request.args, request.kwargs)
        except BaseException as error:  # the model's: an instance outlives even SystemExit
            failure = error
        self._record.add(time.perf_counter() - request.submitted, failed=failure is not None)
        self.current = None
        answer(future, result, failure)
        # A failure's traceback holds this frame, which must not hold the failure in turn.
        del request, future, failure

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Have a request run, and again if the worker dies, as often as the pool allows."""
        again = self._retries
        if self._worker is not None and self._worker.ended and not self._closing.abandoned:
            self._drop(1.0)  # that worker has not seen this request, so no request runs twice
        while True:
            if self._worker is None:
                self._replace()
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

    def _replace(self) -> None:
        try:
            self._worker = self._make()
        except Exception as error:
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
    """What a pool's dispatchers know of its end.

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
