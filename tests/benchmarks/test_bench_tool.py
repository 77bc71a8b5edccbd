"""The frame of the benchmarks: options, interrupts, wisdom and what a report says of them."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

import benchmarks.quantized.run as quantized
import benchmarks.sparse.run as sparse
from benchmarks import (
    accuracy,
    interference,
    measure_candidates,
    options,
    pool_overhead,
    run,
    scaling,
    strides,
)
from benchmarks.engines.base import Availability
from benchmarks.names import pick
from benchmarks.networks import beside
from benchmarks.tables import Table
from benchmarks.tool import INTERRUPTED, Run, command, new_parser, versions
from tests.benchmarks.known_runs import FAST, TINY

NONSENSE = {
    run: [
        (["--batch", "0"], "expected sizes of batches, such as 1,8"),
        (["--search", "guess"], "expected some of estimate,measure,measure-cold,exhaustive"),
        (["--tolerance", "tight"], "expected numbers from 0 to 0.01"),
        (["--tolerance", "-1"], "expected numbers from 0 to 0.01"),
        (["--tolerance", "nan"], "expected numbers from 0 to 0.01"),
        (["--engines", "numpi"], "unknown engine numpi"),
        (["--nets", "lenet"], "unknown net lenet"),
        (["--layers", "("], "is no regular expression"),
        (["--threads", "0"], "expected numbers of threads"),
        (["--threads", "two"], "expected numbers of threads"),
        (["--rounds", "0"], "expected an integer of at least 1"),
        (["--min-ms", "-1"], "expected milliseconds"),
    ],
    scaling: [(["--threads", "1"], "--threads is 1, expected at least 2")],
    interference: [(["--layer", "mobilenet:conv99"], "--layer: there is no mobilenet:conv99")],
    beside: [(["--scenes", "alone,4 loops"], "--scenes: 'alone,4 loops': expected some of")],
    strides: [(["--loops", "none"], "--loops"), (["--sizes", "8"], "--sizes")],
    pool_overhead: [
        (["--modes", "fork"], "--modes: 'fork': expected some of thread,process"),
        (["--modes", ""], "expected some of thread,process"),
        (["--bytes", "0"], "argument --bytes: '0': expected bytes, such as 16,65536"),
        (["--rounds", "0"], "expected an integer of at least 1"),
    ],
    measure_candidates: [
        (["--layouts", "CHWN"], "expected some of NCHW,NHWC"),
        (["--minutes", "0"], "expected more than 0"),
        (["--nets", "lenet"], "unknown net lenet"),
        (["--resume", "--replace"], "not allowed with"),
    ],
    quantized: [
        (["--engines", "torch"], "unknown engine torch: expected some of pplconv_nhwc_u8"),
        (["--precision", "bf16", "--engines", "ort_u8s8"], "unknown engine ort_u8s8"),
        (["--precision", "fp8"], "invalid choice"),
        (["--nets", "lenet"], "unknown net lenet"),
    ],
    sparse: [
        (["--engines", "torch"], "unknown engine torch: expected some of pplconv_b1"),
        (["--precision", "bf16"], "expected some of fp32,int8"),
        (["--densities", "1.5"], "expected parts of the weights"),
        (["--densities", "none"], "expected parts of the weights"),
        (["--nets", "lenet"], "unknown net lenet"),
        (["--nets", "mobilenet", "--layers", "dw"], "only depthwise layers and stems"),
    ],
}


@pytest.mark.parametrize(
    ("tool", "arguments", "complaint"),
    [
        pytest.param(tool, *case, id=f"{tool.__name__} {' '.join(case[0])}")
        for tool, cases in NONSENSE.items()
        for case in cases
    ],
)
def test_nonsense_is_refused(tool, arguments, complaint, refused):
    assert complaint in refused(tool.main, *arguments)


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


def test_what_was_measured_before_an_interrupt_is_published(ran):
    def measure(run):
        table = Table("figures", ["step", "figure"])
        with run.steps(3) as progress:
            for step in range(3):
                progress.begin(str(step))
                if step == 1:
                    raise KeyboardInterrupt
                table.add([str(step), "1.0"])
        return run.publish(run.head(), [table], {"rows": table.rows})

    assert INTERRUPTED == 130
    found = ran(main_of(measure), "--threads", "2", status=INTERRUPTED)
    assert "- note: interrupted in step 2 of 3: figures are partial" in found.text
    assert "| 0 | 1.0 |" in found.text
    assert found.plain["rows"] == [["0", "1.0"]]
    command = found.plain["command"]
    assert command.startswith("python -m benchmarks.stand_in --threads 2 --markdown ")
    assert "figures" in found.out


@pytest.mark.parametrize(
    ("tool", "measures", "arguments", "steps"),
    [
        (run, "run_layer", [*TINY, *FAST, "--engines", "numpy"], 2),
        (accuracy, "measure", ["--nets", "vgg_19", "--engines", "numpy"], 8),
    ],
    ids=["run", "accuracy"],
)
def test_an_interrupt_before_anything_is_told(tool, measures, arguments, steps, interrupted, capfd):
    interrupted(tool, measures, after=0)
    assert tool.main(arguments) == INTERRUPTED
    assert f"interrupted in step 1 of {steps}" in capfd.readouterr().out


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


def test_missing_peers_are_named_first(capsys):
    found = [
        (SimpleNamespace(name="pplconv"), Availability(True, "1")),
        (SimpleNamespace(name="torch"), Availability(False, reason="No module named 'torch'")),
    ]
    (engine,) = options.installed(new_parser("benchmarks.run", ""), found)
    said = capsys.readouterr().err
    assert engine.name == "pplconv"
    assert "not compared with: torch." in said and "make bench BENCH_EXTRAS=peers" in said
    options.installed(new_parser("benchmarks.run", ""), found[:1])
    assert not capsys.readouterr().err
