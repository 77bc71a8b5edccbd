"""The command lines, end to end, on layers that take no time."""

from __future__ import annotations

import json
import os
import statistics
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import interference, machine, overhead, run, scaling
from tests.benchmarks.known_runs import FAST, ROOT, TINY, child, python
from tests.patience import eventually

LAYERS = ("conv11", "conv6/dw")


@pytest.fixture
def known_ceilings(monkeypatch):
    monkeypatch.setattr(run.ceilings, "measure", lambda threads: {"L2": 1e9 * threads})


@pytest.mark.slow
def test_run_prints_tables_and_writes_them(known_ceilings, ran):
    found = ran(run.main, *TINY, *FAST, "--engines", "pplconv,numpy", "--threads", "1,2")
    for team in ("1 thread", "2 threads"):
        assert f"mobilenet, {team}: GFLOP/s" in found.out
        assert f"mobilenet, {team}: sums over the network, ms" in found.out
    assert "[4/4" in found.err
    assert "GFLOP/s" not in found.err
    assert "python -m benchmarks.run --nets mobilenet" in found.text
    assert machine.cpu_model() in found.text
    assert "| conv11 | 4 | 0.0 |" in found.text
    layers = found.plain["layers"]
    assert [(one["threads"], one["layer"]) for one in layers] == [
        (threads, name) for threads in (1, 2) for name in LAYERS
    ]
    for one in layers:
        assert one["engines"]["numpy"]["status"] == "ok"
        assert one["engines"]["numpy"]["seconds"] > 0


@pytest.mark.slow
def test_batches_and_settings_side_by_side(known_ceilings, ran):
    chosen = ["--engines", "pplconv,pplconv_nhwc,numpy", "--batch", "1,2"]
    settings = ["--search", "estimate", "--tolerance", "1e-4,1e-5", "--figures"]
    found = ran(run.main, *TINY, *FAST, *chosen, *settings)
    both = "search=estimate, tolerance=1e-4; search=estimate, tolerance=1e-5"
    for title in (
        "mobilenet, 1 thread: GFLOP/s",
        "mobilenet, batch 2, 1 thread: GFLOP/s",
        "Classes of layers, batch 2, 1 thread (search=estimate, tolerance=1e-4)",
        f"Figures to reach (pplconv with {both})",
    ):
        assert title in found.out
    plain = found.plain
    assert list(plain["engines"]) == [
        "pplconv@estimate@1e-5", "pplconv@estimate@1e-4",
        "pplconv_nhwc@estimate@1e-5", "pplconv_nhwc@estimate@1e-4", "numpy",
    ]  # fmt: skip
    assert plain["engines"]["pplconv_nhwc@estimate@1e-4"]["asked"] == 1e-4
    assert [(one["batch"], one["layer"]) for one in plain["layers"]] == [
        (batch, name) for batch in (1, 2) for name in LAYERS
    ]
    assert plain["layers"][2]["problem"].startswith("mb2g1ic1024")
    entries = [entry for one in plain["layers"] for entry in one["engines"].values()]
    assert {entry["status"] for entry in entries} == {"ok"}
    assert plain["ceilings"] == {"1": {"L2": 1e9}}


@pytest.mark.slow
def test_what_measures_nothing_reads_no_ceilings(capfd, monkeypatch):
    def never(threads):
        raise AssertionError

    monkeypatch.setattr(run.ceilings, "measure", never)
    assert run.main([*TINY, *FAST, "--engines", "numpy"]) == 0


@pytest.mark.slow
def test_an_interrupted_run_keeps_the_layers_it_has(known_ceilings, ran, interrupted):
    interrupted(run, "run_layer", after=1)
    text = ran(run.main, *TINY, *FAST, "--engines", "numpy", status=130).text
    assert "interrupted in step 2 of 2" in text
    assert "conv11" in text
    assert "| conv6/dw |" not in text


def make(target):
    """Give the commands of a target of the Makefile, without running them."""
    return child("make", "-n", target, "REPORT=out", "PYTHON=true").stdout


def test_what_one_target_writes_the_next_one_reads():
    assert "-m benchmarks.run --json out/run.json" in make("bench")
    assert "-m benchmarks.accuracy --json out/accuracy.json" in make("bench-accuracy")
    assert "-m benchmarks.page --out out out/run.json" in make("bench-report")
    assert "-m benchmarks.networks.run --json out/networks.json" in make("bench-networks")
    for target in ("bench", "bench-accuracy", "bench-report", "bench-networks"):
        assert f"\n  {target} " in child("make", "help").stdout


@pytest.mark.slow
def test_scaling(ran):
    found = ran(scaling.main, *TINY, *FAST, "--engines", "numpy", "--over", "0.5")
    assert "mobilenet, numpy: 2 threads against 1" in found.out
    rows = found.plain["layers"]
    assert tuple(row["layer"] for row in rows) == LAYERS
    # Above half a MFLOP there is one layer: its ratio is the worst one there.
    ratios = [one / many for one, many in zip(rows[1]["one"], rows[1]["many"], strict=True)]
    big = statistics.median(ratios)
    assert f"all above 0.5 MFLOP (worst {big:.2f})" in found.out


def test_scaling_takes_ratios_inside_rounds():
    # Both slow down together in the second round; one thread has a lucky moment in the third.
    row = scaling.Scaling(
        "net", "layer", "pplconv", 1, 1, 2, (4.0, 8.0, 2.0, 4.0, 4.0), (2.0, 4.0, 2.0, 2.0, 2.0), ()
    )
    assert row.quartiles == (2.0, 2.0, 2.0)
    assert row.seconds == (4.0, 2.0)
    wrong = replace(row, many=(), detail="2 thread(s): wrong")
    assert wrong.quartiles is None
    assert wrong.seconds is None
    for rows in ([row, wrong], [wrong]):
        summary = scaling.table("net", "pplconv", rows, 0.0).rows[-1]
        assert summary[3:] == ("-",) * 5


def test_beside(ran):
    arguments = ["--layer", "mobilenet:conv6/dw", "--rounds", "2", "--window", "100"]
    found = ran(interference.main, *arguments)
    losses = found.plain["losses"]
    assert [loss["what"] for loss in losses] == ["1 thread", "2 threads", "2 threads, bursts"]
    for loss in losses:
        assert f"\n{loss['what']} " in found.out
        assert loss["alone"] > 0
        assert min(loss["loop"], loss["engine"]) >= 0
        assert loss["beyond"] is None or loss["beyond"] <= 1


@pytest.fixture
def time_of_bursts(fake_time, monkeypatch):
    """The neighbour's clock."""
    clock = SimpleNamespace(perf_counter=fake_time.clock.now, sleep=fake_time.sleep)
    monkeypatch.setattr(interference, "time", clock)
    return fake_time


def test_a_neighbour_counts_what_it_did():
    with interference.Neighbour() as neighbour:
        eventually(lambda: neighbour.rate(0.05, None) > 0, "a product")
        calls = []
        eventually(lambda: neighbour.rate(0.05, lambda: calls.append(1)) > 0, "a product")
    assert calls
    assert neighbour.rate(0.001, None) == 0  # it has ended


def test_calls_beside_a_neighbour_go_on_while_there_is_time(time_of_bursts):
    calls = []
    neighbour = interference.Neighbour()
    assert neighbour.rate(1.0, lambda: calls.append(time_of_bursts.pass_by(0.25))) == 0
    assert len(calls) == 4
    neighbour.rate(3.0, None)
    assert time_of_bursts.sleeps == [3.0]


def test_a_round_in_which_nothing_ended_is_left_out():
    losses = [interference.Loss("1 thread", 100.0, 0.0, 50.0, None)]
    assert "| 1 thread | 100 | 0 | 50 | - |" in interference.table(losses).markdown()


def test_bursts_pause_as_long_as_they_work(time_of_bursts):
    pauses = []
    step = 0.4 * interference.BURST_SECONDS
    interference.in_bursts(lambda: time_of_bursts.pass_by(step), pauses.append)
    assert pauses == [pytest.approx(3 * step)]


@pytest.mark.slow
def test_overhead(tmp_path, ran, monkeypatch):
    wheel = tmp_path / "pplconv-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pplconv/big.so", b"0" * 2_000_000)
        archive.writestr("pplconv/small.py", b"1" * 10)
    readings = iter([0.1, 0.001] * 2)
    monkeypatch.setattr(overhead, "run_python", lambda code: next(readings))
    arguments = ["--engines", "pplconv,pplconv_conv2d,numpy", "--imports", "2"]
    found = ran(overhead.main, *FAST, *arguments, "--wheel", str(wheel))
    assert "A call on mb1g1ic8ih8iw8oc8oh8ow8kh3kw3sh1sw1ph1pw1dh0dw0, 1 thread" in found.out
    assert "pplconv/big.so" in found.out
    assert "2.00" in found.out
    plain = found.plain
    assert set(plain["call_seconds"]) == {"pplconv", "pplconv_conv2d", "numpy"}
    assert plain["import_seconds"] == {"pplconv": [0.1, 0.1], "nothing": [0.001, 0.001]}
    assert plain["wheel_bytes"] == wheel.stat().st_size


def test_a_fresh_interpreter_answers_or_says_why_not():
    assert overhead.run_python("print(1.5)") == 1.5
    with pytest.raises(RuntimeError, match="No module named 'no_such_module'"):
        overhead.run_python("import no_such_module")


def test_the_newest_wheel_is_weighed(tmp_path):
    assert overhead.find_wheel(None, tmp_path) is None
    (tmp_path / "dist").mkdir()
    for age, name in enumerate(["pplconv-2.whl", "pplconv-1.whl", "other-3.whl"]):
        path = tmp_path / "dist" / name
        path.write_bytes(b"")
        os.utime(path, (1000 - age, 1000 - age))
    found = overhead.find_wheel(None, tmp_path)
    assert found is not None
    assert found.name == "pplconv-2.whl"
    assert overhead.find_wheel(Path("given"), tmp_path) == Path("given")


def pytest_run(*arguments):
    # A worker's variables would tell the inner run that it is one of several, and not to time.
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    command = [sys.executable, "-m", "pytest", "benchmarks", "-p", "no:cacheprovider"]
    return child(*command, *arguments, check=False, env=environment)


def test_the_pytest_suite():
    done = pytest_run(*TINY, "--engines", "numpy", "-q", "--benchmark-json", "/dev/null")
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    for layer in LAYERS:
        assert f"benchmark 'mobilenet:{layer}, 1 thread(s)': 1 tests" in done.stdout


def test_the_pytest_suite_ends_with_a_summary_and_keeps_the_visits(tmp_path):
    path = tmp_path / "kept.json"
    rounds = ["--bench-rounds", "3", "--benchmark-json", str(path), "--benchmark-columns=median"]
    done = pytest_run(*TINY, "--engines", "pplconv,numpy", "-q", *rounds)
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    summary = done.stdout.partition("mobilenet, 1 thread: best visits\n")[2].splitlines()
    assert max(map(len, summary)) <= 80
    rows = {line.split()[0]: line.split() for line in summary if line}
    for one in json.loads(path.read_text())["benchmarks"]:
        assert one["stats"]["rounds"] == 3
        engine, _, layer = one["param"].replace("-1T-mobilenet:", " ").partition(" ")
        rate = float(rows[layer][rows[layer].index(engine) + 1])
        flops = one["extra_info"]["gflops"] * one["stats"]["median"]
        assert rate == pytest.approx(flops / one["stats"]["min"], abs=0.051)


def test_the_pytest_suite_keeps_the_engines_of_a_layer_together():
    done = pytest_run(
        *TINY, "--engines", "numpy,pplconv", "--bench-threads", "1,2", "--collect-only", "-q"
    )
    ids = [line.split("::")[1] for line in done.stdout.splitlines() if "::" in line]
    assert ids == [
        f"test_conv2d[{engine}-{threads}T-mobilenet:{layer}]"
        for layer in LAYERS
        for threads in (1, 2)
        for engine in ("pplconv", "numpy")
    ], done.stdout + done.stderr


def test_the_pytest_suite_refuses_nonsense():
    done = pytest_run("--nets", "lenet", "--collect-only")
    assert done.returncode != 0
    assert "unknown net lenet" in done.stdout + done.stderr


def test_the_installed_package_is_measured_not_the_tree():
    code = "import sys, benchmarks; print(sys.path[-1]); print(sys.path[0])"
    last, first = python(code).stdout.splitlines()
    assert Path(last) == ROOT
    assert Path(first or ".").resolve() != ROOT


def test_the_machine_is_described(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\ncpu family\t: 25\nmodel\t: 17\nmodel name\t: EPYC\n\n")
    assert machine.cpu_model(cpuinfo) == "EPYC (family 25, model 17)"
    assert machine.cpu_model(tmp_path / "missing")
    assert set(machine.describe()) == {"CPU", "cores", "caches a core", "system", "Python"}


def caches_of(folder, *contents):
    """Write caches as the system lists them: level, type, size and CPUs that share each."""
    for number, content in enumerate(contents):
        index = folder / f"index{number}"
        index.mkdir()
        for name, text in zip(("level", "type", "size", "shared_cpu_list"), content, strict=False):
            (index / name).write_text(text + "\n")
    (folder / "index9").mkdir()
    return folder


def test_caches_are_described(tmp_path):
    first, last = ("1", "Data", "48K", "0"), ("3", "Unified", "32768K", "0-3,8")
    folder = caches_of(tmp_path, first, last, ("2", "?", "10X", "0"))
    assert machine.caches(folder) == ["L1d 48 KiB", "L3 32 MiB (shared by 5)", "L2 10X"]


def test_cache_sizes(tmp_path):
    first = ("1", "Data", "48K"), ("1", "Instruction", "32K")
    folder = caches_of(tmp_path, *first, ("2", "Unified", "2048K"), ("3", "Unified", "?"))
    assert machine.cache_bytes(folder) == {1: 48 << 10, 2: 2 << 20}
