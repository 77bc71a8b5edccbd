"""Shapes on command lines: both spellings mean the same everywhere."""

from __future__ import annotations

import argparse

import pytest

from pplconv.__main__ import main
from pplconv.commands.shape_texts import shapes_of
from tests.network.graphs import Graph


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("x=1x3x64x64", {"x": (1, 3, 64, 64)}),
        ("x=1,3,64,64", {"x": (1, 3, 64, 64)}),
        ("x = 1, 3", {"x ": (1, 3)}),
        ("x=1x3,mask=7", {"x": (1, 3), "mask": (7,)}),
        ("x=1,3,mask=7,5,z=", {"x": (1, 3), "mask": (7, 5), "z": ()}),
        ("a=b=2x2", {"a=b": (2, 2)}),
        ("axb=0", {"axb": (0,)}),
    ],
)
def test_both_spellings(text, shapes):
    """Those of the server, too, which has a reader of its own."""
    assert shapes_of(text) == shapes
    if () not in shapes.values() and " " not in text:
        asgi = pytest.importorskip("pplconv.integrations.asgi.command")
        assert asgi._parser().parse_args(["m", "--shape", text]).shape == [shapes]


@pytest.mark.parametrize(
    "text", ["", "1,3", "x", "=1,3", "x=1,,3", "x=1xa", "x=-1,3", "x=1x3,x=4", "x=1 3", "x=٣"]
)
def test_others_are_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="expected names and sizes"):
        shapes_of(text)


def test_a_size_beyond_all_arrays_is_refused():
    with pytest.raises(argparse.ArgumentTypeError, match="a size is beyond 2147483647"):
        shapes_of("x=1x2147483648")


@pytest.fixture
def network(tmp_path):
    g = Graph(1)
    x = g.input(1, 3, 8, 9, free=True)
    path = tmp_path / "model.onnx"
    path.write_bytes(g.model(g.conv(x, 4, (3, 3, 3))).SerializeToString())
    return str(path), x


@pytest.mark.parametrize("shape", ["1x3x8x9", "1,3,8,9"])
@pytest.mark.parametrize(
    "command",
    [["profile", "--repeats", "1"], ["bench-instances", "--splits", "1x1", "--seconds", "0.02"]],
    ids=lambda command: command[0],
)
def test_commands_take_both(command, shape, network, capsys):
    path, name = network
    name_of_command, *options = command
    assert main([name_of_command, path, *options, "--shape", f"{name}={shape}"]) == 0
    assert capsys.readouterr().out


def test_instances_of_a_network_ask_for_its_shapes(network, capsys):
    path, name = network
    assert main(["bench-instances", path, "--splits", "1x1"]) == 2
    assert f"say --shape {name}=" in capsys.readouterr().err
    assert main(["bench-instances", path, path]) == 2
    assert "measured by itself" in capsys.readouterr().err
    assert main(["bench-instances", "mb1ic4ih8oc4oh8kh3ph1", "--shape", "x=1,2"]) == 2
    assert "--shape belongs to a network" in capsys.readouterr().err
    assert main(["bench-instances", "nothing.onnx"]) == 2
    assert "nothing.onnx" in capsys.readouterr().err
