"""``python -m pplconv serve`` with a real server: stops, kills, connections."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import pplconv
from pplconv.__main__ import main
from tests.patience import PATIENCE, eventually
from tests.programs import ran
from tests.serving import server_process
from tests.serving.served import NPY, as_binary, as_json, as_npy, small_model, tensor
from tests.serving.server_process import reloaded, server, text_of
from tests.threads import begun, ended

PATH = "/v2/models/small/infer?output=z"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "small.onnx"
    path.write_bytes(small_model())
    return path


def end_of(process: subprocess.Popen) -> int | None:
    """The exit status of a server; None if it goes on."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(PATIENCE)
    return process.returncode


def ask(port: int, body: object) -> tuple[int, bytes]:
    return server_process.ask(port, body, PATH)


def z_of(content: bytes | str, x: np.ndarray) -> bytes:
    """Return what a model gives for its output ``z``."""
    session = pplconv.InferenceSession(content, threads=1)
    return session.run(["z"], {"x": x})[0].tobytes()


def test_a_server_answers_refuses_and_stops(model, rng):
    x = rng.standard_normal((1, 3, 40, 30)).astype(np.float32)
    z = z_of(str(model), x)
    with server(
        model, "--instances", "1", "--threads", "1", "--max-body", "100000", "--max-json", "90000",
        "--shape", "x=1x3x40x30",
    ) as (process, port, lines):  # fmt: skip
        status, body = ask(port, as_npy(x))
        assert status == 200 and body[-20:] == z
        told = json.loads(text_of(port, "/v2/models/small"))
        assert told["inputs"][0]["shape"] == [-1, 3, -1, -1]
        said = "".join(lines)
        assert "small: x FP32 [-1, 3, -1, -1] -> " in said
        assert "/v2/models/small/infer" in said
        # One connection outlives refusals.
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        for body, headers, expected in (
            (as_json(tensor(x[0])), {}, 422), (b"{", {}, 422), (*as_binary(x), 200),
            (as_npy(x)[:-1], NPY, 422), (as_npy(x), NPY, 200),
        ):  # fmt: skip
            connection.request("POST", PATH, body, headers)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == expected
        connection.close()
        large = np.zeros((1, 3, 200, 100), np.float32)
        assert ask(port, as_npy(large))[0] == 413
        chunked = (b"x" * 10_000 for _ in range(15))
        assert ask(port, chunked)[0] == 413
        for raw in (b"\x00\x01\x02\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n", b"G" * 100_000):
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as plain:
                try:
                    plain.sendall(raw)
                    plain.recv(1000)
                except ConnectionError:
                    pass
        head = b"POST /v2/models/small/infer HTTP/1.1\r\nHost: x\r\n"
        for line in (b"Content-Length: -5", b"Content-Length: 5\r\nContent-Length: 6"):
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as plain:
                plain.sendall(head + line + b"\r\n\r\nhello")
                assert plain.recv(1000).startswith(b"HTTP/1.1 400")
        assert ask(port, as_npy(x))[0] == 200
        process.send_signal(signal.SIGTERM)
        assert end_of(process) == 0, "".join(lines)


@pytest.mark.parametrize("mode", ["thread", pytest.param("process", marks=pytest.mark.slow)])
def test_a_stop_answers_what_is_in_flight(model, rng, mode):
    x = rng.standard_normal((1, 3, 400, 300)).astype(np.float32)
    z = z_of(str(model), x)
    body = as_npy(x)
    answers: list[tuple[int, bytes]] = []
    with server(
        model, "--instances", "1", "--threads", "1", "--mode", mode, "--shape", "x=1x3x400x300"
    ) as (process, port, lines):
        clients, waiting = [], 0

        def asked() -> None:
            # A request that comes too late for a connection has no answer.
            with suppress(ConnectionError):
                answers.append(ask(port, body))

        def two_in_flight() -> bool:
            """All may be answered before the metrics show two in flight: then try again."""
            nonlocal waiting
            answers.clear()
            clients[:] = begun([asked] * 12)
            while any(client.is_alive() for client in clients):
                metrics = text_of(port, "/metrics")
                waiting = int(re.search(r"pplconv_in_flight (\d+)", metrics)[1])
                if waiting >= 2:
                    return True
            return False

        eventually(two_in_flight, "two requests in flight")
        process.send_signal(signal.SIGTERM)
        ended(clients)
        assert end_of(process) == 0, "".join(lines)
    assert len(answers) >= waiting
    assert all(status == 200 and got[-20:] == z for status, got in answers)


def children(pid: int) -> list[int]:
    """List the children of a process, without the tracker of resources."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


def workers(pid: int) -> list[int]:
    """List the workers of a server: forked by its forking process, or started by itself."""
    started = children(pid)
    return [worker for child in started for worker in children(child)] or started


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc/<pid>/task/*/children")
def test_workers_killed_behind_a_server_lose_no_request(model, rng):
    x = rng.standard_normal((1, 3, 200, 150)).astype(np.float32)
    z = z_of(str(model), x)
    body = as_npy(x)
    answers: list[tuple[int, bytes]] = []
    stop = threading.Event()
    with server(
        model, "--instances", "2", "--threads", "1", "--mode", "process", "--retries", "5",
        "--shape", "x=1x3x200x150",
    ) as (process, port, lines):  # fmt: skip

        def load() -> None:
            while not stop.is_set():
                answers.append(ask(port, body))

        clients = begun([load] * 4)
        killed = set()

        def answered(more: int) -> None:
            count = len(answers)
            eventually(lambda: len(answers) >= count + more, f"{more} answers")

        for _ in range(3):
            left = eventually(lambda: set(workers(process.pid)) - killed, "another worker")
            answered(2)
            pid = left.pop()
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        answered(8)
        stop.set()
        ended(clients)
        metrics = text_of(port, "/metrics")
    assert {status for status, _ in answers} == {200}, "".join(lines)
    assert all(got[-20:] == z for _, got in answers)
    replaced = re.findall(r"pplconv_instance_replaced_total\{.*\} (\d+)", metrics)
    assert sum(map(int, replaced)) >= 2


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no SIGHUP")
@pytest.mark.parametrize("mode", ["thread", pytest.param("process", marks=pytest.mark.slow)])
def test_a_file_is_replaced_under_traffic(tmp_path, rng, mode):
    x = rng.standard_normal((1, 3, 60, 50)).astype(np.float32)
    path = tmp_path / "small.onnx"

    def put(content: bytes) -> None:
        (tmp_path / "new").write_bytes(content)
        os.replace(tmp_path / "new", path)

    put(small_model(seed=0))
    answers: list[tuple[float, int, bytes]] = []
    stop = threading.Event()
    with server(
        path, "--instances", "2", "--threads", "1", "--mode", mode, "--shape", "x=1x3x60x50"
    ) as (process, port, lines):

        def load() -> None:
            while not stop.is_set():
                asked = time.monotonic()
                answers.append((asked, *ask(port, as_npy(x))))

        clients = begun([load] * 4)
        put(b"broken")
        process.send_signal(signal.SIGHUP)
        reloaded(port, "failed", 1)
        put(small_model(seed=1))
        process.send_signal(signal.SIGHUP)
        reloaded(port, "ok", 1)
        switched, count = time.monotonic(), len(answers)
        eventually(lambda: len(answers) >= count + 50, "fifty answers more")
        stop.set()
        ended(clients)
        process.send_signal(signal.SIGTERM)
        assert end_of(process) == 0, "".join(lines)
    assert {status for _, status, _ in answers} == {200}, "".join(lines)
    old, new = (z_of(small_model(seed=seed), x) for seed in (0, 1))
    assert {body[-20:] for _, _, body in answers} == {old, new}
    assert {body[-20:] for asked, _, body in answers if asked > switched} == {new}
    assert "the old one goes on" in "".join(lines)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what closing a terminal does")
@pytest.mark.parametrize("nohup", [False, True])
def test_a_terminal_that_is_closed_stops_the_server(model, nohup):
    """A closed terminal sends SIGHUP, which otherwise asks for the file to be read again."""
    ours, theirs = pty.openpty()

    def take_terminal() -> None:
        os.setsid()
        # Set either way, because children inherit ignored signals.
        signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    with server(
        model, "--instances", "1", "--threads", "1", preexec_fn=take_terminal, pass_fds=[theirs]
    ) as (process, port, lines):  # fmt: skip
        os.close(theirs)
        process.send_signal(signal.SIGHUP)
        reloaded(port, "ok", 1)
        assert ask(port, as_npy(np.ones((1, 3, 4, 4), np.float32)))[0] == 200
        os.close(ours)
        if nohup:
            reloaded(port, "ok", 2)
            process.send_signal(signal.SIGTERM)
        assert end_of(process) == 0, "".join(lines)


def test_a_client_that_goes_takes_its_request_with_it(model, rng):
    large = as_npy(rng.standard_normal((1, 3, 1500, 1500)).astype(np.float32))
    small = as_npy(np.ones((1, 3, 4, 4), np.float32))
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: {NPY['content-type']}\r\n"
    with server(model, "--instances", "1", "--threads", "1") as (_, port, lines):

        def gone() -> bool:
            """Return whether the server counted a client that left; all may be answered before."""
            found = None
            running = begun([lambda: ask(port, large)] * 5)
            # While any of them runs or waits, a new request has to wait.
            while found is None and any(thread.is_alive() for thread in running):
                with socket.create_connection(("127.0.0.1", port), PATIENCE) as plain:
                    plain.sendall(f"{head}Content-Length: {len(small)}\r\n\r\n".encode() + small)
                    time.sleep(0.002)
                text = text_of(port, "/metrics")
                found = re.search(r'total\{code="499"\} (\d+)', text)
            ended(running)
            return found is not None

        eventually(gone, "a request whose client has gone")
        assert ask(port, small)[0] == 200
        metrics = text_of(port, "/metrics")
    served = int(re.search(r"instance_served_total\{.*\} (\d+)", metrics)[1])
    answered = int(re.search(r'total\{code="200"\} (\d+)', metrics)[1])
    assert served <= answered, "".join(lines)


def test_a_model_that_is_not_there(capsys):
    assert main(["serve", "/nowhere.onnx"]) == 2
    assert "/nowhere.onnx" in capsys.readouterr().err


def test_arguments_that_are_none(model, capsys):
    assert main(["serve", str(model), "--queue-size", "0"]) == 2
    assert "queue_size" in capsys.readouterr().err
    for options in (
        ["--shape", "1x3"], ["--shape", "x=1xa"], ["--mode", "rocket"], ["--port", "65536"],
        ["--port", "-1"],
    ):  # fmt: skip
        with pytest.raises(SystemExit) as ended:
            main(["serve", str(model), *options])
        assert ended.value.code == 2


@pytest.mark.parametrize("mode", ["thread", pytest.param("process", marks=pytest.mark.slow)])
def test_a_broken_model_is_told_in_one_line(tmp_path, mode):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(small_model()[:-200])
    done = ran("-m", "pplconv", "serve", broken, "--port", "0", "--mode", mode, cwd=tmp_path)
    assert done.returncode == 2, done
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"pplconv serve: {broken}: ") and "ModelProto" in line


def test_instances_that_cannot_be_made_are_told_in_one_line(model, capfd):
    """The session is made, and its pool refuses."""
    assert main(["serve", str(model), "--port", "0", "--shape", "x=1x4x9x9"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert "'x'" in line and "4" in line


def test_a_taken_port_is_told_in_one_line(model, capfd):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(model), "--port", str(port)]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert str(port) in line and "--port" in line
    assert main(["serve", str(model), "--host", "nowhere.invalid"]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert "nowhere.invalid" in line


def test_missing_packages_are_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", "model.onnx"]) == 2
    assert "pip install pplconv[onnx,serve]" in capsys.readouterr().err
