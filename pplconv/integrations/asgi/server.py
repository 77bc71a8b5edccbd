"""One model behind HTTP: its pool, who is let in, and the answers."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from pplconv import PoolClosed, QueueFull, __version__

from .. import npy
from .bodies import discard, read_body
from .errors import Refused
from .messages import Wanted, read, read_npy, write
from .metrics import CONTENT_TYPE, Metrics
from .serving import Serving

__all__ = ["Options", "Server"]

_LOGGER = logging.getLogger("pplconv.serve")
_HEADER_LENGTH = "inference-header-content-length"
# Smaller messages are read and written sooner than a thread is woken for them.
_IN_PLACE = 32 << 10
_RETRY_AFTER = 1


class Options(NamedTuple):
    """What `app` was asked for, checked."""

    name: str
    version: str
    max_body: int
    max_json: int
    body_timeout: float
    queue_size: int
    shapes: Sequence[Mapping[str, Sequence[int]]]
    pool: dict[str, Any]


class Server:
    """The endpoints of one model.

    Parameters
    ----------
    make_model : callable
        Makes the session.
    options : Options
        See `app`.
    """

    def __init__(self, make_model: Callable[[], Any], options: Options) -> None:
        self._make_model = make_model
        self._options = options
        self._serving: Serving | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changing = asyncio.Lock()
        self._reloads: set[asyncio.Task[None]] = set()
        self._stopping = False
        self.when_made: Callable[[], None] = lambda: None
        """Called when a model has begun to serve, and the one before has ended."""
        self._metrics = Metrics()
        self._codec = ThreadPoolExecutor(2, thread_name_prefix="pplconv-serve")

    # Life

    async def start(self) -> None:
        """Make the model and its instances."""
        self._loop = asyncio.get_running_loop()
        self._serving = await self._made(self._make_model, self._options.version)
        self.when_made()

    async def _made(self, make_model: Callable[[], Any], version: str) -> Serving:
        options = self._options
        return await asyncio.to_thread(
            Serving, make_model, version, options.queue_size, options.shapes, options.pool
        )

    async def reload(
        self, make_model: Callable[[], Any] | None = None, version: str | None = None
    ) -> None:
        """Make the model anew while the old one serves, and let it take over.

        A request is answered by the model that served when its head came. Returns when the last
        one of the old model is answered and its instances have ended.

        Parameters
        ----------
        make_model : callable, optional
            Makes the session; what made the last one by default.
        version : str, optional
            Of the model from now on; as it is by default.

        Raises
        ------
        BaseException
            What `make_model` or the making of the instances raised: the old model goes on.
        """
        async with self._changing:
            old = self._serving
            if old is None or self._stopping:
                raise RuntimeError("the server does not serve now")
            try:
                new = await self._made(make_model or self._make_model, version or old.version)
            except BaseException:
                self._metrics.reloads["failed"] += 1
                raise
            self._serving, self._make_model = new, make_model or self._make_model
            self._metrics.reloads["ok"] += 1
            _LOGGER.info("the model was made anew, and takes all requests from now on")
            await self._ended(old)
            del old
            self.when_made()

    async def _ended(self, old: Serving) -> None:
        """End a model's instances when nothing wants them any more."""
        limit = self._options.body_timeout + float(self._options.pool["shutdown_timeout"])
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(old.unused.wait(), limit)
        await asyncio.to_thread(old.pool.close)

    def reload_soon(self) -> None:
        """Have the server reload, from any thread or signal handler; errors are logged."""
        if self._loop is None or self._loop.is_closed():
            _LOGGER.warning("nothing is reloaded: the server has not started, or has ended")
            return
        self._loop.call_soon_threadsafe(self._begin_reload)

    def _begin_reload(self) -> None:
        task = asyncio.ensure_future(self._reload_logged())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _reload_logged(self) -> None:
        try:
            await self.reload()
        except Exception:
            _LOGGER.exception("the model could not be made anew: the old one goes on")

    async def stop(self) -> None:
        """Answer what was let in, and end the instances."""
        self._stopping = True
        async with self._changing:
            if self._serving is not None:
                await asyncio.to_thread(self._serving.pool.close)
        self._codec.shutdown(wait=False)

    @property
    def _ready(self) -> bool:
        return self._serving is not None and not self._stopping

    # Small endpoints

    async def server(self, request: Request) -> Response:
        """``/v2``."""
        return JSONResponse(
            {"name": "pplconv", "version": __version__, "extensions": ["binary_tensor_data"]}
        )

    async def live(self, request: Request) -> Response:
        """``/v2/health/live``."""
        return JSONResponse({"live": True})

    async def ready(self, request: Request) -> Response:
        """``/v2/health/ready`` and ``/healthz``."""
        return JSONResponse({"ready": self._ready}, 200 if self._ready else 503)

    async def metrics(self, request: Request) -> Response:
        """``/metrics``."""
        statistics = self._serving.pool.statistics() if self._serving is not None else ()
        return PlainTextResponse(
            self._metrics.text(self._ready, statistics), headers={"content-type": CONTENT_TYPE}
        )

    async def model_ready(self, request: Request) -> Response:
        """``/v2/models/NAME/ready``."""
        return self._not_found(request) or await self.ready(request)

    async def model(self, request: Request) -> Response:
        """``/v2/models/NAME``."""
        serving = self._serving
        if serving is None or (refusal := self._not_found(request)) is not None:
            return refusal if serving is not None else await self.ready(request)
        return JSONResponse({
            "name": self._options.name, "versions": [serving.version],
            "platform": "pplconv_onnx",
            "inputs": [tensor._asdict() for tensor in serving.inputs],
            "outputs": [tensor._asdict() for tensor in serving.outputs],
        })  # fmt: skip

    def _not_found(self, request: Request) -> Response | None:
        name, version = request.path_params["name"], request.path_params.get("version")
        if name != self._options.name:
            return _error(404, f"there is no model {name[:80]!r}, only {self._options.name!r}")
        if self._serving is not None and version not in (None, self._serving.version):
            return _error(404, f"there is no version {version[:80]!r} of the model")
        return None

    # Inference

    async def infer(self, request: Request) -> Response:
        """``/v2/models/NAME/infer``."""
        begin = time.perf_counter()
        received = 0

        def note(size: int) -> None:
            nonlocal received
            received = size

        try:
            response = self._not_found(request) or await self._admitted(request, note)
        except Refused as refused:
            response = _error(refused.status, str(refused), refused.retry_after)
        except ClientDisconnect:
            response = _error(499, "the client has gone")
        except Exception:
            _LOGGER.exception("a request for inference failed")
            response = _error(500, "the server failed; its log says why")
        if response.status_code in (404, 413, 503) and "expect" not in request.headers:
            await discard(request, self._options.max_body, self._options.body_timeout)
        self._metrics.add(
            response.status_code, time.perf_counter() - begin, received, len(response.body)
        )
        return response

    async def _admitted(self, request: Request, note: Callable[[int], None]) -> Response:
        serving = self._serving
        if serving is None or self._stopping or self._metrics.in_flight >= serving.places:
            why = "all places are taken" if self._ready else "the server is stopping"
            raise Refused(503, f"{why}: try again", _RETRY_AFTER)
        self._metrics.in_flight += 1
        try:
            with serving.wanted():
                return await self._infer(request, serving, note)
        finally:
            self._metrics.in_flight -= 1

    async def _infer(
        self, request: Request, serving: Serving, note: Callable[[int], None]
    ) -> Response:
        options = self._options
        header = _header_length(request.headers.get(_HEADER_LENGTH))
        as_npy = request.headers.get("content-type", "").partition(";")[0].strip() == npy.MEDIA_TYPE
        most = options.max_body if as_npy or header is not None else options.max_json
        if header is not None and header > options.max_json:
            raise Refused(413, f"{_HEADER_LENGTH}: JSON has at most {options.max_json} bytes")
        body = await read_body(request, most, options.body_timeout)
        note(len(body))
        if header is not None and header > len(body):
            raise Refused(422, f"{_HEADER_LENGTH} is {header}, and the body has {len(body)} bytes")
        if as_npy:
            output = _output(request, serving)
            feed = read_npy(body, serving.inputs)
            wanted = Wanted(feed, None, [(output, True)])
        else:
            json_bytes = len(body) if header is None else header
            wanted = await self._coded(
                json_bytes, read, body, header, serving.inputs, serving.outputs
            )
        results = await self._computed(request, serving, wanted.feed)
        if as_npy:
            return Response(npy.write(results[output]), media_type=npy.MEDIA_TYPE)
        size = sum(results[i].size * 8 for i, binary in wanted.outputs if not binary)
        told = {"model_name": self._options.name, "model_version": serving.version}
        content, header = await self._coded(size, write, wanted, results, serving.outputs, told)
        if header is None:
            return Response(content, media_type="application/json")
        return Response(
            content, media_type="application/octet-stream", headers={_HEADER_LENGTH: str(header)}
        )

    async def _coded(self, size: int, function: Callable[..., Any], *args: Any) -> Any:
        """Read or write a message, in another thread if it is large."""
        if size < _IN_PLACE:
            return function(*args)
        return await asyncio.get_running_loop().run_in_executor(
            self._codec, partial(function, *args)
        )

    async def _computed(self, request: Request, serving: Serving, feed: dict[str, Any]) -> Any:
        try:
            future = serving.pool.submit_within(0, feed)
        except QueueFull:
            raise Refused(503, "the queue is full: try again", _RETRY_AFTER) from None
        except PoolClosed:
            raise Refused(503, "the server is stopping: try again", _RETRY_AFTER) from None
        waited: Awaitable[Any] = asyncio.wrap_future(future)
        # The body has been read: what comes next is that the client goes.
        gone = asyncio.ensure_future(request.receive())
        gone.add_done_callback(partial(_give_up, future))
        try:
            return await waited
        except PoolClosed:
            raise Refused(503, "the server is stopping: try again", _RETRY_AFTER) from None
        except (TypeError, ValueError) as error:  # what the session says of its arguments
            raise Refused(422, f"inputs: {error}") from error
        except asyncio.CancelledError:
            if not _has_gone(gone):
                raise
            raise ClientDisconnect from None
        finally:
            gone.cancel()


def _has_gone(message: asyncio.Future[Any]) -> bool:
    """Whether what was received is that the client has gone."""
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
    """Which output a ``.npy`` answer has."""
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


def _error(status: int, message: str, retry_after: float | None = None) -> Response:
    headers = {} if retry_after is None else {"retry-after": str(math.ceil(retry_after))}
    if status in (408, 413):  # what is still to come is not read
        headers["connection"] = "close"
    return JSONResponse({"error": message}, status, headers)
