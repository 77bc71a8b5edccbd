"""The zoo: its list, its judgement of outputs, its table, and what it does not time."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest
from onnx import helper

from benchmarks.networks import engines, exported, zoo
from benchmarks.timing import Settings
from examples.models.progress import Progress
from examples.models.published import ModelError, Published
from tests.network.models import model_of
from tests.network.running import needs_onnxruntime


def test_the_list():
    """Names differ, and so do files; each licence is said."""
    animals = zoo.listed()
    assert len(animals) >= 40
    assert len({animal.source.sha256 for animal in animals.values()}) == len(animals)
    for animal in animals.values():
        assert animal.licence and "==" in animal.source.requirement
        assert len(animal.source.sha256) == 64 and animal.inputs
        assert animal.values.keys() <= animal.inputs.keys()


def test_a_name_stands_once(tmp_path):
    path = tmp_path / "zoo.toml"
    entry = zoo.LIST.read_text(encoding="utf-8").split("[[model]]")[1]
    path.write_text(f"[[model]]{entry}[[model]]{entry}")
    with pytest.raises(ValueError, match=r"zoo\.toml has two models of the name"):
        zoo.listed(path)


def test_the_list_of_architectures():
    """Both exporters, opsets from 11 to the newest, batches that are fixed and open."""
    found = exported.listed().values()
    assert len(found) + len(zoo.listed()) >= 120
    for exporter in exported.EXPORTERS:
        batches = {one.open_batch for one in found if one.exporter == exporter}
        assert batches == {True, False}
    opsets = {one.opset for one in found}
    assert min(opsets) == 11 and max(opsets) == 23 and len(opsets) >= 8
    assert len({one.file for one in found}) == len(found)
    for one in found:
        assert one.maker in exported.MAKERS and one.shape[0] == 1
    assert zoo.everything().keys() == {*zoo.listed(), *exported.listed()}


def test_the_extra_has_the_versions_of_the_list():
    text = (zoo.LIST.parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    for one in exported.listed().values():
        assert f'"{one.requirement}"' in text


def test_a_list_with_an_unknown_exporter(tmp_path):
    path = tmp_path / "zoo_exported.toml"
    text = exported.LIST.read_text(encoding="utf-8")
    path.write_text(text.replace('"dynamo"', '"other"', 1), encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"zoo_exported\.toml: torchvision\..* 'other' is not known"
    ):
        exported.listed(path)


def test_exports_need_their_packages(monkeypatch, tmp_path):
    (one, *_) = exported.listed().values()
    monkeypatch.setattr(exported.metadata, "version", lambda _: "0.1")
    with pytest.raises(ModelError, match=r"needs torchvision==.*, and 0\.1 is installed"):
        exported.ensure([one], tmp_path, Progress(io.StringIO()))
    # A file that is there needs no exporter.
    (tmp_path / one.file).touch()
    paths = exported.ensure([one], tmp_path, Progress(io.StringIO()))
    assert paths == {one.name: tmp_path / one.file}


def test_an_export_that_fails(monkeypatch, tmp_path, capsys):
    """The exporter's last line stands in the table, and the status is not 1 for it."""
    (one, *_) = exported.listed().values()
    monkeypatch.setattr(exported, "_want", lambda _: None)
    monkeypatch.setattr(exported.sys, "executable", "false")
    monkeypatch.setattr(
        zoo, "everything", lambda: {one.name: zoo.Animal(one, "MIT", one.inputs, {})}
    )
    assert zoo.main(["--engines", "pplconv", "--cache", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert f"{one.name} not exported: no message" in printed


@pytest.mark.parametrize(
    ("got", "want", "error"),
    [
        (np.float32([1, 2]), np.float32([1, 2]), 0),
        (np.float32([1, 2.5]), np.float32([1, 2]), 0.25),
        (np.float32([np.nan, np.inf, 1]), np.float32([np.nan, np.inf, 1]), 0),
        (np.float32([np.nan, 1]), np.float32([0, 1]), math.inf),
        (np.float32([1, 2]), np.float32([[1, 2]]), math.inf),
        (np.float64([1]), np.float32([1]), math.inf),
        (np.int64([1, 2]), np.int64([1, 3]), 1),
        (np.float32([]), np.float32([]), 0),
    ],
)
def test_errors(got, want, error):
    assert zoo.largest_error([got], [want]) == error


@pytest.fixture
def keep(monkeypatch, tmp_path):
    """A zoo of three small models, one of which pplconv refuses."""
    plain = model_of([helper.make_node("Tanh", ["x"], ["y"])], {"x": (np.float32, ["n", 4])})
    nodes = [
        helper.make_node("Equal", ["x", "x"], ["e"]),
        helper.make_node("NonZero", ["e"], ["n"]),
        helper.make_node("Cast", ["n"], ["y"], to=1),
    ]
    cut = model_of(nodes, {"x": (np.float32, [2, 3])})
    refused = model_of(
        [helper.make_node("Inverse", ["x"], ["y"], domain="com.microsoft")],
        {"x": (np.float32, [3, 3])},
    )
    refused.opset_import.add(domain="com.microsoft", version=1)
    animals = {}
    for name, model, shape in (
        ("plain", plain, (2, 4)), ("cut", cut, (2, 3)), ("refused", refused, (3, 3))
    ):  # fmt: skip
        source = Published(f"{name}.onnx", "package==1", name, "0" * 64)
        (tmp_path / source.name).write_bytes(model.SerializeToString())
        animals[name] = zoo.Animal(source, "MIT", {"x": shape}, {})
    monkeypatch.setattr(zoo, "everything", lambda: animals)
    monkeypatch.setattr(
        zoo, "ensure", lambda sources, cache, steps: [tmp_path / each.name for each in sources]
    )
    return tmp_path


@needs_onnxruntime
def test_a_run(keep, capsys):
    """What is refused makes the status 1; times, errors and steps in Python are told."""
    path = keep / "zoo.json"
    options = ["--rounds", "1", "--min-ms", "1", "--engines", "pplconv,onnxruntime"]
    assert zoo.main([*options, "--models", "plain,cut", "--json", str(path)]) == 0
    plain, cut = json.loads(path.read_text(encoding="utf-8"))["models"]
    assert plain["status"] == cut["status"] == "ok" and plain["errors"]["pplconv"] < 1e-6
    assert not plain["in_python"] and cut["in_python"]["NonZero"] == 1
    assert plain["milliseconds"].keys() == {"pplconv", "onnxruntime"}
    assert "geometric mean" in capsys.readouterr().out
    assert zoo.main([*options, "--models", "refused"]) == 1
    assert "com.microsoft.Inverse" in capsys.readouterr().out


@needs_onnxruntime
def test_wrong_answers_are_not_timed(keep, monkeypatch):
    class Wrong(engines.Pplconv):
        def run(self, feed):
            return [1.01 * y for y in super().run(feed)]

    class Noisy(engines.OnnxRuntime):
        def run(self, feed):
            return [1.006 * y for y in super().run(feed)]

    timed = []
    monkeypatch.setattr(zoo, "interleave", lambda calls, *_: timed.extend(calls) or {})
    animal = zoo.everything()["plain"]
    found = zoo.visit("plain", animal, keep / "plain.onnx", [Wrong], Settings(1))
    assert found.status == "wrong" and not timed
    # A model whose rounding alone changes its outputs: onnxruntime differs from itself as much.
    found = zoo.visit("plain", animal, keep / "plain.onnx", [Wrong, Noisy], Settings(1))
    assert found.status == "ok" and timed == ["pplconv", "onnxruntime"]
