"""``python -m pplconv search``: table, wisdom, progress and exit status."""

from __future__ import annotations

import json
import os
import re
import signal

import numpy as np
import pytest

import pplconv
from pplconv.__main__ import main
from pplconv.commands import search
from tests.patience import PATIENCE, eventually
from tests.planner.planner_case import Bench
from tests.programs import finding, ran, started

TINY = "mb1ic16ih8oc16kh3ph1"
FILE = f"""
# two layers
{TINY}n"net:first*2"

   mb1ic16ih8oc16kh1
"""


@pytest.fixture
def shapes(tmp_path):
    path = tmp_path / "shapes.txt"
    path.write_text(FILE)
    return str(path)


def entries(path):
    return json.loads(path.read_text())["entries"]


def rows(text):
    """Return the lines of the table, split into cells."""
    table = text.split("\n\n")[0].splitlines()
    return [re.split(r"  +", line) for line in table if not line.startswith("remembered")]


def test_a_search_from_start_to_finish(shapes, path):
    """Run the command in its own process, as a user does."""
    root = os.path.dirname(os.path.dirname(pplconv.__file__))
    options = ["--seconds", "0.01", "--threads", "1", "--layout", "NCHW,NCHWc"]
    done = ran("-m", "pplconv", "search", shapes, "mb1g8ic8ih9oc8kh3", *options, cwd=root)
    assert done.returncode == 0, done.stderr
    header, *lines = rows(done.stdout)
    assert header == [
        "layer",
        "layout",
        "threads",
        "estimate's choice",
        "ms",
        "choice",
        "ms",
        "gain",
    ]
    assert [line[0] for line in lines] == [
        name for name in ("net:first*2", "mb1ic16ih8oc16kh1", "mb1g8ic8ih9oc8kh3") for _ in "ab"
    ]
    for line in lines:
        before, after, gain = float(line[4]), float(line[6]), float(line[7].rstrip("x"))
        assert after <= before
        assert gain == pytest.approx(before / after, rel=0.02)
    assert "6 searches in" in done.stdout
    assert f"remembered in {path}" in done.stdout
    assert [e["layout"][:4] for e in entries(path)] == ["NCHW"] * 6
    assert len({(e["problem"], e["layout"]) for e in entries(path)}) == 6
    # No terminal: a line a search, nothing that a log could not show.
    assert done.stderr.splitlines()[0] == "1/6 net:first*2, NCHW, 1 thread"
    assert len(done.stderr.splitlines()) == 6
    assert "\r" not in done.stderr


def test_the_tolerance_is_that_of_a_call(path, monkeypatch):
    """Results serve calls that name no tolerance, in the same environment."""
    Bench(lambda c, n: 1e-3).install(monkeypatch)
    for text in ("", "0", "1e-4"):
        monkeypatch.setenv("PPLCONV_TOLERANCE", text)
        assert main(["search", TINY, "--threads", "1"]) == 0
    assert [e["tolerance"] for e in entries(path)] == [1e-5, 0.0, 1e-4]
    monkeypatch.setenv("PPLCONV_TOLERANCE", "tight")
    assert main(["search", TINY, "--threads", "1"]) == 2


def test_what_was_found_serves_a_conv2d(path, capsys):
    assert main(["search", TINY, "--seconds", "0.01", "--threads", "1"]) == 0
    conv = pplconv.Conv2d(np.ones((16, 16, 3, 3), np.float32), padding=1, threads=1)
    plan = conv.plan_for((1, 16, 8, 8))
    assert plan.search == "wisdom"
    assert f"{1e3 * plan.seconds:.4g}" in capsys.readouterr().out
    assert conv.plan_for((1, 16, 9, 9)).search == "estimate"


def test_a_finished_search_is_not_repeated(path, capsys, monkeypatch):
    bench = Bench(lambda c, n: 1e-3).install(monkeypatch)
    arguments = ["search", TINY, "--threads", "1"]
    assert main(arguments) == 0
    count = len(bench.prepared)
    assert count
    capsys.readouterr()
    assert main(arguments) == 0
    assert len(bench.prepared) == count
    out = capsys.readouterr().out
    assert "(known)" in rows(out)[1][3]
    assert "searches in" not in out
    assert main([*arguments, "--again"]) == 0
    assert len(bench.prepared) == 2 * count
    assert "(known)" not in capsys.readouterr().out


def test_options_reach_the_search(path, monkeypatch, capsys):
    prepared = []

    def bench(problem, isa, epilogue, context):
        assert context == "hot"
        prepared.append((problem, epilogue))
        return Bench(lambda c, n: 1e-3)

    monkeypatch.setattr("pplconv.planner.searching.Bench", bench)
    options = "--dtype f64 --layout NHWC --threads 2,1 --tolerance 0 --search exhaustive"
    layer = "mb1ic32ih32oc32kh3ph1"
    assert main(["search", layer, *options.split(), "--epilogue", "exp"]) == 0
    assert [(p.dtype, p.layout, e) for p, e in prepared] == [("f64", "NHWC", "exp")] * 2
    (entry,) = entries(path)
    assert (entry["tolerance"], entry["epilogue"]) == (0.0, "exp")
    assert {n: d["search"] for n, d in entry["teams"].items()} == {
        "2": "exhaustive",
        "1": "exhaustive",
    }


def test_a_cold_search_is_kept_apart(path, monkeypatch, capsys):
    contexts = []

    def bench(problem, isa, epilogue, context):
        contexts.append(context)
        return Bench(lambda c, n: 1e-3)

    monkeypatch.setattr("pplconv.planner.searching.Bench", bench)
    for options in ([], ["--cold"], [], ["--cold"]):
        assert main(["search", TINY, "--threads", "1", *options]) == 0
    # Each is searched once, and neither takes the other's result for its own.
    assert contexts == ["hot", "cold"]
    assert [e["epilogue"] for e in entries(path)] == ["none", "none search_context=cold"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "SHAPES"),
        (["nothing.txt"], "'nothing.txt' is no file and no layer: 'nothing.txt' starts with"),
        (["mb1ic3ih8oc4kh3zz"], "'zz' starts with no known field"),
        ([TINY, "--layout", "CHWN"], "expected some of NCHW,NHWC,NCHWc"),
        ([TINY, "--threads", "0"], "expected numbers of threads"),
        ([TINY, "--threads", "two"], "expected numbers of threads"),
        ([TINY, "--seconds", "0"], "search_seconds must be more than 0"),
        ([TINY, "--seconds", "nan"], "search_seconds must be more than 0"),
        ([TINY, "--tolerance", "-1"], "tolerance must be at least 0"),
        ([TINY, "--search", "estimate"], "invalid choice"),
        ([TINY, "--epilogue", "relu"], "invalid choice"),
        (["mb1ic99999999999ih8oc9999999999999kh3"], "too large"),
    ],
)
def test_errors_are_for_stderr_and_end_with_2(arguments, complaint, path, capsys):
    try:
        status = main(["search", *arguments])
    except SystemExit as stop:  # from argparse
        status = stop.code
    assert status == 2
    output = capsys.readouterr()
    assert complaint in output.err
    assert output.out == ""
    assert not path.exists()


def test_a_wrong_line_is_named(tmp_path, capsys):
    wrong = tmp_path / "wrong.txt"
    wrong.write_text(f"# comment\n{TINY}\nmb1ic3\n")
    assert main(["search", str(wrong)]) == 2
    assert f"{wrong}, line 3: ih, oc, kh missing" in capsys.readouterr().err
    wrong.write_bytes(b"\xff\xfe")
    assert main(["search", str(wrong)]) == 2
    assert "not UTF-8" in capsys.readouterr().err
    wrong.write_text("# nothing\n")
    assert main(["search", str(wrong)]) == 2
    assert "no layer" in capsys.readouterr().err


def test_a_malformed_setting_ends_with_2(monkeypatch, capsys):
    monkeypatch.setenv("PPLCONV_MAX_ISA", "sse9")
    assert main(["search", TINY]) == 2
    assert "PPLCONV_MAX_ISA" in capsys.readouterr().err


def test_no_file_to_remember_in_is_said(monkeypatch, capsys):
    monkeypatch.setenv("PPLCONV_WISDOM", "off")
    assert main(["search", TINY, "--seconds", "0.01"]) == 0
    output = capsys.readouterr()
    assert "PPLCONV_WISDOM" in output.err
    assert "remembered" not in output.out


def test_a_file_that_cannot_be_written_ends_with_2(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PPLCONV_WISDOM", str(tmp_path / "file" / "wisdom.json"))
    assert main(["search", TINY, "--seconds", "0.01"]) == 2
    output = capsys.readouterr()
    assert "could not be written" in output.err
    assert "Warning" not in output.err
    assert len(rows(output.out)) == 2


def fail_of(kh, error, monkeypatch):
    """Let plans of layers with kernels of this height fail."""
    plan = search.planner.plan_problem

    def plan_problem(request, **more):
        if request.problem.kh == kh:
            raise error
        return plan(request, **more)

    monkeypatch.setattr(search.planner, "plan_problem", plan_problem)


def test_a_layer_without_memory_is_left_out(path, monkeypatch, capsys):
    fail_of(3, MemoryError, monkeypatch)
    assert main(["search", TINY, "mb1ic16ih8oc16kh1", "--seconds", "0.01"]) == 2
    output = capsys.readouterr()
    assert "not enough memory" in output.err
    assert [line[0] for line in rows(output.out)[1:]] == ["mb1ic16ih8oc16kh1"]
    assert len(entries(path)) == 1


def test_ctrl_c_keeps_what_is_finished(path, monkeypatch, capsys):
    fail_of(1, KeyboardInterrupt, monkeypatch)
    arguments = ["search", TINY, "mb1ic16ih8oc16kh1", TINY, "--seconds", "0.01", "--threads", "1"]
    assert main(arguments) == 130
    output = capsys.readouterr()
    assert "interrupted: 1 of 3 searches are finished and kept" in output.err
    assert len(rows(output.out)) == 2
    assert len(entries(path)) == 1


def test_a_signal_in_the_midst_of_a_search(path):
    """A real signal leaves no traceback and no half-written file."""
    # Children of a background job inherit that SIGINT is ignored.
    code = (
        "import pathlib, signal\n"
        "from pplconv.__main__ import main\n"
        "from pplconv.planner import searching\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "prepare = searching.Bench.prepare\n"
        "def noted(bench, *arguments):\n"
        "    if bench.problem.ic == 256: pathlib.Path(begun).touch()\n"
        "    return prepare(bench, *arguments)\n"
        "searching.Bench.prepare = noted\n"
        "begun = sys.argv.pop()\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    # The first search ends by itself. The second has begun once the file exists; even a race of
    # few candidates takes many times as long as a signal.
    large = "mb1ic256ih112oc256kh3ph1"
    begun = path.with_name("begun")
    arguments = ["search", TINY, large, "--threads", "1", "--seconds", "30", str(begun)]
    process = started("-c", finding(code), *arguments)
    eventually(lambda: begun.exists() or process.poll() is not None, "the second search")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "1 of 2 searches" in err
    assert len(rows(out)) == 2
    assert len(entries(path)) == 1


def test_help_and_other_commands_are_as_they_were(capsys):
    for arguments in (["--help"], ["search", "--help"]):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 0
        assert "search" in capsys.readouterr().out
    assert main(["info"]) == 0
