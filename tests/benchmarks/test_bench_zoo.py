"""The zoo: its list, its judgement of outputs, its table, and what it does not time."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from onnx import helper

from benchmarks.networks import engines, zoo
from benchmarks.timing import Settings
from examples.models.published import Published
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
    monkeypatch.setattr(zoo, "listed", lambda: animals)
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
    assert plain["status"] == cut["status"] == "ok" and plain["error"] < 1e-6
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

    timed = []
    monkeypatch.setattr(zoo, "interleave", lambda calls, *_: timed.extend(calls) or {})
    animal = zoo.listed()["plain"]
    found = zoo.visit("plain", animal, keep / "plain.onnx", [Wrong], Settings(1))
    assert found.status == "wrong" and not timed
