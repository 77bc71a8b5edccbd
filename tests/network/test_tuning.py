"""Searches of whole networks: what they find is remembered, and they say how far they are."""

from __future__ import annotations

import io
import json
import re
import sys

import numpy as np
import onnx
import pytest

from pplconv import __main__ as command
from pplconv import wisdom
from pplconv.network.session import InferenceSession
from pplconv.network.tuning import searches
from tests.network.graphs import Graph
from tests.network.running import agree, referred


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A file of wisdom that this test has for itself."""
    file = tmp_path / "wisdom.json"
    monkeypatch.setenv("PPLCONV_WISDOM", str(file))
    assert not wisdom.export()["entries"]
    return file


@pytest.fixture
def network() -> Graph:
    g = Graph(opset=17)
    y = g.HardSwish(g.conv(g.input(1, 8, 10, 10), 16, (8, 3, 3), pads=[1] * 4))
    y = g.conv(y, 16, (16, 1, 1))
    g.made = g.model(g.MatMul(g.Flatten(y), g.constant(g.rng.standard_normal((1600, 5), "f"))))
    return g


def entries(file):
    return json.loads(file.read_text())["entries"]


def test_a_session_searches_and_says_how_far_it_is(path, network):
    told = []
    session = InferenceSession(
        network.made, threads=1, search="measure", progress=lambda *said: told.append(said)
    )
    assert not told and not path.exists()
    got = session.run(None, network.feed)
    agree(got, referred(network.made, network.feed))
    shares = [share for share, _ in told]
    assert shares == sorted(shares) and shares[0] >= 0 and shares[-1] <= 1
    assert {re.match(r"\d/3 ", text)[0] for _, text in told} == {"1/3 ", "2/3 ", "3/3 "}
    wanted = searches(session, network.feed)
    found = {entry["problem"] for entry in entries(path)}
    assert len(wanted) == 3 == len(found)
    # Cold, as networks run them; and known from now on.
    assert all("search_context=cold" in entry["epilogue"] for entry in entries(path))
    told.clear()
    again = InferenceSession(
        network.made, threads=1, search="measure", progress=lambda *said: told.append(said)
    )
    again.run(None, network.feed)
    assert not told


def test_a_long_search_draws_a_bar_on_a_terminal(path, network, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", stream)
    for name in ("_PATIENT_SECONDS", "_REDRAW_SECONDS"):
        monkeypatch.setattr(f"pplconv.drawing.progress_bar.{name}", 0.0)
    InferenceSession(network.made, threads=1, search="measure").run(None, network.feed)
    drawn = stream.getvalue()
    assert "1/3 " in drawn and "3/3 " in drawn and drawn.endswith("\r\x1b[K")


def test_what_is_found_is_kept_when_a_search_ends_early(path, network):
    """By an exception of whoever is told, as Ctrl-C is one; the session goes on."""

    def stop(share, text):
        if text.startswith("2/"):
            raise KeyboardInterrupt

    session = InferenceSession(network.made, threads=1, search="measure", progress=stop)
    with pytest.raises(KeyboardInterrupt):
        session.run(None, network.feed)
    assert len(entries(path)) == 1
    with pytest.raises(KeyboardInterrupt):
        session.run(None, network.feed)
    calm = InferenceSession(network.made, threads=1)
    agree(calm.run(None, network.feed), referred(network.made, network.feed))


def test_progress_is_a_function(network):
    with pytest.raises(TypeError, match="progress must be callable, a bool or None, got int"):
        InferenceSession(network.made, progress=3)


def test_the_command_searches_what_a_session_plans(path, network, tmp_path, capsys):
    file = tmp_path / "model.onnx"
    onnx.save(network.made, file)
    call = ["search", str(file), "--seconds", "0.01", "--threads", "1"]
    assert command.main(call) == 0
    out, err = capsys.readouterr()
    assert "3 searches in" in out and len(err.splitlines()) == 3
    session = InferenceSession(file, threads=1)
    assert {str(s.problem) for s in searches(session, network.feed)} == {
        entry["problem"] for entry in entries(path)
    }
    assert {s.epilogue for s in searches(session, network.feed)} == {"slope", "none"}
    ((compiled, _),) = session._network.programs.values()
    assert {plan.search for plan, _ in compiled.planned.values()} == {"wisdom"}
    assert command.main(call) == 0
    assert capsys.readouterr().out.count("(known)") == 3


def test_what_the_command_refuses(path, network, tmp_path, capsys):
    g = Graph(opset=17)
    file = tmp_path / "open.ONNX"
    onnx.save(g.model(g.conv(g.input(1, 3, 8, 8, free=True), 4, (3, 3, 3))), file)
    for options, complaint in (
        ([], "has open sizes: say --shape x1="),
        (["--shape", "x1=1,3,8,8", "--layout", "NHWC"], "the network's own"),
        (["--shape", "y=1,3,8,8"], "no input 'y'"),
    ):
        assert command.main(["search", str(file), *options]) == 2
        assert complaint in capsys.readouterr().err
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    assert command.main(["search", str(tmp_path / "bad.onnx")]) == 2
    assert "ONNX" in capsys.readouterr().err
    assert not path.exists()
    assert command.main(["search", str(file), "--shape", "x1=1,3,8,8", "--seconds", "0.01"]) == 0
    assert np.all([entry["layout"] in ("NCHW", "NHWC") for entry in entries(path)])


def test_the_command_has_the_tolerance_of_a_session(path, network, tmp_path, monkeypatch):
    """Not the environment's, which is that of calls."""
    monkeypatch.setenv("PPLCONV_TOLERANCE", "0")
    file = tmp_path / "model.onnx"
    onnx.save(network.made, file)
    assert command.main(["search", str(file), "--seconds", "0.01", "--threads", "1"]) == 0
    session = InferenceSession(file, threads=1)
    session.run(None, network.feed)
    ((compiled, _),) = session._network.programs.values()
    assert {plan.search for plan, _ in compiled.planned.values()} == {"wisdom"}
