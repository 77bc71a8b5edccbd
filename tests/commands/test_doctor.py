"""``python -m pplconv doctor``: findings from facts, the command around them, closed pipes."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import pplconv
from pplconv import __main__ as command
from pplconv import planner
from pplconv.commands import doctor
from pplconv.commands.doctoring.facts import Facts, gather
from pplconv.commands.doctoring.findings import CHECKS, NOTE, OK, SLOW, examine
from pplconv.commands.doctoring.loop import Loop, run_loop
from pplconv.commands.doctoring.narrow import LAYERS, estimate_gains
from pplconv.config import Settings
from pplconv.machine import Machine
from pplconv.machine.condition import Condition, Times
from pplconv.numerics import BRAIN_KINDS, numerics_of
from tests.programs import ran

MACHINE = Machine(
    arch="x86_64",
    isas=("portable", "avx2", "avx512"),
    fma_per_cycle={"portable": 1, "avx2": 2, "avx512": 2},
    cores=((0, 4), (1, 5), (2, 6), (3, 7)),
    affinity=tuple(range(8)),
    numa_nodes=((0, 1, 4, 5), (2, 3, 6, 7)),
)
ONE_NODE = replace(MACHINE, numa_nodes=(tuple(range(8)),), node_ids=(0,), node_memory=(0,))
FINE = Facts(
    machine=ONE_NODE,
    isas=MACHINE.isas,
    threads=4,
    why="4 physical cores in the affinity mask",
    pools=({"prefix": "libgomp", "user_api": "openmp", "filepath": "a", "num_threads": 8},),
    condition=Condition(0.1, ("performance",), 1.0, "madvise", (0,)),
    times=Times(1000, 900, 0),
    loop=Loop(1e11, 0.99, 1.0, 4, 0.97),
    wisdom={"path": "/w.json", "entries": 5, "trouble": None},
    known=3,
)
POOL = {"prefix": "libscipy_openblas", "user_api": "blas", "filepath": "b", "num_threads": 64}
RUNTIME = {"prefix": "libomp", "user_api": "openmp", "filepath": "c", "num_threads": 4}


def with_machine(facts=FINE, **changes):
    return replace(facts, machine=replace(facts.machine, **changes))


def asked(threads, name="num_threads"):
    settings = Settings(**{name: threads})
    return replace(FINE, settings=settings, threads=threads, why=f"asked for {threads}")


def test_a_machine_on_which_all_is_well():
    found = examine(FINE)
    assert [finding.what for finding in found] == [name for name, _ in CHECKS]
    assert {finding.state for finding in found} == {OK}
    assert not any(finding.advice for finding in found)
    assert 10 <= len(found) <= 12


CASES = {
    "a cap": (
        replace(FINE, settings=Settings(max_isa="avx2"), isas=("portable", "avx2")),
        "instructions", SLOW, "PPLCONV_MAX_ISA is avx2, and the CPU has avx512",
    ),
    "a cap that caps nothing": (
        replace(FINE, settings=Settings(max_isa="amx")), "instructions", OK, "all that the CPU has",
    ),
    "portable kernels": (
        with_machine(replace(FINE, isas=("portable",)), isas=("portable",)),
        "instructions", SLOW, "portable kernels only",
    ),
    "a build without kernels": (
        replace(FINE, isas=("portable",), unbuilt=("avx2", "avx512")),
        "instructions", SLOW, "this build lacks avx2, avx512",
    ),
    "a build that lacks the newest": (
        replace(FINE, unbuilt=("avx512",)), "instructions", NOTE, "avx2; this build lacks avx512",
    ),
    "tiles that are refused": (
        replace(FINE, withheld=(("amx", "refused"),)),
        "instructions", NOTE, "amx is kept back: refused",
    ),
    "features of some cores": (
        with_machine(denied=("sve",)), "instructions", NOTE, "not on every core: sve",
    ),
    "a narrow mask": (
        with_machine(affinity=(0, 4)), "cores", NOTE, "1 of 4 cores, 2 of 8 CPUs",
    ),
    "efficiency cores": (
        with_machine(efficiency_cores=(2, 3, 6, 7)), "cores", OK, "2 of them efficiency cores",
    ),
    "a quota": (with_machine(quota=1.5), "quota", NOTE, "1.5 CPUs' worth of time, on 4 cores"),
    "a quota that is used up": (
        with_machine(replace(FINE, times=Times(10, 0, 0, 20, 10)), quota=1.5),
        "quota", SLOW, "used up in 50 % of its periods",
    ),
    "a large quota": (with_machine(quota=16.0), "quota", OK, "16 CPUs' worth of time"),
    "more threads than CPUs": (asked(64), "team", SLOW, "on 8 CPUs"),
    "threads for siblings": (asked(8), "team", SLOW, "two share the FMA units of one"),
    "OpenMP's wish": (asked(64, "omp_num_threads"), "team", SLOW, "64 threads"),
    "more threads than are paid for": (
        with_machine(asked(4), quota=1.5), "team", SLOW, "on a quota of 1.5 CPUs",
    ),
    "fewer threads than cores": (asked(1), "team", NOTE, "1 thread (asked for 1), on 4 cores"),
    "a large pool": (
        replace(FINE, pools=(*FINE.pools, POOL)), "other pools", NOTE, "libscipy_openblas 64",
    ),
    "two runtimes": (
        replace(FINE, pools=(*FINE.pools, RUNTIME)), "other pools", NOTE, "2 OpenMP runtimes",
    ),
    "no pools": (replace(FINE, pools=()), "other pools", OK, "none loaded"),
    "half cores": (
        with_machine(affinity=(0, 1, 2, 3)), "siblings", NOTE, "may be somebody's",
    ),
    "no siblings": (
        with_machine(cores=((0,), (1,)), affinity=(0, 1)), "siblings", OK, "none that",
    ),
    "stolen time": (
        replace(FINE, times=Times(1000, 0, 100)), "neighbours", SLOW, "10.0 % of the time stolen",
    ),
    "a full machine": (
        replace(FINE, condition=replace(FINE.condition, load=30.0)),
        "neighbours", SLOW, "load 30.0 on 8 CPUs",
    ),
    "a busy machine": (
        replace(FINE, condition=replace(FINE.condition, load=6.0)),
        "neighbours", NOTE, "load 6.0",
    ),
    "bound neighbours": (
        replace(FINE, neighbours=frozenset({1, 2})), "neighbours", NOTE, "2 CPUs have threads",
    ),
    "a limit of the clock": (
        replace(FINE, condition=replace(FINE.condition, clock_limit=0.5)),
        "clock", SLOW, "limited to 50 %",
    ),
    "saving power": (
        replace(FINE, condition=replace(FINE.condition, governors=("powersave",))),
        "clock", NOTE, "powersave",
    ),
    "no clocks": (replace(FINE, condition=Condition()), "clock", OK, "not told"),
    "a loop that waits": (
        replace(FINE, loop=Loop(1e11, 0.9, 0.6, 1, 1.0)), "FMA loop", SLOW, "for 60 % of the time",
    ),
    "a team that waits": (
        replace(FINE, loop=Loop(1e11, 0.9, 0.6, 4, 0.9)),
        "FMA loop", SLOW, "60 % of the time, for which its team waits",
    ),
    "a thread that OpenMP has bound": (
        replace(FINE, bound=(3, 4)), "cores", NOTE, "OpenMP has bound the calling thread to 3, 4",
    ),
    "a loop that does not scale": (
        replace(FINE, loop=Loop(1e11, 0.9, 1.0, 4, 0.5)), "FMA loop", SLOW, "4 threads 2.00 times",
    ),
    "a loop of many speeds": (
        replace(FINE, loop=Loop(1e11, 0.7, 1.0, 1, 1.0)), "FMA loop", NOTE, "steady to 70 %",
    ),
    "no loop": (replace(FINE, loop=None), "FMA loop", OK, "not run"),
    "memory of another node": (
        replace(FINE, machine=MACHINE), "memory", SLOW, "memory may come from 0 only",
    ),
    "two nodes": (
        replace(FINE, machine=MACHINE, condition=replace(FINE.condition, memory_nodes=(0, 1))),
        "memory", NOTE, "2 of them in use",
    ),
    "no huge pages": (
        replace(FINE, condition=replace(FINE.condition, huge_pages="never")),
        "memory", NOTE, "huge pages never",
    ),
    "no wisdom": (
        replace(FINE, known=0), "wisdom", NOTE, "none for this CPU in /w.json (5 for others)",
    ),
    "wisdom in memory": (
        replace(FINE, known=0, wisdom={"path": None, "entries": 0, "trouble": None}),
        "wisdom", NOTE, "in memory only",
    ),
    "products of bfloat16": (
        replace(FINE, gains={"1x1": 1.96, "3x3": 1.04}),
        "low precision", OK, "2.0 times in a 1x1 layer, 1.0 times in a 3x3 layer; operands of "
        "products are rounded by up to 0.4 %: session.compare(feed)",
    ),
    "products of bfloat16 that are not used": (
        with_machine(isas=(*MACHINE.isas, "avx512bf16")),
        "low precision", NOTE, "this CPU's products of bfloat16 are not in use",
    ),
    "no products of bfloat16": (FINE, "low precision", OK, "this CPU has no products of bfloat16"),
    "wisdom that cannot be read": (
        replace(FINE, wisdom={"path": "/w.json", "entries": 0, "trouble": "is no JSON"}),
        "wisdom", SLOW, "the file /w.json is no JSON",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_thing_that_holds_speed_back(case):
    facts, what, state, words = CASES[case]
    (finding,) = [finding for finding in examine(facts) if finding.what == what]
    assert finding.state == state, finding
    assert words in finding.text
    assert bool(finding.advice) == (state != OK)


def test_every_check_has_a_case_that_is_not_well():
    assert {what for _, what, state, _ in CASES.values() if state != OK} == {n for n, _ in CHECKS}


def options(*arguments):
    parser = argparse.ArgumentParser()
    doctor.add_arguments(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize(
    ("facts", "status"), [(FINE, 0), (replace(FINE, known=0), 0), (asked(64), 1)]
)
def test_status_says_whether_something_is_slow(facts, status, capsys):
    assert doctor.run(options(), lambda: facts) == status
    out = capsys.readouterr().out
    assert (" -> " in out) == any(finding.advice for finding in examine(facts))
    assert ("slow  " in out) == bool(status)


def test_lines_are_no_wider_than_the_terminal(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "72")
    doctor.run(options(), lambda: asked(64))
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 71


def test_json_has_all_of_it(capsys):
    assert doctor.run(options("--json"), lambda: asked(64)) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["slow"] == 1 and len(found["findings"]) == len(CHECKS)
    assert found["findings"][0].keys() == {"state", "what", "text", "advice"}
    assert found["loop"]["scaling"] == 0.97 and found["times"]["total"] == 1000
    assert doctor.run(options("--json"), lambda: replace(FINE, loop=None)) == 0
    assert json.loads(capsys.readouterr().out)["loop"] is None


def test_a_malformed_setting_and_an_interrupt(monkeypatch, capsys):
    monkeypatch.setenv("PPLCONV_NUM_THREADS", "many")
    assert command.main(["doctor"]) == 2
    assert capsys.readouterr().err.startswith("pplconv doctor: PPLCONV_NUM_THREADS is 'many'")

    def interrupted():
        raise KeyboardInterrupt

    assert doctor.run(options(), interrupted) == 130


def test_facts_are_those_of_the_machine_that_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("PPLCONV_WISDOM", str(tmp_path / "wisdom.json"))
    proc = tmp_path / "proc"
    proc.mkdir()
    proc.joinpath("loadavg").write_text("3.50 2.00 1.00 1/100 1234\n")
    rows = [{"isa": isa, "dtype": "f32"} for isa in ("portable", "avx2")]
    loop = Loop(1.0, 1.0, 1.0, 1, 1.0)
    runs = []
    facts = gather(
        root=str(tmp_path), settings=Settings(num_threads=3), machine=MACHINE, rows=rows,
        pools=lambda: [POOL], cpuid=lambda leaf, sub: None, xgetbv=lambda index: None,
        run=lambda isa, threads: runs.append((isa, threads)) or loop, gains=lambda: {"1x1": 2.0},
    )  # fmt: skip
    assert facts.gains == {"1x1": 2.0}
    assert runs == [("avx2", 3)] and facts.loop is loop
    assert facts.isas == ("portable", "avx2") and facts.unbuilt == ("avx512",)
    assert (facts.threads, facts.condition.load, facts.known) == (3, 3.5, 0)
    assert facts.pools == (POOL,) and facts.withheld == () and facts.neighbours == frozenset()
    assert facts.wisdom["path"] == str(tmp_path / "wisdom.json")


def test_here_it_runs(capsys):
    """On this machine: every line is printed, and the status agrees with the lines."""
    status = command.main(["doctor"])
    out = capsys.readouterr().out
    assert status == int("slow  " in out)
    for name, _ in CHECKS:
        assert f" {name} " in out


@pytest.mark.narrow
def test_gains_are_estimated_where_there_are_such_products():
    kinds = (planner.best_isa(numerics_of("f32", kind)) for kind in BRAIN_KINDS)
    gains = estimate_gains()
    if all(isa in (None, "portable") for isa in kinds):
        assert gains == {}
    else:
        assert gains.keys() == LAYERS.keys()
        # They are permitted, and not demanded.
        assert all(1 <= gain < 32 for gain in gains.values())


class Clock:
    """A clock that only the loop advances; the thread gets the share `given` of its time."""

    def __init__(self, given: float) -> None:
        self.wall, self.own, self.given = 0.0, 0.0, given

    def loop(self, isa: str, dtype: str, iterations: int) -> int:
        self.wall += 1e-6 * iterations
        self.own += 1e-6 * iterations * self.given
        return 100 * iterations


@pytest.mark.parametrize("given", [1.0, 0.25])
def test_the_loop_tells_what_the_thread_was_given(given):
    clock = Clock(given)
    found = run_loop("any", 1, clock.loop, lambda: clock.wall, lambda: clock.own)
    assert found.flops == pytest.approx(1e8) and found.steadiness == pytest.approx(1)
    assert found.given == pytest.approx(given)
    assert (found.threads, found.scaling) == (1, 1.0)


@pytest.mark.parametrize("arguments", [["info"], ["info", "--json"], ["doctor"]], ids=" ".join)
def test_a_closed_pipe_is_no_error(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        pipes = {"capture_output": False, "stdout": writing, "stderr": subprocess.PIPE}
        done = ran("-m", "pplconv", *arguments, cwd=Path(pplconv.__file__).parents[1], **pipes)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")
