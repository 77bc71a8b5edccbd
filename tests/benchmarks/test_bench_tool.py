"""The frame of the benchmarks: options, interrupts, wisdom and what a report says of them."""

from __future__ import annotations

import json
import os

import pytest

from benchmarks import options
from benchmarks.names import pick
from benchmarks.tables import Table
from benchmarks.tool import INTERRUPTED, Run, command, new_parser, versions


def parser():
    made = new_parser("benchmarks.stand_in", "A stand-in.")
    options.add_engines(made, ["pplconv", "numpy"], ["numpy"])
    options.add_threads(made, [1, 2])
    options.add_batch(made)
    options.add_timing(made)
    options.add_output(made)
    return made


def main_of(measure):
    return command(parser)(measure)


def test_what_was_measured_before_an_interrupt_is_published(tmp_path, capsys):
    def measure(run):
        table = Table("figures", ["step", "figure"])
        with run.steps(3) as progress:
            for step in range(3):
                progress.begin(str(step))
                if step == 1:
                    raise KeyboardInterrupt
                table.add([str(step), "1.0"])
        return run.publish(run.head(), [table], {"rows": table.rows})

    page, figures = tmp_path / "a.md", tmp_path / "a.json"
    given = ["--threads", "2", "--markdown", str(page), "--json", str(figures)]
    assert main_of(measure)(given) == INTERRUPTED == 130
    text = page.read_text()
    assert "- note: interrupted in step 2 of 3: figures are partial" in text
    assert "| 0 | 1.0 |" in text
    plain = json.loads(figures.read_text())
    assert plain["rows"] == [["0", "1.0"]]
    assert plain["command"].startswith("python -m benchmarks.stand_in --threads 2 --markdown ")
    assert "figures" in capsys.readouterr().out


def test_other_errors_are_not_swallowed():
    def measure(run):
        with run.steps(1):
            raise RuntimeError("wrong by 1")

    with pytest.raises(RuntimeError, match="wrong by 1"):
        main_of(measure)([])


def test_options_have_the_defaults_of_the_benchmark():
    chosen = Run(parser(), []).chosen
    assert (chosen.engines, chosen.threads, chosen.batch) == (["numpy"], [1, 2], [1])


@pytest.mark.parametrize("given", ["a,d", ","])
def test_words_that_are_unknown_are_refused_by_the_name_of_the_option(given, capsys):
    made = parser()
    made.add_argument("--kinds", type=options.some_of(["a", "b", "c"]))
    assert made.parse_args(["--kinds", "c,a"]).kinds == ["c", "a"]
    with pytest.raises(SystemExit) as caught:
        Run(made, ["--kinds", given])
    assert caught.value.code == 2
    assert f"argument --kinds: {given!r}: expected some of a,b,c" in capsys.readouterr().err


def test_named_ones_come_in_their_own_order():
    known = {"a": 1, "b": 2, "c": 3}
    assert list(pick("letter", ["c", "a"], known).items()) == [("a", 1), ("c", 3)]
    assert pick("letter", [], known) == known
    with pytest.raises(ValueError, match="unknown letter d, e: expected some of a, b, c"):
        pick("letter", ["d", "a", "e"], known)


def test_what_a_value_error_says_is_an_error_of_the_command(capsys):
    with pytest.raises(SystemExit) as caught, Run(parser(), []).refusing():
        raise ValueError("there is no lenet")
    assert caught.value.code == 2
    assert "benchmarks.stand_in: error: there is no lenet" in capsys.readouterr().err


def test_no_benchmark_reads_the_wisdom_of_the_user(monkeypatch):
    monkeypatch.setenv("PPLCONV_WISDOM", "theirs")
    seen = []

    def measure(run):
        seen.append(os.environ["PPLCONV_WISDOM"])
        return 0

    assert main_of(measure)([]) == 0
    assert seen == ["off"]
    assert os.environ["PPLCONV_WISDOM"] == "theirs"


def test_versions_are_those_of_imported_peers():
    assert versions("pytest", "no_such_peer") == [f"pytest {pytest.__version__}"]
    assert versions("no_such_peer") == ["no peer is installed"]
