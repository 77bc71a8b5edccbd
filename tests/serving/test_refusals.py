"""Refused requests and their status: malformed, hostile, too large, too many, too late."""

from __future__ import annotations

import gc
import gzip
import json
import threading
import tracemalloc
import zlib
from concurrent.futures import wait

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pplconv.integrations import asgi
from tests.network.models import model_of
from tests.patience import PATIENCE, eventually
from tests.serving.served import (
    INFER,
    NPY,
    Client,
    Gated,
    as_binary,
    as_json,
    as_npy,
    in_flight,
    outputs_of,
    served,
    session,
    tensor,
)

X = np.ones((1, 3, 6, 5), np.float32)


@pytest.fixture(scope="module")
def client():
    model = session(threads=1)
    with served(model, max_body=200_000, max_json=100_000) as made:
        yield made


def refused(answer, *words, status=422):
    assert answer.status == status, answer
    error = answer.json["error"]
    assert all(word in error for word in words), error
    assert len(error) < 500
    return error


def still_serves(client):
    assert outputs_of(client.post(as_json(tensor(X))))


def with_(**changed):
    item = {**tensor(X), **changed}
    return as_json({key: value for key, value in item.items() if value is not ...})


BAD_JSON = {
    "empty": (b"", "no JSON"),
    "half": (as_json(tensor(X))[:-3], "no JSON"),
    "no text": (b"\xff\xfe\x00", "no JSON"),
    "a list": (b"[1, 2]", "JSON object"),
    "NaN": (with_(data=[float("nan")] * 90), "NaN is no number"),
    "Infinity": (with_(data=[float("-inf")] * 90), "-Infinity is no number"),
    "deep": (b"[" * 50_000, "deeply"),
    "deep inputs": (b'{"inputs":' + b"[" * 200 + b"]" * 200 + b"}", "inputs[0]"),
    "a long integer": (b'{"inputs": ' + b"9" * 5_000 + b"}", "no JSON"),
    "no inputs": (b"{}", "inputs must be"),
    "inputs are empty": (b'{"inputs": []}', "inputs must be"),
    "inputs are an object": (b'{"inputs": {"x": 1}}', "inputs must be"),
    "an input is a number": (b'{"inputs": [1]}', "inputs[0] must be an object"),
    "no name": (with_(name=...), "inputs[0].name"),
    "another name": (with_(name="w"), "inputs[0].name", "'x'"),
    "a number as name": (with_(name=7), "inputs[0].name"),
    "a list as name": (with_(name=["x"]), "inputs[0].name"),
    "twice": (as_json(tensor(X), tensor(X)), "inputs[1].name", "twice"),
    "an output's name": (with_(name="y"), "inputs[0].name"),
    "no datatype": (with_(datatype=...), "inputs[0].datatype", "FP32"),
    "another datatype": (with_(datatype="FP64"), "inputs[0].datatype"),
    "no datatype's name": (with_(datatype={"a": 1}), "inputs[0].datatype"),
    "no shape": (with_(shape=...), "inputs[0].shape"),
    "a negative dimension": (with_(shape=[-1, 3, 6, 5]), "inputs[0].shape", "0 or more"),
    "two negative dimensions": (with_(shape=[-1, 3, -6, 5]), "inputs[0].shape"),
    "a dimension with a point": (with_(shape=[1, 3, 6.0, 5]), "inputs[0].shape"),
    "true as a dimension": (with_(shape=[True, 3, 6, 5]), "inputs[0].shape"),
    "a text as shape": (with_(shape="1x3x6x5"), "inputs[0].shape"),
    "too many dimensions": (with_(shape=[1] * 100), "inputs[0].shape"),
    "another rank": (with_(shape=[3, 6, 5]), "inputs[0].shape", "[-1, 3, -1, -1]"),
    "other channels": (with_(shape=[1, 6, 3, 5]), "inputs[0].shape"),
    "a huge product": (with_(shape=[2**61, 3, 2**61, 2**61]), "inputs[0].data"),
    "a dimension that no array has": (with_(shape=[2**62, 3, 6, 5]), "inputs[0].shape"),
    "a dimension of 4300 digits": (
        with_(shape=[1, 3, 6, "N"]).replace(b'"N"', b"9" * 4300), "inputs[0].shape", "bits",
    ),
    "half a character": (with_(datatype="\ud800"), "inputs[0].datatype", r"\ud800"),
    "a zero beside 2**61": (with_(shape=[0, 3, 2**61, 5], data=[]), "inputs[0].shape"),
    "a zero beside many": (with_(shape=[1, 3, 0, 30_000], data=[]), "inputs[0].shape", "beside"),
    "no model has texts": (with_(datatype="BYTES", data=["a"] * 90), "inputs[0].datatype"),
    "a text beside numbers": (with_(data=[1.0] * 89 + ["1"]), "inputs[0].data", "FP32"),
    "true beside numbers": (with_(data=[1.0] * 89 + [True]), "inputs[0].data", "FP32"),
    "null beside numbers": (with_(data=[1.0] * 89 + [None]), "inputs[0].data", "FP32"),
    "an object beside numbers": (with_(data=[1.0] * 89 + [{}]), "inputs[0].data", "FP32"),
    "a long number": (with_(data=[1.0] * 89 + [10**400]), "inputs[0].data", "FP32"),
    "a large exponent": (
        with_(data=[1.0] * 89 + ["N"]).replace(b'"N"', b"1e400"), "inputs[0].data", "FP32",
    ),
    "many objects": (with_(data=[{}] * 5_000), "the request", "flat"),
    "a product that wraps to 90": (with_(shape=[2**32 + 1, 3, 2**32, 30]), "inputs[0].data"),
    "too few": (with_(data=[1.0] * 89), "inputs[0].data", "[89]"),
    "too many": (with_(data=[1.0] * 91), "inputs[0].data", "[91]"),
    "none": (with_(data=[]), "inputs[0].data"),
    "no data": (with_(data=...), "inputs[0].data"),
    "a number as data": (with_(data=1.0), "inputs[0].data"),
    "a text as data": (with_(data="1" * 90), "inputs[0].data"),
    "texts": (with_(data=["1"] * 90), "inputs[0].data"),
    "null": (with_(data=[None] * 90), "inputs[0].data"),
    "booleans": (with_(data=[True] * 90), "inputs[0].data"),
    "objects": (with_(data=[{}] * 90), "inputs[0].data"),
    "ragged": (with_(data=[[1.0] * 45, [1.0] * 44, 1.0]), "inputs[0].data"),
    "nested otherwise": (with_(data=X.reshape(5, 6, 3, 1).tolist()), "inputs[0].data"),
    "beyond float32": (with_(data=[1e39] * 90), "beyond FP32"),
    "beyond float64": (as_json(tensor(X)).replace(b"1.0", b"1e999"), "beyond FP32"),
    "an integer beyond all": (with_(data=[10**400] * 90), "inputs[0].data"),
    "parameters": (with_(parameters=[1]), "inputs[0].parameters"),
    "bytes that are not there": (
        with_(data=..., parameters={"binary_data_size": 360}), "inputs[0].parameters.binary_data",
    ),
    "data and bytes": (with_(parameters={"binary_data_size": 0}), "both data and"),
    "id": (as_json(tensor(X), id=7), "id must be"),
    "outputs": (as_json(tensor(X), outputs="y"), "outputs must be"),
    "no outputs": (as_json(tensor(X), outputs=[]), "outputs must be"),
    "another output": (as_json(tensor(X), outputs=[{"name": "x"}]), "outputs[0].name", "'z'"),
    "outputs twice": (as_json(tensor(X), outputs=[{"name": "y"}] * 2), "outputs[1].name"),
    "a flag that is none": (
        as_json(tensor(X), outputs=[{"name": "y", "parameters": {"binary_data": 1}}]),
        "outputs[0].parameters.binary_data",
    ),
    "the request's flag": (
        as_json(tensor(X), parameters={"binary_data_output": "yes"}), "binary_data_output",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_JSON)
def test_malformed_json(client, case):
    body, *words = BAD_JSON[case]
    refused(client.post(body), *words)


def test_the_server_serves_after_all_of_that(client):
    for body, *_ in BAD_JSON.values():
        assert client.post(body).status == 422
    still_serves(client)


@pytest.mark.parametrize(
    "length", ["-1", "x", "", "1e2", "0x10", "99999999999999999999", "\xb2", "12 ", "+5", "1_0"]
)
def test_a_header_length_that_is_no_number(client, length):
    body, _ = as_binary(X)
    answer = client.post(body, {"Inference-Header-Content-Length": length})
    refused(answer, "inference-header-content-length")


def test_a_header_length_beyond_the_body(client):
    body, _ = as_binary(X)
    answer = client.post(body, {"Inference-Header-Content-Length": str(len(body) + 1)})
    refused(answer, "inference-header-content-length", str(len(body)))
    answer = client.post(body, {"Inference-Header-Content-Length": "100001"})
    refused(answer, "inference-header-content-length", status=413)


@pytest.mark.parametrize("length", [0, 1, 40, -1, -359, -361])
def test_a_header_length_that_is_wrong(client, length):
    body, headers = as_binary(X)
    right = int(headers["Inference-Header-Content-Length"])
    wrong = str(right + length if length < 0 else length)
    refused(client.post(body, {"Inference-Header-Content-Length": wrong}))


@pytest.mark.parametrize("size", [0, 1, 356, 359, 361, 364, -1, 2**63, 360.0, "360", True, None])
def test_a_binary_size_that_is_wrong(client, size):
    item = {**tensor(X), "parameters": {"binary_data_size": size}}
    del item["data"]
    head = as_json(item)
    headers = {"Inference-Header-Content-Length": str(len(head))}
    refused(client.post(head + X.tobytes(), headers), "inputs")


@pytest.mark.parametrize("cut", [1, 4, 359, 360])
def test_truncated_binary(client, cut):
    body, headers = as_binary(X)
    refused(client.post(body[:-cut], headers), "binary_data_size")


def test_bytes_that_are_left_over(client):
    body, headers = as_binary(X)
    refused(client.post(body + b"\0", headers), "1 bytes are left over")


def npy_header(text: str, data: bytes = b"") -> bytes:
    raw = text.encode("latin1")
    return b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw + data


NPY_OK = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 6, 5)}\n"
BAD_NPY = {
    "empty": b"",
    "magic alone": b"\x93NUMPY",
    "another version": b"\x93NUMPY\x09\x00" + as_npy(X)[8:],
    "version 3": b"\x93NUMPY\x03\x00" + as_npy(X)[8:],
    "half a header": as_npy(X)[:40],
    "no data": as_npy(X)[:-360],
    "truncated": as_npy(X)[:-1],
    "too long": as_npy(X) + b"\0",
    "no header": npy_header("{}\n", X.tobytes()),
    "code": npy_header("__import__('os').abort()\n", X.tobytes()),
    "deep": npy_header("(" * 5_000 + ")" * 5_000, X.tobytes()),
    "a long header": npy_header(NPY_OK + " " * 60_000, X.tobytes()),
    "negative": npy_header(NPY_OK.replace("(1,", "(-1,"), X.tobytes()),
    "huge": npy_header(NPY_OK.replace("(1,", f"({2**62},"), X.tobytes()),
    "wraps": npy_header(NPY_OK.replace("(1,", f"({2**64 + 1},"), X.tobytes()),
    "many dimensions": npy_header(NPY_OK.replace("(1,", "(1," + "1," * 200), X.tobytes()),
    "objects": npy_header(NPY_OK.replace("<f4", "|O"), X.tobytes()),
    "texts": npy_header(NPY_OK.replace("<f4", "<U1"), X.tobytes()),
    "nothing": npy_header(NPY_OK.replace("<f4", "|V0"), b""),
    "fields": npy_header(NPY_OK.replace("'<f4'", "[('a', '<f4')]"), X.tobytes()),
    "complex": as_npy(X.astype("c8")),
    "long double": as_npy(X.astype("g")),
    "another type": as_npy(X.astype("f8")),
    "another shape": as_npy(X[0]),
    "other channels": as_npy(X[:, :2]),
    "a pickle": b"\x80\x04K\x01.",
    "zip": b"PK\x03\x04" + b"\0" * 100,
}


@pytest.mark.parametrize("case", BAD_NPY)
def test_malformed_npy(client, case):
    refused(client.post(BAD_NPY[case], NPY, f"{INFER}?output=z"), "body")


@pytest.mark.parametrize(
    "encoding, compress", [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
@pytest.mark.parametrize("headers", [{}, NPY])
def test_bodies_that_decompress_to_too_much_are_not_decompressed(
    client, encoding, compress, headers
):
    bomb = compress(bytes(100 << 20))
    assert len(bomb) < 120_000  # the client may send 200 kB
    gc.collect()
    tracemalloc.start()
    try:
        answer = client.post(bomb, {**headers, "content-encoding": encoding})
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    refused(answer, "200000" if headers else "100000", status=413)
    still_serves(client)


def test_many_bytes_that_decompress_to_nothing(client):
    nothing = [b"\x78\x9c"] + [b"\0\0\0\xff\xff" * 10_000] * 5  # stored blocks of no bytes
    refused(client.post(nothing, {"content-encoding": "deflate"}), "200000", status=413)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_bodies_that_cannot_be_decompressed(client, encoding):
    body = as_json(tensor(X))
    good = gzip.compress(body) if encoding == "gzip" else zlib.compress(body)
    for wrong in (b"", body, good[:-1], good + b"\0", zlib.compress(body, wbits=-15), [good, good]):
        answer = client.post(wrong, {"content-encoding": encoding})
        refused(answer, "Content-Encoding", encoding)
    still_serves(client)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress", ""])
def test_other_encodings_are_refused(client, encoding):
    """As RFC 9110 has it (15.5.16), the answer says what would be taken."""
    answer = client.post(as_json(tensor(X)), {"content-encoding": encoding})
    refused(answer, "Content-Encoding", status=415)
    assert answer.headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize("name", ["classification", "shared_memory_region"])
def test_extensions_of_triton_are_refused_by_name(client, name):
    """These are parameters that tritonclient sends for class_count and shared memory."""
    asked = [{"name": "y"}, {"name": "z", "parameters": {name: 3}}]
    refused(client.post(as_json(tensor(X), outputs=asked)), f"outputs[1].parameters.{name}")


def test_npy_needs_an_output(client):
    refused(client.post(as_npy(X), NPY), "output", "'y'")
    refused(client.post(as_npy(X), NPY, f"{INFER}?output=w"), "output")


@given(st.data())
def test_mutated_messages_are_answered(client, data):
    """Every message gets an answer, and no answer says that the server failed."""
    body, headers = data.draw(st.sampled_from([
        (as_json(tensor(X)), {}), as_binary(X), (as_npy(X), NPY),
    ]))  # fmt: skip
    body = bytearray(body)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] = data.draw(st.integers(0, 255))
    body = bytes(body[: data.draw(st.integers(0, len(body)))]) if data.draw(st.booleans()) else body
    answer = client.post(bytes(body), headers, f"{INFER}?output=z")
    assert answer.status in (200, 422), answer


def test_results_that_json_has_not(client):
    x = X.copy()
    x[0, 0, 2, 2] = np.inf
    refused(client.post(*as_binary(x)), "output 'y'", "NaN or infinities", "binary")
    body, headers = as_binary(x, parameters={"binary_data_output": True})
    assert not np.isfinite(outputs_of(client.post(body, headers))["y"]).all()


# Too large, too slow


def test_a_body_that_says_that_it_is_too_large(client):
    answer = client.post(b"x", {**NPY, "content-length": "200001"})
    refused(answer, "200000 bytes", status=413)
    assert answer.headers["connection"] == "close"
    refused(client.post(b"x", {**NPY, "content-length": "9" * 50}), status=413)


def test_a_body_is_counted_while_it_arrives(client):
    taken = []

    def endless():
        while True:
            taken.append(1000)
            yield b"x" * 1000

    refused(client.post(endless(), {**NPY, "content-length": "10"}), status=413)
    assert sum(taken) < 500_000, "it stops to read"
    still_serves(client)


def test_json_has_a_bound_of_its_own(client):
    refused(client.post(b" " * 100_001), "100000 bytes", status=413)
    x = np.ones((1, 3, 100, 100), np.float32)
    assert client.post(*as_binary(x, outputs=[{"name": "z"}])).status == 200


def test_a_body_that_does_not_end():
    """Nobody waits for the rest of it, which would come long after `PATIENCE`."""
    model = session(threads=1)
    application = asgi.app(lambda: model, instances=1, threads=1, body_timeout=0.2)
    with Client(application) as client:
        refused(client.post([b"x", 10 * PATIENCE]), "0.2 s", status=408)
        assert client.get("/healthz").status == 200


def test_a_client_that_has_gone(client):
    assert client.post([b"{", ConnectionError()]).status == 499
    still_serves(client)


@pytest.mark.parametrize("max_batch", [1, 4])
def test_a_request_that_waits_ends_with_its_client(max_batch):
    asked = []

    class Seen(Gated):
        def __call__(self, feed):
            asked.extend(feed["x"][:, 0, 0, 0])
            return super().__call__(feed)

    gated = Seen(session(threads=1))
    with served(gated, max_batch=max_batch) as client:
        runs, waits = threading.Event(), threading.Event()
        running = client.start("POST", INFER, as_json(tensor(X)), None, runs)
        gated.wait_entered()
        waiting = client.start("POST", INFER, as_json(tensor(2 * X)), None, waits)
        last = client.start("POST", INFER, as_json(tensor(3 * X)))
        in_flight(client, 3)
        runs.set()
        waits.set()
        assert waiting.result(PATIENCE).status == 499, "while the instance is busy"
        assert not running.done()
        gated.opened.set()
        assert last.result(PATIENCE).status == 200
        assert running.result(PATIENCE).status == 200, "it ran already"
        text = client.get("/metrics").body.decode()
    assert asked == [1.0, 3.0]
    assert 'pplconv_requests_total{code="499"} 1' in text
    assert "pplconv_in_flight 0" in text


# Too many


def test_too_many_are_told_to_come_again():
    gated = Gated(session(threads=1))
    with Client(asgi.app(lambda: gated, instances=2, threads=1, queue_size=3)) as client:
        body = as_json(tensor(X))
        running = [client.start("POST", INFER, body) for _ in range(5)]
        gated.wait_entered(2)
        in_flight(client, 5)
        for _ in range(3):
            answer = client.post(body)
            refused(answer, "try again", status=503)
            assert int(answer.headers["retry-after"]) >= 1
        assert client.get("/healthz").status == 200, "the loop waits for nobody"
        gated.opened.set()
        wait(running, PATIENCE)
        assert [future.result().status for future in running] == [200] * 5
        assert client.post(body).status == 200
        text = client.get("/metrics").body.decode()
    assert 'pplconv_requests_total{code="200"} 6' in text
    assert 'pplconv_requests_total{code="503"} 3' in text


def test_answers_that_nobody_reads_take_no_place_from_others():
    model = session(threads=1)
    with served(model, queue_size=1) as client:
        reads = threading.Event()
        unread = []
        for count in range(1, 5):  # there are two places
            unread.append(client.start("POST", INFER, as_json(tensor(X)), reads=reads))
            eventually(lambda count=count: client.unread == count, "an answer that is there")
        still_serves(client)
        assert not any(future.done() for future in unread)
        reads.set()
        assert [future.result(PATIENCE).status for future in unread] == [200] * 4


def test_what_was_let_in_is_answered_before_the_end():
    gated = Gated(session(threads=1))
    with served(gated) as client:
        running = [client.start("POST", INFER, as_json(tensor(X))) for _ in range(4)]
        gated.wait_entered()
        in_flight(client, 4)
        stopping = threading.Thread(target=client.stop)
        stopping.start()
        eventually(lambda: client.get("/healthz").status != 200, "a server that stops")
        refused(client.post(as_json(tensor(X))), "stopping", status=503)
        gated.opened.set()
        stopping.join(PATIENCE)
        assert [future.result(PATIENCE).status for future in running] == [200] * 4


def test_a_model_that_fails_is_the_servers_fault(caplog):
    class Broken(Gated):
        def __call__(self, feed):
            raise KeyError("secret")

    with served(Broken(session(threads=1))) as client:
        answer = client.post(as_json(tensor(X)))
        error = refused(answer, status=500)
        assert "secret" not in error and "secret" in caplog.text
        metrics = client.get("/metrics").body
        assert b'pplconv_instance_errors_total{instance="0"} 1' in metrics
        assert b'pplconv_requests_total{code="500"} 1' in metrics


def test_shapes_that_contradict_inside_the_model_are_the_clients(client):
    from onnx import helper

    import pplconv

    add = helper.make_node("Add", ["a", "b"], ["c"])
    inputs = {"a": ("f4", ["a0"]), "b": ("f4", ["b0"])}
    proto = model_of([add], inputs, outputs=("c",), opset=20)
    one = pplconv.InferenceSession(proto, threads=1)
    with served(one) as other:
        a, b = tensor(np.ones(3, "f"), "a"), tensor(np.ones(4, "f"), "b")
        refused(other.post(as_json(a, b)), "inputs")
        refused(other.post(as_json(a)), "'b' is missing")
        assert json.loads(other.post(as_json({**b, "name": "a"}, b)).body)["outputs"]


class Making(Gated):
    """A session that makes programs of other shapes only once a test lets it."""

    def is_ready_for(self, feed):
        return self.inner.is_ready_for(feed)

    def plan_for(self, feed):
        return self.inner.plan_for(super(Gated, self).__call__(feed))

    def __call__(self, feed):
        return self.inner(feed)


def test_known_shapes_are_answered_while_programs_of_others_are_made():
    making = Making(session(threads=1))
    making.inner.run(None, {"x": X})
    with served(making, queue_size=9, max_making=2) as client:
        first = client.start("POST", INFER, as_json(tensor(X[:, :, :3])))
        again = client.start("POST", INFER, as_json(tensor(X[:, :, :3])))
        making.wait_entered()
        second = client.start("POST", INFER, as_json(tensor(X[:, :, :4])))
        in_flight(client, 3)
        for _ in range(3):
            still_serves(client)
            refused(client.post(as_json(tensor(X[:, :, :5]))), "shapes", status=503)
        making.opened.set()
        assert [f.result(PATIENCE).status for f in (first, again, second)] == [200] * 3
        assert client.post(as_json(tensor(X[:, :, :5]))).status == 200
        # Inputs that do not fit the model are the client's error, even if they need a new program.
        refused(client.post(as_json(tensor(X[:, :2]))), "shape")


@pytest.mark.parametrize("max_batch", [1, 4])
def test_only_some_shapes_are_served(max_batch):
    one = session(threads=1)
    with served(one, shapes=[{"x": (1, 3, 6, 5)}], shapes_only=True, max_batch=max_batch) as client:
        still_serves(client)
        rows = np.concatenate([X] * max_batch)
        assert client.post(as_json(tensor(rows))).status == 200
        for other in (X[:, :, :5], np.concatenate([rows, X])):
            refused(client.post(as_json(tensor(other))), "none of those that are served")
    with pytest.raises(ValueError, match="shapes_only"):
        asgi.app(session, shapes_only=True)


def test_outputs_count_until_they_are_read():
    """One answer is 30,720 numbers; `max_held` has room for one such answer, not for two."""
    x = np.ones((1, 3, 64, 60), np.float32)
    one = session(threads=1)
    with served(one, max_body=100_000, max_held=150_000, max_json_answer=1 << 20) as client:
        body, headers = as_binary(x, parameters={"binary_data_output": True})
        for _ in range(5):  # the room of answers that were read is given back
            assert outputs_of(client.post(body, headers))["y"].size == 30_720
        rows = as_binary(np.concatenate([x, x]), parameters={"binary_data_output": True})
        refused(client.post(*rows), "max_held")
        still_serves(client)
