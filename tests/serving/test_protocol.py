"""The Open Inference Protocol: what goes in, and the bits of the session that come out."""

from __future__ import annotations

import gzip
import io
import json
import threading
import zlib

import numpy as np
import pytest

import pplconv
from pplconv.integrations import asgi
from tests.network.models import model_of
from tests.serving.served import (
    INFER,
    NPY,
    Client,
    as_binary,
    as_json,
    as_npy,
    outputs_of,
    served,
    session,
    small_model,
    tensor,
)


@pytest.fixture(scope="module")
def model():
    return session(threads=1)


@pytest.fixture(scope="module")
def client(model):
    with served(model) as made:
        yield made


@pytest.fixture
def x(rng):
    return rng.standard_normal((2, 3, 6, 5)).astype(np.float32)


def same(got, model, x):
    expected = dict(zip(["y", "z"], model.run(None, {"x": x}), strict=True))
    for name, array in got.items():
        assert array.shape == expected[name].shape
        assert array.tobytes() == expected[name].tobytes()


def test_json_in_and_out(client, model, x):
    answer = client.post(as_json(tensor(x), id="seven"))
    assert answer.headers["content-type"] == "application/json"
    told = answer.json
    assert (told["model_name"], told["model_version"], told["id"]) == ("model", "1", "seven")
    got = outputs_of(answer)
    assert list(got) == ["y", "z"]
    same(got, model, x)


def test_nested_lists_are_the_same(client, model, x):
    item = {**tensor(x), "data": x.tolist()}
    same(outputs_of(client.post(as_json(item))), model, x)


def test_bytes_in_and_out(client, model, x):
    body, headers = as_binary(x, parameters={"binary_data_output": True})
    answer = client.post(body, headers)
    assert answer.headers["content-type"] == "application/octet-stream"
    head = answer.body[: int(answer.headers["inference-header-content-length"])]
    assert [o["parameters"]["binary_data_size"] for o in json.loads(head)["outputs"]] == [
        2 * 8 * 6 * 5 * 4, 2 * 5 * 4,
    ]  # fmt: skip
    same(outputs_of(answer), model, x)


def test_a_header_of_all_bytes_is_json(client, model, x):
    body = as_json(tensor(x))
    answer = client.post(body, {"Inference-Header-Content-Length": str(len(body))})
    same(outputs_of(answer), model, x)


@pytest.mark.parametrize("asked", [
    [{"name": "z"}],
    [{"name": "z", "parameters": {"binary_data": True}}, {"name": "y"}],
    [{"name": "y", "parameters": {"binary_data": True}}],
])  # fmt: skip
def test_outputs_are_chosen_one_by_one(client, model, x, asked):
    answer = client.post(as_json(tensor(x), outputs=asked))
    got = outputs_of(answer)
    assert list(got) == [item["name"] for item in asked]
    same(got, model, x)
    any_binary = any("parameters" in item for item in asked)
    assert ("inference-header-content-length" in answer.headers) is any_binary


def test_one_output_may_be_json_where_bytes_are_the_rule(client, model, x):
    answer = client.post(as_json(
        tensor(x), parameters={"binary_data_output": True},
        outputs=[{"name": "y"}, {"name": "z", "parameters": {"binary_data": False}}],
    ))  # fmt: skip
    same(outputs_of(answer), model, x)
    assert b'"data"' in answer.body


@pytest.mark.parametrize("arrange", [
    lambda x: x, np.asfortranarray, lambda x: x.astype(">f4"),
    lambda x: np.asfortranarray(x.astype(">f4")),
], ids=["C", "Fortran", "big-endian", "both"])  # fmt: skip
def test_npy_in_and_out(client, model, x, arrange):
    answer = client.post(
        as_npy(arrange(x)), {"content-type": "application/x-npy"}, f"{INFER}?output=z"
    )
    assert answer.status == 200 and answer.headers["content-type"] == "application/x-npy"
    same({"z": np.load(io.BytesIO(answer.body))}, model, x)


@pytest.mark.parametrize("headers", [{}, {"content-type": "application/x-www-form-urlencoded"}])
def test_npy_files_are_known_by_their_first_bytes(model, x, headers):
    """Curl sends forms if it is told nothing else; a large file must not be taken for JSON."""
    body = as_npy(x)
    pieces = [body[:2], body[2:5], body[5:]]
    with served(model, max_json=200) as client:
        for sent in (body, pieces):
            answer = client.post(sent, headers, f"{INFER}?output=z")
            assert answer.headers["content-type"] == "application/x-npy", answer
            same({"z": np.load(io.BytesIO(answer.body))}, model, x)


@pytest.mark.parametrize(
    "encoding, compress", [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
def test_compressed_bodies(client, model, rng, encoding, compress):
    headers = {"content-encoding": encoding}
    x = np.round(rng.standard_normal((2, 3, 300, 200)), 1).astype(np.float32)
    path = f"{INFER}?output=z"
    squeezed = compress(as_npy(x))
    chunks = [squeezed[i : i + 997] for i in range(0, len(squeezed), 997)]
    for sent in (squeezed, chunks):
        answer = client.post(sent, {**NPY, **headers}, path)
        same({"z": np.load(io.BytesIO(answer.body))}, model, x)
    body, length = as_binary(x)  # the length of the header is that before compression
    same(outputs_of(client.post(compress(body), {**length, **headers})), model, x)
    small = x[:, :, :6, :5]
    same(outputs_of(client.post(compress(as_json(tensor(small))), headers)), model, small)


def test_npy_files_of_version_2(client, model, x):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, x, version=(2, 0))
    answer = client.post(
        stream.getvalue(), {"content-type": "application/x-npy; charset=binary"},
        f"{INFER}?output=y",
    )  # fmt: skip
    same({"y": np.load(io.BytesIO(answer.body))}, model, x)


def test_integers_are_numbers_too(client, model, x):
    """Also those beyond 64 bits, and beside fractions."""
    x = x.round() * 2**70
    x.flat[0] = 0.5
    data = [0.5, *(int(number) for number in x.reshape(-1)[1:])]
    same(outputs_of(client.post(as_json({**tensor(x), "data": data}))), model, x)
    x.flat[0] = 1
    data[0] = 1
    same(outputs_of(client.post(as_json({**tensor(x), "data": data}))), model, x)


def test_a_large_npy_file_is_not_read_in_the_event_loop(model, monkeypatch, rng):
    """Unaligned or byte-swapped numbers are copied; other requests must not wait for that."""
    from pplconv.integrations.asgi import inference

    threads = []
    read = inference.read_npy

    def noted(*args):
        threads.append(threading.current_thread().name)
        return read(*args)

    monkeypatch.setattr(inference, "read_npy", noted)
    x = rng.standard_normal((1, 3, 70, 90)).astype(">f4")
    with served(model) as client:
        for array in (x, x[:, :, :6, :5]):
            answer = client.post(as_npy(array), NPY, f"{INFER}?output=y")
            same({"y": np.load(io.BytesIO(answer.body))}, model, array.astype("f4"))
    assert threads[0].startswith("pplconv-serve") and not threads[1].startswith("pplconv-serve")


def test_large_messages_are_the_same(client, model, rng):
    x = rng.standard_normal((1, 3, 70, 90)).astype(np.float32)
    same(outputs_of(client.post(as_json(tensor(x)))), model, x)
    same(outputs_of(client.post(*as_binary(x))), model, x)


def test_bodies_come_in_any_pieces(client, model, x):
    body, headers = as_binary(x, parameters={"binary_data_output": True})
    pieces = [body[:1], b"", body[1:50], 0.01, body[50:51], body[51:]]
    same(outputs_of(client.post(pieces, headers)), model, x)


def test_what_the_model_is(client):
    told = client.get("/v2/models/model").json
    assert told["name"] == "model" and told["versions"] == ["1"]
    assert told["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 3, -1, -1]}]
    assert [o["name"] for o in told["outputs"]] == ["y", "z"]
    assert client.get("/v2/models/model/versions/1").json == told


def test_what_the_server_is(client):
    told = client.get("/v2").json
    assert told["name"] == "pplconv" and told["version"] == pplconv.__version__
    assert "binary_tensor_data" in told["extensions"]


@pytest.mark.parametrize("path", [
    "/v2/health/live", "/v2/health/ready", "/v2/models/model/ready", "/healthz",
    "/v2/models/model/versions/1/ready",
])  # fmt: skip
def test_health(client, path):
    assert client.get(path).status == 200


def test_versions_have_their_path(client, model, x):
    answer = client.post(as_json(tensor(x)), path="/v2/models/model/versions/1/infer")
    same(outputs_of(answer), model, x)


@pytest.mark.parametrize("path", [
    "/v2/models/other", "/v2/models/other/ready", "/v2/models/model/versions/2",
    "/v2/models/model/versions/2/ready", "/v3",
])  # fmt: skip
def test_what_is_not_there(client, path):
    answer = client.get(path)
    assert answer.status == 404
    assert answer.json["error"]


def test_methods_that_a_path_does_not_take(client):
    answer = client.get(INFER)
    assert answer.status == 405
    assert answer.json["error"] == f"{INFER} takes POST, not GET"
    assert answer.headers["allow"] == "POST"


def test_the_configuration_and_the_index_of_models(client):
    """As clients of Triton ask for them."""
    told = client.get("/v2/models/model").json
    found = client.get("/v2/models/model/config").json
    assert found["name"] == "model" and found["max_batch_size"] == 0
    for one, other in (("input", "inputs"), ("output", "outputs")):
        assert found[one] == [
            {"name": each["name"], "data_type": f"TYPE_{each['datatype']}", "dims": each["shape"]}
            for each in told[other]
        ]
    assert client.get("/v2/models/other/config").status == 404
    index = client.post(b"{}", path="/v2/repository/index").json
    assert index == [{"name": "model", "version": "1", "state": "READY"}]


def test_inference_where_there_is_no_model(client, x):
    answer = client.post(as_json(tensor(x)), path="/v2/models/other/infer")
    assert answer.status == 404 and "'other'" in answer.json["error"]
    assert client.get(INFER).status == 405


def test_models_of_one_output_need_no_name_for_it(rng):
    import onnx

    proto = onnx.ModelProto.FromString(small_model())
    del proto.graph.output[0]
    one = pplconv.InferenceSession(proto, threads=1)
    x = rng.standard_normal((1, 3, 4, 4)).astype(np.float32)
    with Client(asgi.app(lambda: one, name="one", version="v7", instances=1, threads=1)) as client:
        answer = client.post(
            as_npy(x), {"content-type": "application/x-npy"}, "/v2/models/one/versions/v7/infer"
        )
    (expected,) = one.run(None, {"x": x})
    assert np.load(io.BytesIO(answer.body)).tobytes() == expected.tobytes()


def test_other_types_of_numbers(rng):
    from onnx import helper

    kinds = {
        "b": ("?", "BOOL"), "i": ("i8", "INT64"), "u": ("u1", "UINT8"), "d": ("f8", "FP64"),
        "h": ("f2", "FP16"), "w": ("u8", "UINT64"),
    }  # fmt: skip
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in kinds]
    inputs = {name: (dtype, ["N"]) for name, (dtype, _) in kinds.items()}
    outputs = {f"{name}_out": of for name, of in inputs.items()}
    proto = model_of(nodes, inputs, outputs=outputs, opset=20)
    feed = {
        name: rng.integers(0, 2, 6).astype(dtype) if name == "b"
        else (rng.standard_normal(6) * 50).astype("i8" if name in "uw" else dtype)
        for name, (dtype, _) in kinds.items()
    }  # fmt: skip
    feed["u"] = (feed["u"] % 256).astype("u1")
    # Numbers that only this type holds, beside small ones.
    feed["w"] = np.array([2**63, 1, 2**64 - 1, 0, 2**53 + 1, 7], "u8")
    feed["i"][:3] = 2**63 - 1, -(2**63), 2**53 + 1
    feed["d"][:2] = 2.0**70, 2.0**64
    one = pplconv.InferenceSession(proto, threads=1)
    with served(one) as client:
        told = {i["name"]: i["datatype"] for i in client.get("/v2/models/model").json["inputs"]}
        assert told == {name: text for name, (_, text) in kinds.items()}
        body, headers = as_binary(*feed.values(), names=feed)
        for given in ((as_json(*(tensor(a, n) for n, a in feed.items())), {}), (body, headers)):
            answer = client.post(*given)
            assert answer.status == 200, answer
            for item in answer.json["outputs"]:
                expected = feed[item["name"][0]]
                got = np.array(item["data"], expected.dtype)
                assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("name", "value"), [
    ("name", ""), ("name", "a/b"), ("name", 3), ("version", ""), ("max_body", 0),
    ("max_json", 1.5), ("queue_size", 0), ("max_batch", True), ("body_timeout", 0),
    ("body_timeout", float("nan")),
])  # fmt: skip
def test_arguments_that_are_none_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        asgi.app(session, **{name: value})


@pytest.mark.parametrize(("settings", "message"), [
    ({"mode": "rocket"}, "mode"), ({"retries": -1}, "retries"),
    ({"shapes": [{"y": (1, 3, 4, 4)}]}, "shapes.*'x'"),
    ({"shapes": [{"x": (1, 2, 4, 4)}]}, "'x' must have shape"),
])  # fmt: skip
def test_what_is_found_out_at_the_start_stops_it(settings, message, model):
    with pytest.raises(RuntimeError, match=message):
        served(model, **settings).__enter__()


def test_a_model_that_is_no_session_is_refused():
    with pytest.raises(RuntimeError, match=r"make_model must make a pplconv\.Inf"):
        served(np.negative).__enter__()
