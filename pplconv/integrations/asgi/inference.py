"""Requests for inference: who is let in, what is computed for them, and the answers."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from pplconv import PoolClosed, QueueFull

from .. import npy
from .abandoned_threads import in_thread
from .answers import Answer, error
from .bodies import discard, read_body
from .budget import Budget, Lease
from .http_errors import Refused
from .messages import Wanted, read, read_npy, write
from .metrics import Metrics
from .serving import Serving

__all__ = ["Inference", "Options"]

_LOGGER = logging.getLogger("pplconv.serve")
_HEADER_LENGTH = "inference-header-content-length"
# Reading or writing a smaller message takes less time than waking a thread for it.
_IN_PLACE = 32 << 10
_RETRY_AFTER = 1


class Options(NamedTuple):
    """Checked arguments of `app`."""

    name: str
    version: str
    max_body: int
    max_json: int
    max_json_answer: int
    max_held: int
    body_timeout: float
    answer_timeout: float
    queue_size: int
    max_making: int
    shapes_only: bool
    shapes: Sequence[Mapping[str, Sequence[int]]]
    pool: dict[str, Any]


class Inference:
    """Answers requests by the model that serves.

    A client that sends or reads slowly takes no place from others: a request takes a place from the
    end of its body until its outputs are there. Its bytes count as long as they are held.

    Parameters
    ----------
    options : Options
        See `app`.
    metrics : Metrics
        Counts the answers.
    """

    def __init__(self, options: Options, metrics: Metrics) -> None:
        self._options = options
        self._metrics = metrics
        self._budget = Budget(options.max_held)
        self._placed = 0
        # One thread: two would take turns at the GIL, and the event loop would wait for both.
        self._codec = ThreadPoolExecutor(1, thread_name_prefix="pplconv-serve")

    def close(self) -> None:
        """End the thread that reads and writes large messages."""
        self._codec.shutdown(wait=False)

    async def answer(
        self, request: Request, serving: Serving | None, refusal: Response | None
    ) -> Response:
        """Answer a request.

        Parameters
        ----------
        request : Request
            A request whose body was not read yet.
        serving : Serving or None
            The model; None while the server stops.
        refusal : Response or None
            The answer, if it is known already.
        """
        begin = time.perf_counter()
        received = 0

        def note(size: int) -> None:
            nonlocal received
            received = size

        try:
            response = refusal or await self._admitted(request, serving, note)
        except Refused as refused:
            response = error(refused.status, str(refused), refused.retry_after)
        except ClientDisconnect:
            response = error(499, "the client has gone")
        except Exception:
            _LOGGER.exception("a request for inference failed")
            response = error(500, "the server failed; its log says why")
        if response.status_code in (404, 413, 415, 503) and "expect" not in request.headers:
            await discard(request, self._options.max_body, self._options.body_timeout)
        sent = response.size if isinstance(response, Answer) else len(response.body)
        self._metrics.add(response.status_code, time.perf_counter() - begin, received, sent)
        return response

    async def _admitted(
        self, request: Request, serving: Serving | None, note: Callable[[int], None]
    ) -> Response:
        if serving is None:
            raise Refused(503, "the server is stopping: try again", _RETRY_AFTER)
        self._check_room(serving)
        lease = Lease(self._budget)
        self._metrics.in_flight += 1
        try:
            with serving.wanted():
                return await self._infer(request, serving, lease, note)
        except BaseException:
            lease.close()
            raise
        finally:
            self._metrics.in_flight -= 1

    def _check_room(self, serving: Serving) -> None:
        if self._placed >= serving.places:
            raise Refused(503, "all places are taken: try again", _RETRY_AFTER)

    @contextmanager
    def _place(self, serving: Serving) -> Iterator[None]:
        """Take a place, if there still is one."""
        self._check_room(serving)
        self._placed += 1
        try:
            yield
        finally:
            self._placed -= 1

    async def _infer(
        self, request: Request, serving: Serving, lease: Lease, note: Callable[[int], None]
    ) -> Response:
        options = self._options
        header = _header_length(request.headers.get(_HEADER_LENGTH))
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        as_npy = kind == npy.MEDIA_TYPE
        most = options.max_json if kind == "application/json" else options.max_body
        most_json = options.max_json
        if as_npy or header is not None:
            most = most_json = options.max_body
        if header is not None and header > options.max_json:
            raise Refused(413, f"{_HEADER_LENGTH}: JSON has at most {options.max_json} bytes")
        body = await read_body(request, most, most_json, options.body_timeout, lease)
        note(len(body))
        as_npy = as_npy or (header is None and body[: len(npy.MAGIC)] == npy.MAGIC)
        if header is not None and header > len(body):
            raise Refused(422, f"{_HEADER_LENGTH} is {header}, and the body has {len(body)} bytes")
        with self._place(serving):
            if as_npy:
                output = _output(request, serving)
                # Numbers may have to be copied for alignment or byte order.
                feed = await self._coded(len(body), read_npy, body, serving.inputs)
                wanted = Wanted(feed, None, [(output, True)])
            else:
                json_bytes = len(body) if header is None else header
                wanted = await self._coded(
                    json_bytes, read, body, header, serving.inputs, serving.outputs
                )
            serving.check(wanted.feed)
            results = await self._computed(request, serving, wanted.feed)
            received = len(body)
            del body
            wanted.feed.clear()
            lease.give_back(received)
            held = sum(results[index].nbytes for index, _ in wanted.outputs)
            lease.add(held)
            headers: dict[str, str] = {}
            parts: list[bytes | memoryview]
            if as_npy:
                parts = [*await self._coded(held, npy.parts, results[output])]
                kind = npy.MEDIA_TYPE
            else:
                size = sum(results[i].size * 8 for i, binary in wanted.outputs if not binary)
                told = {"model_name": options.name, "model_version": serving.version}
                parts, header = await self._coded(
                    size, write, wanted, results, serving.outputs, told, options.max_json_answer
                )
                kind = "application/json"
                if header is not None:
                    kind, headers = "application/octet-stream", {_HEADER_LENGTH: str(header)}
        # In JSON, numbers take more bytes than in the arrays of outputs.
        lease.add(max(0, sum(memoryview(part).nbytes for part in parts) - held))
        return Answer(parts, kind, headers, options.answer_timeout, lease.close)

    async def _coded(self, size: int, function: Callable[..., Any], *args: Any) -> Any:
        """Read or write a message, in another thread if it is large."""
        if size < _IN_PLACE:
            return function(*args)
        return await asyncio.get_running_loop().run_in_executor(
            self._codec, partial(function, *args)
        )

    async def _computed(self, request: Request, serving: Serving, feed: dict[str, Any]) -> Any:
        # The body has been read, so the next message is that the client has disconnected.
        gone = asyncio.ensure_future(request.receive())
        try:
            if serving.knows(feed):
                return await _run(serving, feed, gone)
            async with serving.makes(feed):
                if _has_gone(gone):
                    raise ClientDisconnect
                if not serving.knows(feed):
                    if not serving.makes_apart:
                        return await _run(serving, feed, gone)
                    # A program is made even if the client disconnects now: others may want it.
                    await in_thread(serving.make, feed)
            return await _run(serving, feed, gone)
        except PoolClosed:
            raise Refused(503, "the server is stopping: try again", _RETRY_AFTER) from None
        except (TypeError, ValueError) as wrong:  # what the session says of its arguments
            raise Refused(422, f"inputs: {wrong}") from wrong
        except asyncio.CancelledError:
            if not _has_gone(gone):
                raise
            raise ClientDisconnect from None
        finally:
            gone.cancel()


async def _run(serving: Serving, feed: dict[str, Any], gone: asyncio.Future[Any]) -> Any:
    """Have an instance compute a request, unless its client disconnects first."""
    try:
        future = serving.pool.submit_within(0, feed)
    except QueueFull:
        raise Refused(503, "the queue is full: try again", _RETRY_AFTER) from None
    waited: Awaitable[Any] = asyncio.wrap_future(future)
    gone.add_done_callback(partial(_give_up, future))
    results = await waited
    serving.note(feed)
    return results


def _has_gone(message: asyncio.Future[Any]) -> bool:
    """Whether the received message says that the client has disconnected."""
    return (
        message.done()
        and not message.cancelled()
        and message.exception() is None
        and message.result()["type"] == "http.disconnect"
    )


def _give_up(future: Future[Any], message: asyncio.Future[Any]) -> None:
    """Cancel a request whose client has gone, if no instance has begun with it."""
    if _has_gone(message):
        future.cancel()


def _output(request: Request, serving: Serving) -> int:
    """Index of the output in a ``.npy`` answer."""
    names = [tensor.name for tensor in serving.outputs]
    name = request.query_params.get("output", names[0] if len(names) == 1 else None)
    if name not in names:
        raise Refused(422, f"output: name one of {names} in the query of a .npy request")
    return names.index(name)


def _header_length(text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch("[0-9]{1,18}", text):
        raise Refused(422, f"{_HEADER_LENGTH} must be a number of bytes, got {text[:40]!r}")
    return int(text)
