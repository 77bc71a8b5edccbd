"""Sessions behind HTTP, as an ASGI application on Starlette (extra ``serve``).

docs/architecture/where-is-what.md lists the modules.

::

    # serve.py, for: uvicorn serve:app
    import pplconv
    from pplconv.integrations import asgi

    app = asgi.app(lambda: pplconv.InferenceSession("model.onnx"), mode="process")
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal

from .. import told

with told("asgi", "pplconv[serve]"):
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Route

    from .inference import Options
    from .server import Server

__all__ = ["app"]


def app(
    make_model: Callable[[], Any],
    *,
    name: str = "model",
    version: str = "1",
    max_body: int = 64 << 20,
    max_json: int = 4 << 20,
    max_json_answer: int = 32 << 20,
    max_held: int | None = None,
    body_timeout: float = 30.0,
    answer_timeout: float = 60.0,
    queue_size: int = 64,
    instances: int | Literal["auto"] = "auto",
    threads: int | Literal["auto"] = "auto",
    mode: Literal["thread", "process"] = "thread",
    max_batch: int = 1,
    max_delay: float = 0.0,
    retries: int = 1,
    shutdown_timeout: float = 30.0,
    shapes: Sequence[Mapping[str, Sequence[int]]] = (),
    shapes_only: bool = False,
    max_making: int = 8,
) -> Starlette:
    """Serve a model by the Open Inference Protocol, version 2.

    Parameters
    ----------
    make_model : callable
        Makes an `InferenceSession`; called when the server starts, and when it reloads.
    name, version : str, optional
        Name and version of the model, in paths and answers.
    max_body : int, optional
        Largest size of a request in bytes; a larger one is refused while it arrives (413).
    max_json : int, optional
        Largest size of a request's JSON in bytes, also without binary data: while Python reads
        JSON, nothing else of the process runs, some 10 ms a MiB.
    max_json_answer : int, optional
        Largest size of an answer's JSON in bytes, counted as 24 a number. Larger outputs are
        refused (422), unless the request asks for binary data or is a ``.npy`` file.
    max_held : int, optional
        Bytes of bodies and outputs that all requests together hold, from their arrival until they
        are sent; requests beyond that are refused (503, with Retry-After). By default 1 GiB, or
        four times `max_body` if that is more.
    body_timeout : float, optional
        Seconds within which a body has to arrive (408).
    answer_timeout : float, optional
        Seconds within which a client has to read its answer.
    queue_size : int, optional
        Requests that may wait, besides those that run. A request takes a place from the end of its
        body until its outputs are there. Further ones are refused (503, with Retry-After).
    instances, threads, mode, max_batch, max_delay, retries, shutdown_timeout
        See `pplconv.InstancePool`.
    shapes : sequence of mapping, optional
        Sets of input shapes, by input name, that are prepared before the first request; where
        requests are joined, in all sizes of batches. A session keeps a few.
    shapes_only : bool, optional
        Whether inputs of all other shapes are refused (422).
    max_making : int, optional
        Sets of other shapes whose programs may be made or waited for at once; requests of further
        shapes are refused (503, with Retry-After). Instances stay free for known shapes meanwhile:
        a program is made outside the instances, or by half of them at most.

    Returns
    -------
    starlette.applications.Starlette
        It makes the model in its lifespan, and ends when all requests are answered.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; arguments of the pool and `shapes` raise at the start.

    Notes
    -----
    ``GET /``, a page that tries the model; ``/v2``, ``/v2/health/live``, ``/v2/health/ready``,
    ``/v2/models/NAME``, ``/v2/models/NAME/ready``, ``/v2/models/NAME/config``, ``/healthz``,
    ``/metrics``; ``POST /v2/repository/index`` and ``/v2/models/NAME/infer`` with JSON, with JSON
    and binary tensors, or with one ``.npy`` array (``?output=`` chooses one of several outputs).
    Errors, those of unknown paths among them, are JSON objects with ``error``.

    Instances compute the requests; the event loop only moves bytes. A waiting request is cancelled
    if its client disconnects.

    ``await app.state.reload()`` makes the model anew under traffic; ``reload(make_model,
    version=...)`` replaces it by another. A request is answered by the model that served when its
    head came. If the new model cannot be made, the exception is raised, and the old one goes
    on. ``app.state.reload_soon()`` does the same from any thread or signal handler, and logs.
    """
    texts: dict[str, object] = {"name": name, "version": version}
    for argument, value in texts.items():
        if not isinstance(value, str) or not value or "/" in value or not _is_utf8(value):
            raise ValueError(f"{argument} must be a text without slashes, got {value!r}")
    numbers: dict[str, object] = {
        "max_body": max_body, "max_json": max_json, "queue_size": queue_size,
        "max_batch": max_batch, "max_json_answer": max_json_answer, "max_making": max_making,
        "max_held": 1 << 30 if max_held is None else max_held,
    }  # fmt: skip
    for argument, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"{argument} must be an integer of 1 or more, got {number!r}")
    for argument, time in {"body_timeout": body_timeout, "answer_timeout": answer_timeout}.items():
        if not 0 < time < math.inf:
            raise ValueError(f"{argument} must be seconds above 0, got {time!r}")
    if shapes_only and not shapes:
        raise ValueError("shapes_only needs shapes to serve")
    server = Server(make_model, Options(
        name, version, max_body, min(max_json, max_body), max_json_answer,
        max(1 << 30, 4 * max_body) if max_held is None else max_held,
        float(body_timeout), float(answer_timeout), queue_size, max_making, bool(shapes_only),
        tuple(shapes),
        {
            "instances": instances, "threads": threads, "mode": mode, "max_batch": max_batch,
            "max_delay": max_delay, "retries": retries, "shutdown_timeout": shutdown_timeout,
        },
    ))  # fmt: skip

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await server.start()
        try:
            yield
        finally:
            await server.stop()

    routes = [
        Route("/", server.page),
        Route("/v2", server.server),
        Route("/v2/health/live", server.live),
        Route("/v2/health/ready", server.ready),
        Route("/healthz", server.ready),
        Route("/metrics", server.metrics),
        Route("/v2/repository/index", server.index, methods=["POST"]),
    ]
    for path in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        routes += [
            Route(path, server.model),
            Route(f"{path}/ready", server.model_ready),
            Route(f"{path}/config", server.model_config),
            Route(f"{path}/infer", server.infer, methods=["POST"]),
        ]
    application = Starlette(
        routes=routes, lifespan=lifespan,
        exception_handlers={Exception: server.failed, HTTPException: server.refused},
    )  # fmt: skip
    application.state.server = server
    application.state.reload = server.reload
    application.state.reload_soon = server.reload_soon
    return application


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character (a lone surrogate), as in some file names
        return False
    return True
