"""``python -m pplconv prune`` from its arguments to its file and its exit status."""

from __future__ import annotations

import os
import re

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import pplconv
from pplconv import __main__ as command
from pplconv.algorithms import ALGORITHMS
from pplconv.commands import prune_command
from pplconv.network.session import InferenceSession

SHAPE = "--shape=x=1,3,16,16"


@pytest.fixture
def arguments(model_file):
    return ["prune", str(model_file), "--threads=1", "--density=0.25"]


def table(out):
    return [line.split() for line in out.splitlines()]


def test_table_of_the_layers(arguments, capsys):
    assert command.main([*arguments, SHAPE]) == 0
    out, err = capsys.readouterr()
    header, row, *_ = table(out)
    assert header == ["layer", "weights", "block", "density", "norm", "predicted", "computed", "by"]
    name, weights, block, density, norm, predicted, algorithm = row
    assert (name, weights, block, density) == ("a", "8x3x3x3", "1x4", "0.260")  # 14 of 54 blocks
    assert 0.5 < float(norm) < 1 and float(predicted.rstrip("x")) > 0
    assert algorithm in ALGORITHMS
    assert "layers pruned: 1," in out and "written" not in out and "whole run" not in out
    assert "pruning" in err and "timing" not in err


def test_the_pruned_network_is_written(arguments, model_file, tmp_path, capsys, rng):
    path = tmp_path / "pruned.onnx"
    assert command.main([*arguments, "--block=8", SHAPE, f"-o{path}"]) == 0
    assert f"written: {path}" in capsys.readouterr().out
    (before,), (after,) = (
        map(numpy_helper.to_array, onnx.load(str(file)).graph.initializer)
        for file in (model_file, path)
    )
    expected = pplconv.prune.magnitude(before, 0.25, (1, 8))
    np.testing.assert_array_equal(after, expected)
    x = rng.standard_normal((1, 3, 16, 16)).astype(np.float32)
    sparse, dense = (
        InferenceSession(str(path), threads=1, sparse=sparse).run(None, {"x": x})
        for sparse in ("auto", False)
    )
    np.testing.assert_allclose(sparse[0], dense[0], rtol=0, atol=2e-5)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["pruned.onnx", "small.onnx"]


def test_a_model_may_be_pruned_where_it_is(arguments, model_file):
    assert command.main([*arguments, SHAPE, f"--output={model_file}"]) == 0
    (tensor,) = onnx.load(str(model_file)).graph.initializer
    assert np.count_nonzero(numpy_helper.to_array(tensor)) == 54 // 8 * 8 + 8  # 14 blocks of 4


def test_measured_gains(arguments, capsys):
    assert command.main([*arguments, SHAPE, "--measure", "--repeats=2"]) == 0
    out, err = capsys.readouterr()
    header, row, *_ = table(out)
    assert header[-5:] == ["dense", "ms", "pruned", "ms", "measured"]
    before, after, gain = (float(cell.rstrip("x")) for cell in row[-3:])
    assert gain == pytest.approx(before / after, rel=0.01, abs=0.02)
    found = re.search(r"whole run: (\S+) ms with all weights, (\S+) ms without zeros, (\S+)x", out)
    before, after, gain = map(float, found.groups())
    assert gain == pytest.approx(before / after, rel=0.01, abs=0.02)
    assert "timing the layers" in err


@pytest.mark.parametrize("density", ["0", "1"])
def test_none_and_all(model_file, density, capsys):
    assert command.main(["prune", str(model_file), f"--density={density}", SHAPE]) == 0
    _, row, *_ = table(capsys.readouterr().out)
    assert float(row[3]) == float(density) and float(row[4]) == float(density)


@pytest.mark.parametrize(
    "options",
    [
        ["--density=1.5"], ["--density=-0.1"], ["--density=nan"], ["--density=a"], [],
        ["--density=0.5", "--block=3"], ["--density=0.5", "--repeats=0"],
        ["--density=0.5", "--threads=0"],
    ],
)  # fmt: skip
def test_arguments_are_checked(model_file, options, capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(["prune", str(model_file), *options])
    assert caught.value.code == 2
    assert "pplconv prune" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "input 'x' has open sizes: say --shape"),
        (["--shape=z=1,2"], "the network has no input 'z'"),
        (["--shape=x=1,4,16,16"], "'x' must have shape"),
    ],
)
def test_what_goes_wrong_writes_nothing(arguments, options, message, tmp_path, capsys):
    path = tmp_path / "pruned.onnx"
    path.write_bytes(b"before")
    assert command.main([*arguments, *options, f"--output={path}"]) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert err.startswith("pplconv prune: ") and message in err
    assert path.read_bytes() == b"before"


@pytest.mark.parametrize("content", [None, b"", b"no model"])
def test_files_that_are_no_models(content, tmp_path, capsys):
    path = tmp_path / "broken.onnx"
    if content is not None:
        path.write_bytes(content)
    assert command.main(["prune", str(path), "--density=0.5", SHAPE]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("pplconv prune: ")


def test_where_the_file_goes_is_checked_first(tmp_path, capsys):
    missing = tmp_path / "no" / "pruned.onnx"
    assert command.main(["prune", "no.onnx", "--density=0.5", f"--output={missing}"]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_an_interrupt_leaves_nothing_behind(arguments, tmp_path, monkeypatch, capsys):
    path = tmp_path / "pruned.onnx"

    def interrupted(*_args, **_more):
        raise KeyboardInterrupt

    monkeypatch.setattr(prune_command, "_measure", interrupted)
    assert command.main([*arguments, SHAPE, "--measure", f"--output={path}"]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["small.onnx"]


def test_a_file_that_cannot_be_replaced_stays(arguments, tmp_path, monkeypatch, capsys):
    path = tmp_path / "pruned.onnx"
    path.write_bytes(b"before")

    def full(*_args):
        raise OSError("no space left")

    monkeypatch.setattr(prune_command.wisdom_files, "replace", full)
    assert command.main([*arguments, SHAPE, f"--output={path}"]) == 2
    assert "no space left" in capsys.readouterr().err
    assert path.read_bytes() == b"before"
