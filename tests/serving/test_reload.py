"""Another model under traffic: each request is answered by one or the other, none is lost."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

import pplconv
from pplconv.integrations import asgi
from tests.patience import PATIENCE, eventually
from tests.serving.served import (
    INFER,
    NPY,
    Client,
    Gated,
    as_json,
    as_npy,
    in_flight,
    small_model,
    tensor,
)
from tests.threads import begun, ended

X = np.random.default_rng(3).standard_normal((1, 3, 60, 50)).astype(np.float32)


def model(seed: int) -> pplconv.InferenceSession:
    return pplconv.InferenceSession(small_model(seed=seed), threads=1)


def right(seed: int) -> bytes:
    return model(seed).run(["z"], {"x": X})[0].tobytes()


class Traffic:
    """Clients that ask without a pause; their answers, with the order of the requests."""

    def __init__(self, client: Client, clients: int = 6) -> None:
        self.answers: list[tuple[int, int, bytes]] = []
        self._count = itertools.count()
        self._client, self._ended = client, threading.Event()
        self._clients = clients

    def _ask(self) -> None:
        while not self._ended.is_set():
            number = next(self._count)
            answer = self._client.post(as_npy(X), NPY, f"{INFER}?output=z")
            self.answers.append((number, answer.status, answer.body[-20:]))

    def __enter__(self) -> Traffic:
        self._threads = begun([self._ask] * self._clients)
        self.wait()
        return self

    def wait(self, more: int = 30) -> int:
        """Wait for some more answers; return the number of the next request."""
        wanted = len(self.answers) + more
        eventually(lambda: len(self.answers) >= wanted, f"{more} answers")
        return next(self._count)

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        ended(self._threads)


@pytest.mark.parametrize("mode", ["thread", pytest.param("process", marks=pytest.mark.slow)])
@pytest.mark.parametrize("max_batch", [1, 4])
def test_each_request_is_answered_by_one_model_or_the_other(mode, max_batch):
    seeds = iter([0, 1, 2])
    application = asgi.app(
        lambda: model(next(seeds)), instances=2, threads=1, mode=mode, max_batch=max_batch,
        shapes=[{"x": X.shape}],
    )  # fmt: skip
    switched = []
    with Client(application) as client, Traffic(client) as traffic:
        for _ in range(2):
            client.do(application.state.reload()).result(PATIENCE)
            switched.append(traffic.wait())
        traffic.wait()
        metrics = client.get("/metrics").body.decode()
    bits = [right(seed) for seed in range(3)]
    assert len(set(bits)) == 3
    assert {status for _, status, _ in traffic.answers} == {200}
    # Joined rows may differ from single ones in the last bits.
    outputs = np.array([np.frombuffer(row, "f") for row in bits])
    models = [
        int(np.abs(outputs - np.frombuffer(got, "f")).max(axis=1).argmin())
        for _, _, got in traffic.answers
    ]
    if max_batch == 1:
        assert all(got == bits[i] for i, (_, _, got) in zip(models, traffic.answers, strict=True))
    for i, (number, _, _) in zip(models, traffic.answers, strict=True):
        # A request that was sent after a model took over is not answered by an older one.
        assert i >= sum(number > at for at in switched)
    assert set(models) == {0, 1, 2}
    assert 'pplconv_reloads_total{result="ok"} 2' in metrics


def test_a_model_that_cannot_be_made_leaves_the_old_one():
    makers = iter([lambda: model(0), lambda: pplconv.InferenceSession(b"broken"), dict])
    application = asgi.app(lambda: next(makers)(), instances=1, threads=1)
    with Client(application) as client, Traffic(client, 2) as traffic:
        for error in (ValueError, TypeError):
            with pytest.raises(error):
                client.do(application.state.reload()).result(PATIENCE)
        traffic.wait()
        metrics = client.get("/metrics").body.decode()
    assert {answer[1:] for answer in traffic.answers} == {(200, right(0))}
    assert 'pplconv_reloads_total{result="failed"} 2' in metrics
    assert 'pplconv_reloads_total{result="ok"} 0' in metrics


def test_a_failure_of_a_signal_is_logged(caplog):
    makers = iter([lambda: model(0), dict])
    application = asgi.app(lambda: next(makers)(), instances=1, threads=1)
    application.state.reload_soon()
    assert "has not started" in caplog.text
    with Client(application) as client:
        application.state.reload_soon()
        eventually(
            lambda: b'{result="failed"} 1' in client.get("/metrics").body, "the failure's count"
        )
        assert client.post(as_npy(X), NPY, f"{INFER}?output=z").status == 200
    assert "the old one goes on" in caplog.text and "got dict" in caplog.text


def test_a_request_keeps_the_model_that_it_came_to():
    old = Gated(model(0))
    application = asgi.app(lambda: old, instances=1, threads=1)
    path = f"{INFER}?output=z"
    with Client(application) as client:
        ready = threading.Event()

        def slowly():
            body = as_npy(X)
            yield body[:100]
            while not ready.is_set():
                yield 0.01
            yield body[100:]

        running = client.start("POST", path, as_npy(X), NPY)
        old.wait_entered()
        waiting = client.start("POST", path, as_npy(X), NPY)
        arriving = client.start("POST", path, slowly(), NPY)
        in_flight(client, 3)
        reload = client.do(application.state.reload(lambda: model(1), version="2"))
        eventually(
            lambda: client.get("/v2/models/model").json["versions"] == ["2"], "the second version"
        )
        answer = client.post(as_json(tensor(X)))
        assert answer.json["model_version"] == "2"
        assert client.post(as_npy(X), NPY, path).body[-20:] == right(1)
        first = "/v2/models/model/versions/1/infer"
        assert client.post(as_json(tensor(X)), path=first).status == 404
        old.opened.set()
        ready.set()
        for future in (running, waiting, arriving):
            assert future.result(PATIENCE).body[-20:] == right(0)
        reload.result(PATIENCE)


def test_a_stop_does_not_wait_for_a_model_that_is_made():
    begun, go_on = threading.Event(), threading.Event()

    def slow():
        begun.set()
        assert go_on.wait(PATIENCE)
        return model(1)

    def instances():
        return [t for t in threading.enumerate() if t.name.startswith("pplconv-instance")]

    application = asgi.app(lambda: model(0), instances=1, threads=1)
    with Client(application) as client:
        reload = client.do(application.state.reload(slow))
        assert begun.wait(PATIENCE)
        client.stop()
        with pytest.raises(RuntimeError, match="does not wait"):
            reload.result(PATIENCE)
        with pytest.raises(RuntimeError, match="does not serve"):
            client.do(application.state.reload()).result(PATIENCE)
        assert not instances()
    go_on.set()
    makers = [t for t in threading.enumerate() if t.name == "pplconv-serve-makes"]
    for thread in makers:
        thread.join(PATIENCE)
    assert not instances(), "what comes too late ends at once"
