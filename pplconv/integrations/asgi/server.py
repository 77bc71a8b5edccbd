"""One model behind HTTP: its pool, who is let in, and the answers."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from pplconv import InstancePool, PoolClosed, QueueFull, __version__

from .. import npy
from .bodies import discard, read_body
from .errors import Refused
from .messages import Wanted, read, read_npy, write
from .metrics import CONTENT_TYPE, Metrics
from .tensors import DATATYPES, Tensor

__all__ = ["Options", "Server"]

_LOGGER = logging.getLogger("pplconv.serve")
_HEADER_LENGTH = "inference-header-content-length"
# Smaller messages are read and written sooner than a thread is woken for them.
_IN_PLACE = 32 << 10
_RETRY_AFTER = 1
_LONGEST_QUEUE = 1 << 16


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
        self._pool: InstancePool[Any] | None = None
        self._stopping = False
        self._places = 0
        self._inputs: list[Tensor] = []
        self._outputs: list[Tensor] = []
        self._metrics = Metrics()
        self._codec = ThreadPoolExecutor(2, thread_name_prefix="pplconv-serve")

    # Life

    async def start(self) -> None:
        """Make the model and its instances."""
        await asyncio.get_running_loop().run_in_executor(self._codec, self._start)

    def _start(self) -> None:
        session = self._make_model()
        if not (callable(session) and hasattr(session, "get_inputs")):
            raise TypeError(
                f"make_model must make a pplconv.InferenceSession, got {type(session).__name__}"
            )
        self._inputs = [Tensor.of(value) for value in session.get_inputs()]
        self._outputs = [Tensor.of(value) for value in session.get_outputs()]
        settings = self._options.pool
        feeds = list(self._feeds(settings["max_batch"]))
        if settings["mode"] == "process":  # what is ready now goes to all workers at once
            for feed in feeds:
                session.plan_for(feed)
        # The server counts its requests, those among them that no instance has taken yet.
        pool = InstancePool(lambda: session, queue_size=_LONGEST_QUEUE, **settings)
        self._places = self._options.queue_size + len(pool) * settings["max_batch"]
        try:
            for feed in feeds:
                pool.submit(feed).result()
        except BaseException:
            pool.close(cancel_pending=True)
            raise
        self._pool = pool

    def _feeds(self, max_batch: int) -> Any:
        """Yield zeros of the shapes that the model is to be ready for, in batches of all sizes."""
        sizes = [1 << i for i in range(max_batch.bit_length()) if 1 << i < max_batch] + [max_batch]
        for shapes in self._options.shapes:
            for size in sizes:
                feed = {}
                for tensor in self._inputs:
                    if tensor.name not in shapes:
                        raise ValueError(f"shapes: no shape is given for input {tensor.name!r}")
                    shape = tuple(shapes[tensor.name])
                    if max_batch > 1:
                        shape = (size, *shape[1:])
                    dtype = DATATYPES[tensor.datatype].newbyteorder("=")
                    feed[tensor.name] = np.zeros(shape, dtype)
                yield feed

    async def stop(self) -> None:
        """Answer what was let in, and end the instances."""
        self._stopping = True
        loop = asyncio.get_running_loop()
        if self._pool is not None:
            await loop.run_in_executor(self._codec, self._pool.close)
        self._codec.shutdown(wait=False)

    @property
    def _ready(self) -> bool:
        return self._pool is not None and not self._stopping

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
        statistics = self._pool.statistics() if self._pool is not None else ()
        return PlainTextResponse(
            self._metrics.text(self._ready, statistics), headers={"content-type": CONTENT_TYPE}
        )

    async def model_ready(self, request: Request) -> Response:
        """``/v2/models/NAME/ready``."""
        return self._not_found(request) or await self.ready(request)

    async def model(self, request: Request) -> Response:
        """``/v2/models/NAME``."""
        return self._not_found(request) or JSONResponse({
            "name": self._options.name, "versions": [self._options.version],
            "platform": "pplconv_onnx",
            "inputs": [tensor._asdict() for tensor in self._inputs],
            "outputs": [tensor._asdict() for tensor in self._outputs],
        })  # fmt: skip

    def _not_found(self, request: Request) -> Response | None:
        name, version = request.path_params["name"], request.path_params.get("version")
        if name != self._options.name:
            return _error(404, f"there is no model {name[:80]!r}, only {self._options.name!r}")
        if version not in (None, self._options.version):
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
        if not self._ready or self._metrics.in_flight >= self._places:
            why = "all places are taken" if self._ready else "the server is stopping"
            raise Refused(503, f"{why}: try again", _RETRY_AFTER)
        self._metrics.in_flight += 1
        try:
            return await self._infer(request, note)
        finally:
            self._metrics.in_flight -= 1

    async def _infer(self, request: Request, note: Callable[[int], None]) -> Response:
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
            output = self._output(request)
            feed = read_npy(body, self._inputs)
            wanted = Wanted(feed, None, [(output, True)])
        else:
            json_bytes = len(body) if header is None else header
            wanted = await self._coded(json_bytes, read, body, header, self._inputs, self._outputs)
        results = await self._computed(wanted.feed)
        if as_npy:
            return Response(npy.write(results[output]), media_type=npy.MEDIA_TYPE)
        size = sum(results[i].size * 8 for i, binary in wanted.outputs if not binary)
        content, header = await self._coded(size, write, wanted, results, self._outputs, self._told)
        if header is None:
            return Response(content, media_type="application/json")
        return Response(
            content, media_type="application/octet-stream", headers={_HEADER_LENGTH: str(header)}
        )

    @property
    def _told(self) -> dict[str, str]:
        return {"model_name": self._options.name, "model_version": self._options.version}

    def _output(self, request: Request) -> int:
        """Which output a ``.npy`` answer has."""
        names = [tensor.name for tensor in self._outputs]
        name = request.query_params.get("output", names[0] if len(names) == 1 else None)
        if name not in names:
            raise Refused(422, f"output: name one of {names} in the query of a .npy request")
        return names.index(name)

    async def _coded(self, size: int, function: Callable[..., Any], *args: Any) -> Any:
        """Read or write a message, in another thread if it is large."""
        if size < _IN_PLACE:
            return function(*args)
        return await asyncio.get_running_loop().run_in_executor(
            self._codec, partial(function, *args)
        )

    async def _computed(self, feed: dict[str, Any]) -> Any:
        assert self._pool is not None
        try:
            future = self._pool.submit_within(0, feed)
        except QueueFull:
            raise Refused(503, "the queue is full: try again", _RETRY_AFTER) from None
        except PoolClosed:
            raise Refused(503, "the server is stopping: try again", _RETRY_AFTER) from None
        waited: Awaitable[Any] = asyncio.wrap_future(future)
        try:
            return await waited
        except PoolClosed:
            raise Refused(503, "the server is stopping: try again", _RETRY_AFTER) from None
        except (TypeError, ValueError) as error:  # what the session says of its arguments
            raise Refused(422, f"inputs: {error}") from error


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
