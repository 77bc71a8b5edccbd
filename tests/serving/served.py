"""A small model, and a client that calls an ASGI application without a network."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from onnx import helper

import pplconv
from pplconv.integrations import asgi
from tests.instances.gates import Gate
from tests.network.models import model_of
from tests.patience import PATIENCE, eventually

NPY = {"content-type": "application/x-npy"}
INFER = "/v2/models/model/infer"


def small_model(classes: int = 5, free: bool = True, seed: int = 0) -> bytes:
    """A convolution, its mean and a product: input ``x`` (N, 3, H, W), outputs ``y`` and ``z``."""
    rng = np.random.default_rng(seed)
    draw = lambda *s: rng.standard_normal(s).astype(np.float32)  # noqa: E731
    weights = {"w": draw(8, 3, 3, 3), "b": draw(8), "m": draw(8, classes)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
        helper.make_node("GlobalAveragePool", ["y"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["z"]),
    ]
    shape = ["N", 3, "H", "W"] if free else [1, 3, 6, 5]
    return model_of(nodes, {"x": ("f4", shape)}, weights, ("y", "z"), opset=20).SerializeToString()


def session(**options: Any) -> pplconv.InferenceSession:
    return pplconv.InferenceSession(small_model(), **options)


class Gated(Gate):
    """A session that waits before it computes."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def get_inputs(self) -> Any:
        return self.inner.get_inputs()

    def get_outputs(self) -> Any:
        return self.inner.get_outputs()

    def __call__(self, feed: Any) -> Any:
        return self.inner(super().__call__(feed))


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """An application with its lifespan, in the event loop of a thread."""

    def __init__(self, application: Any) -> None:
        self._app = application
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.unread = 0
        """Answers that had to wait for their reader."""

    def __enter__(self) -> Client:
        self._thread.start()
        self._to_app: asyncio.Queue[Any] = asyncio.Queue()
        self._from_app: asyncio.Queue[Any] = asyncio.Queue()
        scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
        self._life = asyncio.run_coroutine_threadsafe(
            self._app(scope, self._to_app.get, self._from_app.put), self._loop
        )
        try:
            self._tell("lifespan.startup")
        except BaseException:
            self._end()
            raise
        return self

    def _tell(self, kind: str) -> None:
        async def tell() -> Any:
            await self._to_app.put({"type": kind})
            return await self._from_app.get()

        told = asyncio.run_coroutine_threadsafe(tell(), self._loop).result(PATIENCE)
        if told["type"] != f"{kind}.complete":
            self._life.exception(PATIENCE)
            raise RuntimeError(told.get("message", ""))

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    def stop(self) -> None:
        """End the lifespan, as a server does when nothing runs any more."""
        self._tell("lifespan.shutdown")

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            if not self._life.done():
                self.stop()
        finally:
            self._end()

    def do(self, coroutine: Any) -> Any:
        """Run a coroutine in the event loop; return a future of its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def start(
        self,
        method: str,
        path: str,
        body: Any = b"",
        headers: dict[str, str] | None = None,
        leaves: threading.Event | None = None,
        reads: threading.Event | None = None,
    ) -> Any:
        """Begin a request, whose `body` is bytes or chunks; return a future of the answer.

        The client leaves when `leaves` is set, and reads the answer only once `reads` is set.
        """
        chunks = [body] if isinstance(body, bytes) else body
        return self.do(self._request(method, path, iter(chunks), headers or {}, leaves, reads))

    async def _request(
        self,
        method: str,
        path: str,
        chunks: Iterable[Any],
        headers: dict[str, str],
        leaves: threading.Event | None,
        reads: threading.Event | None,
    ) -> Answer:
        path, _, query = path.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": path, "raw_path": path.encode(), "root_path": "",
            "query_string": query.encode(), "client": ("test", 1), "server": ("test", 80),
            "headers": [(k.lower().encode(), v.encode("latin1")) for k, v in headers.items()],
        }  # fmt: skip
        sent: list[Any] = []
        ended = False

        async def receive() -> Any:
            nonlocal ended
            if ended:  # as servers do: nothing more comes until the client goes
                while leaves is None or not leaves.is_set():
                    await asyncio.sleep(0.01)
                return {"type": "http.disconnect"}
            chunk = next(chunks, None)  # type: ignore[call-overload]
            if chunk is None:
                ended = True
                return {"type": "http.request", "body": b"", "more_body": False}
            if isinstance(chunk, BaseException):
                return {"type": "http.disconnect"}
            if isinstance(chunk, float):
                await asyncio.sleep(chunk)
                chunk = b""
            return {"type": "http.request", "body": chunk, "more_body": True}

        async def send(message: Any) -> None:
            if reads is not None and not reads.is_set():
                self.unread += 1
                while not reads.is_set():
                    await asyncio.sleep(0.01)
            sent.append(message)

        await self._app(scope, receive, send)
        start = sent[0]
        got = {k.decode(): v.decode() for k, v in start["headers"]}
        return Answer(start["status"], got, b"".join(m.get("body", b"") for m in sent[1:]))

    def get(self, path: str) -> Answer:
        return self.start("GET", path).result(PATIENCE)

    def post(self, body: Any, headers: dict[str, str] | None = None, path: str = INFER) -> Answer:
        return self.start("POST", path, body, headers).result(PATIENCE)


def served(model: Any, **settings: Any) -> Client:
    """A client of an application that serves this model on one thread."""
    return Client(asgi.app(lambda: model, instances=1, threads=1, **settings))


def in_flight(client: Client, count: int) -> None:
    """Wait until `count` requests are in flight."""
    wanted = f"pplconv_in_flight {count}\n".encode()
    eventually(lambda: wanted in client.get("/metrics").body, f"{count} requests in flight")


def tensor(x: np.ndarray, name: str = "x", **more: Any) -> dict[str, Any]:
    """An input as JSON."""
    names = {
        "f4": "FP32", "f8": "FP64", "f2": "FP16", "i8": "INT64", "u1": "UINT8", "u8": "UINT64",
        "b1": "BOOL",
    }  # fmt: skip
    return {
        "name": name, "shape": list(x.shape), "datatype": names[x.dtype.str[1:]],
        "data": x.reshape(-1).tolist(), **more,
    }  # fmt: skip


def as_json(*inputs: Any, **more: Any) -> bytes:
    return json.dumps({"inputs": list(inputs), **more}).encode()


def as_binary(
    *arrays: np.ndarray, names: Any = ("x",), **more: Any
) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a request whose inputs are bytes."""
    inputs = []
    for name, x in zip(names, arrays, strict=True):
        item = tensor(x, name, parameters={"binary_data_size": x.nbytes})
        del item["data"]
        inputs.append(item)
    head = as_json(*inputs, **more)
    body = head + b"".join(x.tobytes() for x in arrays)
    return body, {"Inference-Header-Content-Length": str(len(head))}


def as_npy(x: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, x)
    return stream.getvalue()


def outputs_of(answer: Answer) -> dict[str, np.ndarray]:
    """The outputs of an answer, JSON or binary."""
    assert answer.status == 200, answer
    size = answer.headers.get("inference-header-content-length")
    head = answer.body if size is None else answer.body[: int(size)]
    rest = b"" if size is None else answer.body[int(size) :]
    found = {}
    for item in json.loads(head)["outputs"]:
        assert item["datatype"] == "FP32"
        if "data" in item:
            array = np.array(item["data"], np.float32)
        else:
            length = item["parameters"]["binary_data_size"]
            array, rest = np.frombuffer(rest[:length], "<f4"), rest[length:]
        found[item["name"]] = array.reshape(item["shape"])
    assert rest == b""
    return found
