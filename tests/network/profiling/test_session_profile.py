"""`InferenceSession.profile`: a plan with times, bars of it, and its page."""

from __future__ import annotations

import io
import json
import pickle

import numpy as np
import onnx
import pytest
from onnx import helper

from pplconv.machine import ceilings
from pplconv.network.profile import NetworkProfile
from pplconv.network.profiling.estimates import MOST, TERMS, estimated
from pplconv.network.report import NetworkPlan
from pplconv.network.session import InferenceSession
from tests.network.models import model_of

X = np.ones((1, 3, 16, 16), np.float32)


@pytest.fixture
def model(rng):
    weight = rng.standard_normal((8, 3, 3, 3)).astype("f")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Softmax", ["a"], ["y"], axis=1),
    ]
    model = model_of(nodes, {"x": X}, {"w": weight}, opset=17)
    model.graph.name = "two steps"
    return model


@pytest.fixture
def found(model, monkeypatch, roofs) -> NetworkProfile:
    monkeypatch.setattr(ceilings, "measure", lambda *a, **k: roofs)
    return InferenceSession(model, threads=1).profile({"x": X}, repeats=1)


def test_it_is_the_plan_with_times(model, found):
    plan = InferenceSession(model, threads=1).plan_for({"x": X.shape})
    assert isinstance(found, NetworkPlan)
    assert [step.kind for step in found.steps] == [step.kind for step in plan.steps]
    assert all(step.seconds > 0 for step in found.steps)
    assert found.run_seconds > 0 and found.threads == 1
    assert str(found).endswith(f"whole run: {found.run_seconds * 1e3:.3f} ms")


def test_the_page_comes_as_text_and_as_a_file(found, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("before")
    content = found.html(path)
    assert content == path.read_text(encoding="utf-8") == found.html()
    assert content.startswith("<!DOCTYPE html>") and "<h1>two steps</h1>" in content
    assert found.html(str(path)) == content


def test_a_page_that_cannot_be_written_says_so(found, tmp_path):
    with pytest.raises(OSError, match="no"):
        found.html(tmp_path / "no" / "page.html")


def test_roofs_are_measured_once(model, monkeypatch, roofs):
    asked = []
    monkeypatch.setattr(ceilings, "measure", lambda *a, **k: asked.append(a) or roofs)
    found = InferenceSession(model, threads=1).profile({"x": X}, repeats=1)
    assert asked == []  # what is only printed needs none
    found.html()
    assert json.loads(json.dumps(found.record()))["model"] == "two steps"
    assert len(asked) == 1 and asked[0][1] == 1


def test_files_give_their_name(model, tmp_path, monkeypatch, roofs):
    monkeypatch.setattr(ceilings, "measure", lambda *a, **k: roofs)
    path = tmp_path / "net & co.onnx"
    onnx.save(model, str(path))
    session = InferenceSession(path, threads=1)
    assert "<h1>net &amp; co.onnx</h1>" in session.profile({"x": X}, repeats=1).html()


def test_it_travels(found):
    again = pickle.loads(pickle.dumps(found))
    assert again == found and again.html() == found.html()


def test_estimates_stand_beside_times(found):
    ((number, terms, took),) = estimated(found._measured())
    step = found.steps[number]
    assert took == step.seconds and list(terms) == list(TERMS)
    assert sum(terms.values()) == pytest.approx(
        sum(step.plan.cost.values()) / found._measured().hertz
    )
    content = found.html()
    assert "<h2>Estimates</h2>" in content and content.count('class="took"') == 1
    assert content.count('class="term ') == sum(seconds > 0 for seconds in terms.values())


def test_all_turns_are_estimated(monkeypatch, roofs):
    monkeypatch.setattr(ceilings, "measure", lambda *a, **k: roofs)
    weights = {name: np.ones((1, 32, n), np.float32) for name, n in (("w", 3), ("r", 8))}
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=8)
    x = np.ones((50, 1, 3), np.float32)
    session = InferenceSession(model_of([node], {"x": x}, weights, ["y"]), threads=1)
    found = session.profile({"x": x}, repeats=1)
    (product,) = [step for step in found.steps if step.turns == 50 and step.plan is not None]
    assert product.flops == 50 * 2 * 8 * 32 and "50 turns" in product.detail
    measured = found._measured()
    terms = {number: sum(terms.values()) for number, terms, _ in estimated(measured)}
    expected = 50 * sum(product.plan.cost.values()) / measured.hertz
    assert terms[found.steps.index(product)] == pytest.approx(expected)


def test_no_term_of_the_cost_model_is_counted_twice():
    named = [term for terms in TERMS.values() for term in terms]
    assert len(set(named)) == len(named)
    assert MOST >= 8


def shown(plan, **options) -> list[str]:
    file = io.StringIO()
    assert plan.show(file=file, **options) is None
    return file.getvalue().splitlines()


def test_bars_of_a_network(model, found):
    plan = InferenceSession(model, threads=1).plan_for({"x": X.shape})
    head, *rows = shown(plan)
    assert "estimated at a nominal 3 GHz" in head and len(rows) == 1
    assert " Conv " in rows[0]
    head, *rows = shown(found, width=80)
    assert head.startswith(f"{len(found.steps)} steps, ") and "measured" in head
    assert len(rows) == len(found.steps)
    times = [step.seconds for step in found.steps]
    first = max(range(len(times)), key=times.__getitem__)
    assert int(rows[0].split()[0]) == first
    assert len(shown(found, most=1)) == 3


def test_the_number_of_bars_is_checked(found):
    with pytest.raises(ValueError, match="most must be at least 1"):
        found.show(most=0)
    with pytest.raises(TypeError, match="most must be an integer"):
        found.show(most="all")
