"""Metrics, as Prometheus would read them."""

from __future__ import annotations

import re

import numpy as np

from pplconv.integrations import asgi
from tests.patience import PATIENCE
from tests.serving.served import Client, as_binary, as_json, outputs_of, served, session, tensor
from tests.threads import at_once

SAMPLE = re.compile(r'([a-z_]+)(?:\{([a-z_]+)="([^"\\\n]*)"\})? (\S+)')


def parsed(text: str) -> dict[tuple[str, str], float]:
    """All samples; each must belong to a family that was declared before, and end its line."""
    assert text.endswith("\n")
    kinds, found = {}, {}
    for line in text.splitlines():
        if line.startswith("#"):
            _, what, name, rest = line.split(" ", 3)
            if what == "TYPE":
                assert name not in kinds and rest in ("counter", "gauge", "histogram")
                kinds[name] = rest
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        name, _, value, number = match.groups()
        family = name if name in kinds else name.rpartition("_")[0]
        assert family in kinds, name
        assert (name, value or "") not in found
        found[name, value or ""] = float(number)
    return found


def test_what_a_server_counts(rng):
    model = session(threads=1)
    with Client(asgi.app(lambda: model, instances=2, threads=1)) as client:
        begin = parsed(client.get("/metrics").body.decode())
        assert begin["pplconv_ready", ""] == 1
        x = rng.standard_normal((1, 3, 6, 5)).astype(np.float32)
        sent = 0
        for _ in range(3):
            body, headers = as_binary(x)
            sent += len(body)
            assert client.post(body, headers).status == 200
        bad = as_json(tensor(x[0]))
        assert client.post(bad).status == 422
        answer = client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        got = parsed(answer.body.decode())
    assert got["pplconv_requests_total", "200"] == 3
    assert got["pplconv_requests_total", "422"] == 1
    assert got["pplconv_request_seconds_count", ""] == 3
    assert got["pplconv_request_seconds_bucket", "+Inf"] == 3
    buckets = [v for (name, _), v in got.items() if name == "pplconv_request_seconds_bucket"]
    assert buckets == sorted(buckets)
    assert got["pplconv_request_seconds_sum", ""] > 0
    assert got["pplconv_bytes_in_total", ""] == sent + len(bad)
    assert got["pplconv_in_flight", ""] == 0
    served = [got["pplconv_instance_served_total", str(i)] for i in range(2)]
    assert sum(served) == 3
    assert got["pplconv_instance_replaced_total", "0"] == 0


def test_many_clients_at_once_each_get_their_own(rng):
    model = session(threads=1)
    xs = [rng.standard_normal((1, 3, 6, 5)).astype(np.float32) for _ in range(6)]
    expected = [model.run(None, {"x": x})[0].tobytes() for x in xs]
    wrong = []
    with Client(asgi.app(lambda: model, instances=2, threads=1, queue_size=64)) as client:

        def ask(own: int) -> None:
            for turn in range(20):
                index = (own + turn) % len(xs)
                body, headers = as_binary(xs[index], parameters={"binary_data_output": True})
                if outputs_of(client.post(body, headers))["y"].tobytes() != expected[index]:
                    wrong.append((own, turn))

        at_once(8, ask)
        counts = parsed(client.get("/metrics").body.decode())
    assert wrong == []
    assert counts["pplconv_requests_total", "200"] == 160
    assert sum(v for (n, _), v in counts.items() if n == "pplconv_instance_served_total") == 160


def test_joined_requests_are_the_session_on_all_rows(rng):
    model = session(threads=1)
    xs = [rng.standard_normal((1, 3, 6, 5)).astype(np.float32) for _ in range(4)]
    together = model.run(None, {"x": np.concatenate(xs)})[0]
    with served(model, max_batch=4, max_delay=10 * PATIENCE) as client:
        futures = []
        for x in xs:
            body, headers = as_binary(x, parameters={"binary_data_output": True})
            futures.append(client.start("POST", "/v2/models/model/infer", body, headers))
        for i, future in enumerate(futures):
            assert (
                outputs_of(future.result(PATIENCE))["y"].tobytes() == together[i : i + 1].tobytes()
            )


def test_shapes_are_ready_before_the_first_request(rng):
    model = session(threads=1)
    with served(model, max_batch=4, shapes=[{"x": (1, 3, 6, 5)}]):  # fmt: skip
        made = sorted(key[0] for key in model._network.programs)
    assert made == [((n, 3, 6, 5),) for n in (1, 2, 4)]
