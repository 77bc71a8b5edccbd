"""``python -m pplconv bench-instances``."""

from __future__ import annotations

import re

import pytest

from pplconv.__main__ import main
from pplconv.commands import bench_instances as bench

LAYERS = '# a net\nmb1ic8ih14oc16kh3ph1n"net:a*2"\n\nmb1ic16ih7oc8kh1n"net:b"\n'
ROW = re.compile(r"thread +(\d+) +(\d+) +([\d.e+]+) +([\d.]+)x +([\d.e+]+) +([\d.e+]+)")


@pytest.fixture
def shapes(tmp_path):
    path = tmp_path / "net.txt"
    path.write_text(LAYERS)
    return str(path)


def rows(text: str) -> list[tuple[int, int, float, float]]:
    found = [match.groups() for match in map(ROW.fullmatch, text.splitlines()) if match]
    return [(int(k), int(t), float(r), float(s)) for k, t, r, s, _, _ in found]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_splits_are_measured_and_the_best_comes_first(shapes, layout, capsys):
    arguments = ["bench-instances", shapes, "--mode", "thread", "--seconds", "0.05"]
    assert main([*arguments, "--splits", "1x1,2x1,1x2", "--layout", layout]) == 0
    out, err = capsys.readouterr()
    found = rows(out)
    assert sorted((k, t) for k, t, _, _ in found) == [(1, 1), (1, 2), (2, 1)]
    rates = [rate for _, _, rate, _ in found]
    assert rates == sorted(rates, reverse=True) and rates[-1] > 0
    (base,) = (speedup for k, t, _, speedup in found if (k, t) == (1, 1))
    assert base == 1.0
    assert err.splitlines() == [
        f"{n}/3 thread mode, {split}" for n, split in enumerate(["1 x 1", "2 x 1", "1 x 2"], 1)
    ]


@pytest.mark.parametrize(
    ("cores", "splits"),
    [
        (1, [(1, 1)]),
        (2, [(1, 1), (2, 1), (1, 2)]),
        (4, [(1, 1), (4, 1), (2, 2), (1, 4)]),
        (5, [(1, 1), (5, 1), (2, 2), (1, 5)]),
        (16, [(1, 1), (16, 1), (8, 2), (5, 3), (4, 4), (3, 5), (2, 8), (1, 16)]),
    ],
)
def test_all_splits(cores, splits):
    assert bench.all_splits(cores) == splits


def test_an_interrupt_keeps_what_was_measured(shapes, capsys, monkeypatch):
    measure = bench._measure

    def interrupted(pool, first, seconds):
        if len(pool) == 2:
            raise KeyboardInterrupt
        return measure(pool, first, seconds)

    monkeypatch.setattr(bench, "_measure", interrupted)
    arguments = ["bench-instances", shapes, "--mode", "thread", "--seconds", "0.02"]
    assert main([*arguments, "--splits", "1x1,2x1"]) == 130
    out, err = capsys.readouterr()
    assert [row[:2] for row in rows(out)] == [(1, 1)]
    assert "interrupted: 1 of 2 splits were measured" in err


def test_a_model_that_fails_is_reported(shapes, capsys, monkeypatch):
    def fail(self, image):
        raise MemoryError

    monkeypatch.setattr(bench.Layers, "__call__", fail)
    assert main(["bench-instances", shapes, "--mode", "thread", "--splits", "1x1"]) == 2
    assert "not enough memory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.txt"], "'nothing.txt' is no file and no layer"),
        (["mb1ic8ih14oc16kh3", "--splits", "2"], "expected splits such as 4x1,2x2"),
        (["mb1ic8ih14oc16kh3", "--seconds", "0"], "expected seconds, more than 0"),
        (["mb1ic8ih14oc16kh3", "--seconds", "nan"], "expected seconds, more than 0"),
    ],
)
def test_bad_arguments_are_named(arguments, message, capsys):
    try:
        status = main(["bench-instances", *arguments])
    except SystemExit as error:
        status = error.code
    assert status == 2
    assert message in capsys.readouterr().err


def test_layers_count_as_often_as_their_names_say(shapes):
    options = bench.argparse.Namespace(shapes=[shapes], dtype="f32", layout="NHWC")
    problems = bench._problems(options)
    assert [(p.layout, p.ic, count) for p, count in problems] == [("NHWC", 8, 2), ("NHWC", 16, 1)]
    assert len(bench.Layers(problems)._calls) == 3
