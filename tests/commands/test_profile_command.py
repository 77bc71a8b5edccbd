"""``python -m pplconv profile`` from its arguments to its files and its exit status."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from pplconv import __main__ as command
from pplconv.commands.inputs import random_feed
from pplconv.network.session import InferenceSession, NodeArg

SHAPE = "--shape=x=1,3,16,16"


@pytest.fixture
def arguments(model_file, ceilings):
    return ["profile", str(model_file), "--threads=1", "--repeats=1"]


def test_table_of_the_steps(arguments, capsys):
    assert command.main([*arguments, SHAPE]) == 0
    out, err = capsys.readouterr()
    assert "inputs: x (1, 3, 16, 16)" in out
    assert "Conv" in out and "Softmax" in out
    assert "whole run: " in out and "written" not in out
    assert "timing the steps" in err and "bandwidths" not in err


def test_page_and_record_agree_with_the_plan(arguments, model_file, tmp_path, capsys):
    page, figures = tmp_path / "page.html", tmp_path / "figures.json"
    assert command.main([*arguments, SHAPE, f"--html={page}", f"--json={figures}"]) == 0
    found = json.loads(figures.read_text(encoding="utf-8"))
    plan = InferenceSession(str(model_file), threads=1).plan_for({"x": (1, 3, 16, 16)})
    steps = found["plan"]["steps"]
    for key in ("kind", "detail", "flops", "bytes", "weight_bytes", "method", "host", "layout"):
        assert [step[key] for step in steps] == [getattr(step, key) for step in plan.steps]
    assert found["plan"]["arena_bytes"] == plan.arena_bytes
    assert found["model"] == "small.onnx"
    assert found["run_seconds"] > 0 and all(step["seconds"] > 0 for step in steps)
    content = page.read_text(encoding="utf-8")
    assert "<h1>small.onnx</h1>" in content
    for name in (name for step in plan.steps for name in step.outputs):
        assert f">{name}</td>" in content
    assert f"written: {page}" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "figures.json", "page.html", "small.onnx",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], r"input 'x' has open sizes: say --shape x=\?,3,\?,\? with a number"),
        (["--shape=z=1,2"], "the network has no input 'z', only \\['x'\\]"),
        (["--shape=x=1,3,16"], "'x' must have shape"),
        (["--shape=x=1,4,16,16"], "'x' must have shape"),
        (["--shape=x=1,3,2147483647,2147483647"], "too big|allocate|not enough memory"),
    ],
)
def test_shapes_that_do_not_fit(arguments, options, message, tmp_path, capfd):
    page = tmp_path / "page.html"
    page.write_text("before")
    status = command.main([*arguments, *options, f"--html={page}"])
    err = capfd.readouterr().err.splitlines()[-1]
    assert status == 2
    assert err.startswith("pplconv profile: ")
    assert re.search(message, err)
    assert page.read_text() == "before"


def test_batches_without_images_have_a_page(arguments, tmp_path):
    page = tmp_path / "page.html"
    assert command.main([*arguments, "--shape=x=0,3,16,16", f"--html={page}"]) == 0
    assert "0 steps" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "words", ["x", "=1,2", "x=1,,2", "x=1,-2", "x=a", "x=1,2147483648", "x=\u0661"]
)
def test_words_that_are_no_shape(arguments, words, capsys):
    with pytest.raises(SystemExit) as caught:
        command.main([*arguments, f"--shape={words}"])
    assert caught.value.code == 2
    assert "--shape" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--threads=0", "--threads=x", "--repeats=0", "--repeats=1.5"])
def test_counts_are_checked(arguments, option, capsys):
    with pytest.raises(SystemExit) as caught:
        command.main([*arguments, option])
    assert caught.value.code == 2
    assert "expected an integer" in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, b"", b"no model", "half"])
def test_files_that_are_no_models(model_file, content, tmp_path, capsys, ceilings):
    path = tmp_path / "broken.onnx"
    if content == "half":
        content = model_file.read_bytes()[:200]
    if content is not None:
        path.write_bytes(content)
    page = tmp_path / "page.html"
    assert command.main(["profile", str(path), SHAPE, f"--html={page}"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("pplconv profile: ")
    assert not page.exists()


@pytest.mark.parametrize("option", ["--html", "--json"])
def test_where_files_go_is_checked_first(option, tmp_path, capsys):
    missing = tmp_path / "no" / "page"
    assert command.main(["profile", "no.onnx", f"{option}={missing}"]) == 2
    assert f"there is no folder {missing.parent}" in capsys.readouterr().err
    assert command.main(["profile", "no.onnx", f"{option}={tmp_path}"]) == 2
    assert "it is a folder" in capsys.readouterr().err


def test_one_file_cannot_be_both(tmp_path, capsys):
    both = tmp_path / "page"
    assert command.main(["profile", "no.onnx", f"--html={both}", f"--json={both}"]) == 2
    assert "the same file" in capsys.readouterr().err


def fail(*_arguments, **_keywords):
    raise MemoryError


def test_a_page_that_fails_leaves_the_old_one(arguments, tmp_path, capsys, monkeypatch):
    page = tmp_path / "page.html"
    page.write_text("before")
    monkeypatch.setattr("pplconv.network.profiling.page.page", fail)
    assert command.main([*arguments, SHAPE, f"--html={page}"]) == 2
    assert "not enough memory" in capsys.readouterr().err
    assert page.read_text() == "before"


def test_a_full_disk_leaves_the_old_page(arguments, tmp_path, capsys, monkeypatch):
    page = tmp_path / "page.html"
    page.write_text("before")

    def full(fd, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pplconv.wisdom.wisdom_files.os.write", full)
    status = command.main([*arguments, SHAPE, f"--html={page}"])
    monkeypatch.undo()
    assert status == 2
    assert "No space left" in capsys.readouterr().err
    assert page.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "small.onnx"]


def test_a_link_stays_a_link(arguments, tmp_path):
    target = tmp_path / "real.html"
    target.write_text("before")
    (tmp_path / "page.html").symlink_to(target)
    assert command.main([*arguments, SHAPE, f"--html={tmp_path / 'page.html'}"]) == 0
    assert (tmp_path / "page.html").is_symlink()
    assert target.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_an_interrupt_ends_cleanly(arguments, tmp_path, capsys, monkeypatch):
    def interrupted(*_arguments, **_keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(InferenceSession, "profile", interrupted)
    page = tmp_path / "page.html"
    assert command.main([*arguments, SHAPE, f"--html={page}"]) == 130
    assert capsys.readouterr().err.endswith("interrupted\n")
    assert not page.exists()


def test_inputs_of_all_types():
    inputs = [
        NodeArg("a", [2, 3], "tensor(float)"),
        NodeArg("b", ["n", 4], "tensor(double)"),
        NodeArg("c", [5], "tensor(int64)"),
        NodeArg("d", [], "tensor(bool)"),
        NodeArg("e", [2], "tensor(float16)"),
    ]
    feed = random_feed(inputs, {"b": (7, 4)})
    assert {name: (x.shape, x.dtype.name) for name, x in feed.items()} == {
        "a": ((2, 3), "float32"),
        "b": ((7, 4), "float64"),
        "c": ((5,), "int64"),
        "d": ((), "bool"),
        "e": ((2,), "float16"),
    }
    assert np.std(feed["b"]) > 0.1 and not feed["c"].any()
