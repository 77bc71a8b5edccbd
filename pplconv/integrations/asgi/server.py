"""One model behind HTTP: its life, and the small endpoints."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from pplconv import __version__

from . import landing
from .abandoned_threads import in_thread
from .answers import error
from .http_tensors import Tensor, shown
from .inference import Inference, Options
from .metrics import CONTENT_TYPE, Metrics
from .serving import Serving

__all__ = ["MENDABLE", "Server"]

_LOGGER = logging.getLogger("pplconv.serve")
_EXTENSIONS = ["binary_tensor_data", "model_configuration"]
MENDABLE = (ImportError, MemoryError, OSError, RuntimeError, TypeError, ValueError)
"""Errors that files, settings or the machine cause: their message suffices, without a trace."""


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
        self._stops = asyncio.Event()
        self.when_made: Callable[[], None] = lambda: None
        """Called when a model has begun to serve, and the one before has ended."""
        self.failure: BaseException | None = None
        """Why the first model could not be made."""
        self._metrics = Metrics()
        self._inference = Inference(options, self._metrics)

    # Life

    async def start(self) -> None:
        """Make the model and its instances."""
        self._loop = asyncio.get_running_loop()
        try:
            self._serving = await self._made(self._make_model, self._options.version)
        except BaseException as reason:
            self.failure = reason
            raise
        self.when_made()

    async def _made(self, make_model: Callable[[], Any], version: str) -> Serving:
        options = self._options
        dropped = threading.Event()

        def make() -> Serving:
            made = Serving(
                make_model, version, options.queue_size, options.shapes, options.pool,
                options.max_making, options.shapes_only,
            )  # fmt: skip
            if dropped.is_set():
                made.pool.close()
            return made

        making = in_thread(make)
        stops = asyncio.ensure_future(self._stops.wait())
        try:
            await asyncio.wait({making, stops}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stops.cancel()
        if making.done():
            made: Serving = making.result()
            return made
        dropped.set()
        making.add_done_callback(_close_late)
        raise RuntimeError("the server stops, and does not wait for a model that is being made")

    async def reload(
        self, make_model: Callable[[], Any] | None = None, version: str | None = None
    ) -> None:
        """Make the model anew while the old one serves, and let it take over.

        A request is answered by the model that served when its head came. Returns when the last
        request to the old model is answered and its instances have ended.

        Parameters
        ----------
        make_model : callable, optional
            Makes the session; by default the callable that made the last one.
        version : str, optional
            Version of the new model; by default unchanged.

        Raises
        ------
        BaseException
            Any exception of `make_model` or of making the instances; the old model goes on.
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
        """End a model's instances when no request needs them any more."""
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
        except MENDABLE as reason:
            _LOGGER.error("the model could not be made anew: the old one goes on: %s", reason)
        except Exception:
            _LOGGER.exception("the model could not be made anew: the old one goes on")

    async def stop(self) -> None:
        """Answer the accepted requests, and end the instances."""
        self._stopping = True
        self._stops.set()
        async with self._changing:
            if self._serving is not None:
                await asyncio.to_thread(self._serving.pool.close)
        self._inference.close()

    @property
    def _ready(self) -> bool:
        return self._serving is not None and not self._stopping

    # Small endpoints

    async def server(self, request: Request) -> Response:
        """``/v2``."""
        return JSONResponse({"name": "pplconv", "version": __version__, "extensions": _EXTENSIONS})

    async def page(self, request: Request) -> Response:
        """``/``, for people."""
        return HTMLResponse(
            landing.page(self._options.name, *self.tensors), headers=landing.HEADERS
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
        return await self._described(request, lambda serving: {
            "versions": [serving.version],
            "inputs": [tensor._asdict() for tensor in serving.inputs],
            "outputs": [tensor._asdict() for tensor in serving.outputs],
        })  # fmt: skip

    async def model_config(self, request: Request) -> Response:
        """``/v2/models/NAME/config``, an extension of Triton's."""
        return await self._described(request, lambda serving: {
            "max_batch_size": 0,
            "input": [tensor.configured() for tensor in serving.inputs],
            "output": [tensor.configured() for tensor in serving.outputs],
        })  # fmt: skip

    async def _described(
        self, request: Request, describe: Callable[[Serving], dict[str, Any]]
    ) -> Response:
        """Describe the model, or refuse another one."""
        serving = self._serving
        if serving is None or (refusal := self._not_found(request)) is not None:
            return refusal if serving is not None else await self.ready(request)
        name = {"name": self._options.name, "platform": "pplconv_onnx"}
        return JSONResponse({**name, **describe(serving)})

    async def index(self, request: Request) -> Response:
        """``/v2/repository/index``: the model, and whether it is ready."""
        found = {"name": self._options.name, "state": "READY" if self._ready else "UNAVAILABLE"}
        if self._serving is not None:
            found["version"] = self._serving.version
        return JSONResponse([found])

    @property
    def tensors(self) -> tuple[list[Tensor], list[Tensor]]:
        """Inputs and outputs of the model that serves."""
        return ([], []) if self._serving is None else (self._serving.inputs, self._serving.outputs)

    def _not_found(self, request: Request) -> Response | None:
        name, version = request.path_params["name"], request.path_params.get("version")
        if name != self._options.name:
            return error(404, f"there is no model {shown(name)!r}, only {self._options.name!r}")
        if self._serving is not None and version not in (None, self._serving.version):
            return error(404, f"there is no version {shown(version)!r} of the model")
        return None

    async def infer(self, request: Request) -> Response:
        """``/v2/models/NAME/infer``."""
        refusal = self._not_found(request)
        serving = None if self._stopping else self._serving
        return await self._inference.answer(request, serving, refusal)

    async def refused(self, request: Request, reason: Exception) -> Response:
        """Answer a path that there is not, or a method that it does not have."""
        assert isinstance(reason, HTTPException)
        path = shown(request.url.path)
        message = f"there is nothing at {path}: GET /v2 tells what serves"
        if reason.status_code == 405:
            allowed = (reason.headers or {}).get("Allow", "another method")
            message = f"{path} takes {allowed}, not {request.method}"
        answer = error(reason.status_code, message)
        answer.headers.update(reason.headers or {})
        return answer

    async def failed(self, request: Request, reason: Exception) -> Response:
        """Answer an unexpected exception; Starlette logs it."""
        self._metrics.add(500, 0.0, 0, 0)
        return error(500, "the server failed; its log says why")


def _close_late(making: asyncio.Future[Any]) -> None:
    """End the instances of a model that was finished after the wait for it had ended."""
    if not making.cancelled() and making.exception() is None:
        in_thread(making.result().pool.close)
