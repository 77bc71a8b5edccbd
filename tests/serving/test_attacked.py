"""A real server under attack: what its memory, its descriptors and its other clients notice."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import pplconv
from tests.network.models import model_of
from tests.patience import PATIENCE, eventually
from tests.serving.served import NPY, as_binary, as_json, as_npy, tensor
from tests.serving.server_process import ask, reloaded, server, text_of

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="peaks of memory are read from Linux' /proc"
)

PATH = "/v2/models/padding/infer"
MB = 1 << 20
MOST_ADDED = 100 * MB
HELD = 100 * MB
DESCRIPTORS = 500
# Seconds of CPU: several times the cost of the most costly test, which computes convolutions.
MOST_WORK = 15.0
X = np.ones((1, 3, 6, 5), np.float32)
OPTIONS = (
    "--instances", "2", "--threads", "1", "--queue-size", "4", "--max-held", str(HELD),
    "--head-timeout", "2", "--body-timeout", "4", "--answer-timeout", "3", "--shape", "x=1x3x6x5",
    "--max-json-answer", str(4 * MB),
)  # fmt: skip


def padding_model() -> bytes:
    """A convolution that pads more than its kernel cuts: empty images have outputs."""
    weights = np.random.default_rng(5).standard_normal((8, 3, 3, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[3, 3, 3, 3])
    inputs = {"x": ("f4", ["N", 3, "H", "W"])}
    return model_of([node], inputs, {"w": weights}, opset=20).SerializeToString()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "padding.onnx"
    path.write_bytes(padding_model())
    return path


def few_descriptors():
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))


class Attacked:
    """A server, observed from outside."""

    def __init__(self, process, port, lines) -> None:
        self.process, self.port, self.lines = process, port, lines
        self.health()

    def health(self) -> None:
        assert json.loads(text_of(self.port, "/healthz"))["ready"]

    def _work(self) -> float:
        """Return the seconds of CPU that the server has used."""
        status = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(status[11]) + int(status[12])) / os.sysconf("SC_CLK_TCK")

    def _memory(self, name: str) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(rf"{name}:\s+(\d+) kB", status)[1])

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    @contextmanager
    def watched(self, most: int = MOST_ADDED):
        """Others are answered meanwhile, CPU time is low, and memory grows by `most` bytes at most.

        Waiting times depend on the load of the machine, so CPU time is judged instead.
        """
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")  # the peak begins anew
        before, work, over = self._memory("VmRSS"), self._work(), threading.Event()
        answers = []

        def watch():
            while not answers or not over.wait(0.02):
                answers.append(self.health())

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(PATIENCE)
        assert self._memory("VmHWM") - before < most
        assert self._work() - work < MOST_WORK
        assert answers

    def ask(self, body, headers=NPY, path=PATH):
        return ask(self.port, body, path, headers)

    def serves(self) -> None:
        assert self.ask(as_npy(X))[0] == 200

    @contextmanager
    def connected(self, count: int, sent: bytes = b"", room: int | None = None):
        """Clients that have sent something and do nothing more."""
        clients = [socket.socket() for _ in range(count)]
        try:
            for client in clients:
                if room is not None:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
                client.settimeout(PATIENCE)
                client.connect(("127.0.0.1", self.port))
                with suppress(OSError):  # closed already, in favour of the next one
                    client.sendall(sent)
            yield clients
        finally:
            for client in clients:
                client.close()


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    path = tmp_path_factory.mktemp("attacked") / "padding.onnx"
    path.write_bytes(padding_model())
    with server(path, *OPTIONS, preexec_fn=few_descriptors) as (process, port, lines):
        yield Attacked(process, port, lines)
        log = "".join(lines)
        metrics = text_of(port, "/metrics")
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
    assert 'code="500"' not in metrics
    assert "Traceback" not in log and "Too many open files" not in log
    assert len(log) < 50_000


def with_(**changed):
    return as_json({**tensor(X), **changed})


def npy(shape: str, rest: bytes = b"") -> bytes:
    """A file whose header may say anything."""
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + rest


def binary_of(shape):
    head = json.dumps({"inputs": [{
        "name": "x", "datatype": "FP32", "shape": shape, "parameters": {"binary_data_size": 0},
    }]}).encode()  # fmt: skip
    return head, {"Inference-Header-Content-Length": str(len(head))}


COSTLY = {
    "a long text beside short ones": with_(data=["a" * 100_000] + [""] * 300),
    "long texts in lists": with_(data=[[[["a" * 20_000] * 5] * 6] * 3]),
    "many empty texts": with_(data=[""] * 1_000_000),
    "many lists": with_(data=[[]] * 1_000_000),
    "many objects": with_(data=[{"": 0}] * 400_000),
    "lists in lists": b'{"inputs":' + b"[" * 900 + b"1," * 900_000 + b"1" + b"]" * 900 + b"}",
    "many small numbers": with_(data=[0] * 1_300_000),
    "many large numbers": with_(data=[300] * 800_000),
    "long numbers": with_(data=[int("9" * 4000)] * 500),
    "parameters": with_(parameters={str(i): [i] for i in range(50_000)}),
    "a long dimension": with_(shape=[1, 3, 6, "N"]).replace(b'"N"', b"9" * 4300),
    "half a character as datatype": with_(datatype="\ud800"),
    "half a character as name": with_(name="\udfff"),
    "half a character as shape": with_(shape=["\ud800"] * 4),
    "half a character as data": with_(data="\ud800"),
    "a long name": with_(name="x" * 1_000_000),
    "a zero beside 2**62": with_(shape=[0, 2**62, 3, 3], data=[]),
    "a zero beside many": with_(shape=[1, 3, 0, 30_000_000], data=[]),
    "a large batch of nothing": with_(shape=[2_000_000, 3, 0, 0], data=[]),
}
COSTLY_NPY = {
    "a zero beside many": npy("(1, 3, 0, 30000000)"),
    "a zero beside fewer": npy("(1, 3, 0, 2000000)"),
    "a large batch of nothing": npy("(200000, 3, 0, 0)"),
    "a zero beside 2**61": npy(f"({2**61}, 3, 0, 5)"),
    "true": npy("(True, 3, 6, 5)", X.tobytes()),
    "a long dimension": npy("(1, 3, 0, %s)" % ("9" * 4300)),
    "a dimension beyond": npy(f"(1, 3, 0, {10**30})"),
}


def test_requests_that_cost_much_are_refused(attacked):
    for name, body in COSTLY.items():
        with attacked.watched():
            status, answer = attacked.ask(body, {})
        assert status == 422, (name, answer)
        assert len(answer) < 1000, name
    for name, body in COSTLY_NPY.items():
        with attacked.watched():
            status, answer = attacked.ask(body)
        assert status == 422, (name, answer)
    for shape in ([1, 3, 0, 30_000_000], [2_000_000, 3, 0, 0], [0, 3, 2**62, 1]):
        with attacked.watched():
            assert attacked.ask(*binary_of(shape))[0] == 422
    # A small empty image is computed.
    status, answer = attacked.ask(npy("(2, 3, 0, 7)"))
    assert status == 200 and np.load(io.BytesIO(answer)).shape == (2, 8, 4, 11)
    assert not np.load(io.BytesIO(answer)).any(), "nothing but padding, and no bias"
    attacked.serves()


def test_a_large_answer_is_sent_as_bytes_and_refused_as_json(attacked, rng):
    x = rng.standard_normal((3, 3, 512, 512)).astype(np.float32)
    right = pplconv.InferenceSession(padding_model(), threads=1).run(None, {"x": x})[0]
    with attacked.watched():
        status, answer = attacked.ask(*as_binary(x))
        assert status == 422 and b"binary" in answer
    with attacked.watched():
        status, answer = attacked.ask(as_npy(x))
        assert status == 200
        assert np.load(io.BytesIO(answer)).tobytes() == right.tobytes()
    # A smaller answer is sent as JSON.
    small = x[:1, :, :100, :100]
    with attacked.watched():
        status, answer = attacked.ask(*as_binary(small))
        assert status == 200
        data = json.loads(answer)["outputs"][0]["data"]
    right = pplconv.InferenceSession(padding_model(), threads=1).run(None, {"x": small})[0]
    assert np.array(data, np.float32).tobytes() == right.tobytes()


def test_answers_that_nobody_reads_hold_little(attacked):
    body = as_npy(np.ones((3, 3, 512, 512), np.float32))
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-npy\r\n"
    sent = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    # Held data, two running requests, the program's memory and that of the first run: 196 MB in a
    # process that had answered nothing yet. All bodies and answers together exceed 500 MB.
    with attacked.watched(HELD + 200 * MB), attacked.connected(15, sent, room=4096):
        # There are six places, but a client that tries again gets one in the end.
        for _ in range(10):
            eventually(lambda: attacked.ask(as_npy(X))[0] == 200, "a place")
        eventually(lambda: "pplconv_in_flight 0" in text_of(attacked.port, "/metrics"), "rest")
        # Memory is soon free, too.
        eventually(lambda: attacked.ask(body)[0] == 200, "room for an answer")


def test_connections_that_keep_it_waiting_are_closed(attacked):
    before = attacked.descriptors()
    drips = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nX-".encode()
    with attacked.watched(), attacked.connected(20) as silent:
        with attacked.connected(20, drips) as dripping:
            open_yet = set(dripping)

            def drip() -> bool:
                for client in [*open_yet]:
                    try:
                        client.send(b"a")
                    except OSError:
                        open_yet.discard(client)
                return not open_yet

            eventually(drip, "the end of all that drip")
        for client in silent:
            with suppress(ConnectionError):
                assert client.recv(1) == b""
    eventually(lambda: attacked.descriptors() <= before + 5, "the descriptors of before")
    attacked.serves()


@pytest.mark.slow
def test_more_connections_than_descriptors(attacked):
    own = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{" % PATH.encode()
    for sent in (b"", own):
        with attacked.watched(), attacked.connected(DESCRIPTORS + 50, sent):
            for _ in range(5):
                attacked.serves()
                assert attacked.descriptors() < DESCRIPTORS
    assert "too many connections" in "".join(attacked.lines)


def test_bodies_that_come_slowly_take_no_place(attacked):
    """There are six places: four that wait and two that run."""
    begun = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{" % PATH.encode()
    with attacked.watched(), attacked.connected(30, begun) as slow:
        eventually(lambda: "pplconv_in_flight 30" in text_of(attacked.port, "/metrics"), "30")
        for _ in range(10):
            attacked.serves()
        for client in slow:  # the body does not arrive in time
            assert client.recv(1000).startswith(b"HTTP/1.1 408")


def test_promised_bodies_hold_no_memory(attacked):
    begun = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-npy\r\n" % PATH.encode()
    begun += b"Content-Length: 60000000\r\n\r\n{"
    with attacked.watched(), attacked.connected(20, begun):
        attacked.serves()


def test_heads_have_a_bound(attacked):
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\n".encode()
    for line in (b"X-Long: " + b"a" * 5_000_000, b"X: y\r\n" * 800_000):
        with attacked.watched(), attacked.connected(3, head + line) as clients:
            for client in clients:
                with suppress(ConnectionError):
                    assert client.recv(1000)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 431", b"")
    attacked.serves()


def test_what_is_no_http_fills_no_log(attacked):
    before = sum(map(len, attacked.lines))
    for sent in (b"\x00\x01\x02\r\n\r\n", b"G" * 1000 + b"\r\n\r\n"):
        for _ in range(100):
            with attacked.connected(1, sent) as (client,), suppress(ConnectionError):
                assert client.recv(1000).startswith(b"HTTP/1.1 400")
    chunked = (
        b"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" % PATH.encode()
    )
    for _ in range(100):
        with attacked.connected(1, chunked) as (client,), suppress(ConnectionError):
            client.recv(1000)
    assert sum(map(len, attacked.lines)) - before < 20_000
    attacked.serves()


def test_a_run_that_needs_too_much_memory_is_refused(path):
    with server(
        path, "--instances", "1", "--threads", "1", "--max-memory", "1000000"
    ) as (process, port, lines):  # fmt: skip
        one = Attacked(process, port, lines)
        one.serves()
        status, answer = one.ask(as_npy(np.ones((1, 3, 256, 256), np.float32)))
        assert status == 422 and b"memory" in answer
        one.serves()


def test_a_stop_does_not_wait_for_a_model_that_never_comes(path):
    with server(
        path, "--instances", "1", "--threads", "1", "--shapes-only", "--shape", "x=1x3x6x5"
    ) as (process, port, lines):  # fmt: skip
        one = Attacked(process, port, lines)
        one.serves()
        status, answer = one.ask(as_npy(X[:, :, :5]))
        assert status == 422 and b"none of those that are served" in answer
        path.unlink()
        os.mkfifo(path)
        process.send_signal(signal.SIGHUP)
        reloaded(port, "failed", 1)
        one.serves()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
