"""The load test of a server: its counts, and a run."""

from __future__ import annotations

import asyncio
import json
import selectors
import time
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from benchmarks.serving import client
from benchmarks.serving.client import Client, Outcome, closed, open_loop
from benchmarks.serving.run import main


class Instant(selectors.DefaultSelector):
    """Waits for nothing: the time that it should wait has passed at once."""

    now = 0.0

    def select(self, timeout=None):
        self.now += timeout or 0.0
        return super().select(0)


@pytest.fixture
def at_once(monkeypatch):
    """Run a coroutine in time that passes only where it is waited for."""
    selector = Instant()
    loop = asyncio.SelectorEventLoop(selector)
    monkeypatch.setattr(loop, "time", lambda: selector.now)
    monkeypatch.setattr(client, "time", SimpleNamespace(perf_counter=lambda: selector.now))
    yield loop.run_until_complete
    loop.close()


def test_latencies_count_from_the_due_time(at_once):
    """A server that stops for a while delays all that was due meanwhile."""
    free = asyncio.Lock()
    stalled = False

    async def ask() -> str:
        nonlocal stalled
        async with free:
            if not stalled:
                stalled = True
                await asyncio.sleep(0.4)
        return "ok"

    outcome = at_once(open_loop(ask, 200, 0.3))
    assert len(outcome.latencies) > 20
    assert outcome.percentile(50) > 0.15, "a closed load would have seen one slow request"
    assert outcome.counts == {"ok": len(outcome.latencies)}


def test_a_closed_load_waits_for_its_answers(at_once):
    running = most = 0

    async def ask() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return "503"

    outcome = at_once(closed(ask, 3, 0.1))
    assert most == 3 and outcome.latencies == [] and outcome.rate == 0
    assert 3 * 9 <= outcome.counts["503"] <= 3 * 11
    assert outcome.lost() == {"503": outcome.counts["503"]}


def test_percentiles():
    outcome = Outcome(latencies=[i / 100 for i in range(100)])
    assert outcome.percentile(50) == 0.5 and outcome.percentile(99) == 0.99
    assert np.isnan(Outcome().percentile(50))


@pytest.mark.parametrize(("answer", "what"), [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n..ab", "ok"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n..aa", "wrong bytes"),
    (b"HTTP/1.1 503 no\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", "503"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n..a", "reset"),
    (b"HTTP/1.1 20", "reset"), (b"", "reset"),
])  # fmt: skip
def test_what_becomes_of_a_request(answer, what):
    async def talk() -> str:
        async def serve(reader, writer):
            await reader.readexactly(len(b"body"))
            writer.write(answer)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = Client(port, "/", b"body", {}, b"ab")
        try:
            return await client.ask()
        finally:
            await client.close()
            server.close()
            await server.wait_closed()

    assert asyncio.run(talk()) == what


@pytest.mark.slow
@pytest.mark.unsanitized("starts a server that imports what no sanitizer knows")
def test_a_short_load(tmp_path, capsys, rng):
    draw = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])], "one",
        [info("x", onnx.TensorProto.FLOAT, ["N", 3, "H", "W"])],
        [info("y", onnx.TensorProto.FLOAT, None)], [numpy_helper.from_array(draw, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    path = tmp_path / "one.onnx"
    path.write_bytes(model.SerializeToString())
    begin = time.perf_counter()
    status = main([
        str(path), "--shape", "x=1x3x12x10", "--seconds", "0.5", "--mode", "process", "--kills",
        "1", "--json", str(tmp_path / "report.json"),
    ])  # fmt: skip
    printed = capsys.readouterr().out
    assert status == 0, printed
    report = json.loads((tmp_path / "report.json").read_text())
    assert set(report["server"]["loads"]) == {"50 %", "80 %", "50 %, kills"}
    for row in report["server"]["loads"].values():
        assert row["requests"] > 0 and row["lost"] == {}
        assert row["p50_ms"] <= row["p99_ms"] < 1e3 * (time.perf_counter() - begin)
    assert report["server"]["killed"] == 1
    assert "one.onnx" in printed and "| 80 % |" in printed
