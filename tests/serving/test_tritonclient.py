"""`tritonclient`, which others wrote, as the client of a server; onnxruntime has the values."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

from tests.network.running import agree, by_onnxruntime
from tests.serving.served import small_model
from tests.serving.server_process import ask, server

pytestmark = pytest.mark.unsanitized("gevent moves between stacks, which sanitizers do not follow")

OUTPUTS = ("y", "z")


@pytest.fixture(scope="module")
def http():
    """The client's module; not at the top, for each worker that collects tests would load it."""
    import tritonclient.http

    return tritonclient.http


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "small.onnx"
    path.write_bytes(small_model())
    with server(path, "--instances", "1", "--threads", "1") as (_, found, _):
        yield found


@pytest.fixture
def client(http, port):
    with http.InferenceServerClient(f"127.0.0.1:{port}") as made:
        yield made


@pytest.fixture
def refused(http):
    """Asserts that a call is refused with a status and a text, as the client understands them."""
    from tritonclient.utils import InferenceServerException

    def check(status: str, text: str, call, *arguments, **options) -> None:
        with pytest.raises(InferenceServerException) as caught:
            call(*arguments, **options)
        assert caught.value.status() == status
        assert text in caught.value.message()

    return check


@pytest.fixture
def x(rng):
    return rng.standard_normal((2, 3, 6, 5)).astype(np.float32)


def given(http, x: np.ndarray, binary: bool = True):
    """A list of the one input."""
    made = http.InferInput("x", list(x.shape), "FP32")
    made.set_data_from_numpy(x, binary_data=binary)
    return [made]


def asked(http, binary: bool = True):
    return [http.InferRequestedOutput(name, binary_data=binary) for name in OUTPUTS]


def test_health_and_descriptions(client):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("small") and client.is_model_ready("small", "1")
    assert not client.is_model_ready("other")
    told = client.get_server_metadata()
    assert told["name"] == "pplconv" and "binary_tensor_data" in told["extensions"]
    told = client.get_model_metadata("small")
    assert told["name"] == "small"
    assert told["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 3, -1, -1]}]
    assert {item["name"]: item["shape"] for item in told["outputs"]} == {
        "y": [-1, 8, -1, -1], "z": [-1, 5],
    }  # fmt: skip
    told = client.get_model_config("small")
    assert told["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [-1, 3, -1, -1]}]
    (entry,) = client.get_model_repository_index()
    assert (entry["name"], entry["state"]) == ("small", "READY")


@pytest.mark.parametrize("into", [True, False], ids=["binary in", "JSON in"])
@pytest.mark.parametrize("out", [True, False], ids=["binary out", "JSON out"])
def test_values_are_those_of_onnxruntime(http, client, x, into, out):
    answer = client.infer("small", given(http, x, into), outputs=asked(http, out), request_id="7")
    assert answer.get_response()["id"] == "7"
    expected = by_onnxruntime(onnx.load_from_string(small_model()), {"x": x})
    agree([answer.as_numpy(name) for name in OUTPUTS], expected)
    # The form that was asked for.
    assert all(("data" in answer.get_output(name)) is not out for name in OUTPUTS)


@pytest.mark.parametrize("answered", [None, "gzip", "deflate"])
@pytest.mark.parametrize("sent", ["gzip", "deflate"])
def test_compressed_bodies(http, client, x, sent, answered):
    answer = client.infer(
        "small", given(http, x), outputs=asked(http),
        request_compression_algorithm=sent, response_compression_algorithm=answered,
    )  # fmt: skip
    expected = by_onnxruntime(onnx.load_from_string(small_model()), {"x": x})
    agree([answer.as_numpy(name) for name in OUTPUTS], expected)


def test_requests_at_the_same_time(http, port, x):
    feeds = [x + k for k in range(8)]
    with http.InferenceServerClient(f"127.0.0.1:{port}", concurrency=4) as client:
        running = [client.async_infer("small", given(http, feed)) for feed in feeds]
        answers = [one.get_result() for one in running]
    for answer, feed in zip(answers, feeds, strict=True):
        expected = by_onnxruntime(onnx.load_from_string(small_model()), {"x": feed})
        agree([answer.as_numpy(name) for name in OUTPUTS], expected)


def test_bodies_for_those_who_send_by_themselves(http, port, x):
    body, size = http.InferenceServerClient.generate_request_body(
        given(http, x), outputs=asked(http)
    )
    headers = {"Inference-Header-Content-Length": str(size)}
    status, content = ask(port, body, "/v2/models/small/infer", headers)
    assert status == 200, content
    # The length of the answer's JSON, as its own braces have it.
    _, length = json.JSONDecoder().raw_decode(content.decode("latin1"))
    answer = http.InferenceServerClient.parse_response_body(content, header_length=length)
    expected = by_onnxruntime(onnx.load_from_string(small_model()), {"x": x})
    agree([answer.as_numpy(name) for name in OUTPUTS], expected)


def test_errors_are_told(http, client, refused, x):
    inputs = given(http, x)
    refused("404", "'other'", client.infer, "other", inputs)
    refused("404", "'other'", client.get_model_metadata, "other")
    refused("404", "'9'", client.infer, "small", inputs, model_version="9")
    # A path of Triton that is not served.
    refused("404", "/v2/models/small/stats", client.get_inference_statistics, "small")
    refused("422", "inputs[0].shape", client.infer, "small", given(http, x[:, :2].copy()))
    wrong = http.InferInput("x", list(x.shape), "FP64")
    wrong.set_data_from_numpy(x.astype(np.float64))
    refused("422", "inputs[0].datatype", client.infer, "small", [wrong])
    unknown = [http.InferRequestedOutput("w")]
    refused("422", "'w'", client.infer, "small", inputs, outputs=unknown)
    classes = [http.InferRequestedOutput("z", class_count=3)]
    refused("422", "class_count", client.infer, "small", inputs, outputs=classes)
    # The connection goes on.
    assert client.infer("small", inputs).as_numpy("z").shape == (2, 5)
