"""The command lines, end to end, on layers that take no time."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import interference, machine, overhead, run, scaling
from tests.patience import PATIENCE, eventually

ROOT = Path(__file__).resolve().parents[2]
FAST = ["--rounds", "1", "--min-ms", "0.1"]
TINY = ["--nets", "mobilenet", "--layers", "conv11|conv6/dw"]


@pytest.mark.slow
def test_run_prints_tables_and_writes_them(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(run.ceilings, "measure", lambda threads: {"L2": 1e9 * threads})
    markdown, figures = tmp_path / "r.md", tmp_path / "r.json"
    arguments = [*TINY, *FAST, "--engines", "pplconv,numpy", "--threads", "1,2"]
    files = ["--markdown", str(markdown), "--json", str(figures)]
    assert run.main([*arguments, *files]) == 0
    out, err = capfd.readouterr()
    for team in ("1 thread", "2 threads"):
        assert f"mobilenet, {team}: GFLOP/s" in out
        assert f"mobilenet, {team}: sums over the network, ms" in out
    assert "[4/4" in err
    assert "GFLOP/s" not in err
    text = markdown.read_text()
    assert "python -m benchmarks.run --nets mobilenet" in text
    assert machine.cpu_model() in text
    assert "| conv11 | 4 | 0.0 |" in text
    layers = json.loads(figures.read_text())["layers"]
    assert [(one["layer"], one["threads"]) for one in layers] == [
        ("conv11", 1),
        ("conv6/dw", 1),
        ("conv11", 2),
        ("conv6/dw", 2),
    ]
    for one in layers:
        assert one["engines"]["numpy"]["status"] == "ok"
        assert one["engines"]["numpy"]["seconds"] > 0


@pytest.mark.slow
def test_batches_and_settings_side_by_side(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(run.ceilings, "measure", lambda threads: {"L2": 1e9 * threads})
    figures = tmp_path / "new" / "r.json"
    chosen = ["--engines", "pplconv,pplconv_nhwc,numpy", "--batch", "1,2"]
    settings = ["--search", "estimate", "--tolerance", "1e-4,1e-5"]
    assert run.main([*TINY, *FAST, *chosen, *settings, "--json", str(figures)]) == 0
    out = capfd.readouterr().out
    assert "mobilenet, 1 thread: GFLOP/s" in out
    assert "mobilenet, batch 2, 1 thread: GFLOP/s" in out
    assert "Classes of layers, batch 2, 1 thread (search=estimate, tolerance=1e-4)" in out
    both = "search=estimate, tolerance=1e-4; search=estimate, tolerance=1e-5"
    assert f"Figures to reach (pplconv with {both})" in out
    plain = json.loads(figures.read_text())
    assert list(plain["engines"]) == [
        "pplconv@estimate@1e-5", "pplconv@estimate@1e-4",
        "pplconv_nhwc@estimate@1e-5", "pplconv_nhwc@estimate@1e-4", "numpy",
    ]  # fmt: skip
    assert plain["engines"]["pplconv_nhwc@estimate@1e-4"]["asked"] == 1e-4
    assert [(one["layer"], one["batch"]) for one in plain["layers"]] == [
        ("conv11", 1), ("conv6/dw", 1), ("conv11", 2), ("conv6/dw", 2),
    ]  # fmt: skip
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


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
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
)
def test_run_refuses_nonsense(arguments, complaint, capsys):
    with pytest.raises(SystemExit) as caught:
        run.main(arguments)
    assert caught.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.slow
def test_an_interrupted_run_keeps_the_layers_it_has(tmp_path, capfd, monkeypatch):
    real = run.run_layer
    done = []

    def interrupted(problem, *rest):
        if done:
            raise KeyboardInterrupt
        done.append(problem)
        return real(problem, *rest)

    monkeypatch.setattr(run, "run_layer", interrupted)
    target = tmp_path / "r.md"
    code = run.main([*TINY, *FAST, "--engines", "numpy", "--markdown", str(target)])
    assert code == 130
    text = target.read_text()
    assert "interrupted in step 2 of 2" in text
    assert "conv11" in text
    assert "| conv6/dw |" not in text


def test_interrupted_before_anything(capfd, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "run_layer", interrupted)
    assert run.main([*TINY, *FAST, "--engines", "numpy"]) == 130
    assert "interrupted in step 1 of 2" in capfd.readouterr().out


def make(target):
    """Give the commands of a target of the Makefile, without running them."""
    done = subprocess.run(
        ["make", "-n", target, "REPORT=out", "PYTHON=true"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    return done.stdout


def test_what_one_target_writes_the_next_one_reads():
    assert "-m benchmarks.run --json out/run.json" in make("bench")
    assert "-m benchmarks.accuracy --json out/accuracy.json" in make("bench-accuracy")
    assert "-m benchmarks.page --out out out/run.json" in make("bench-report")
    assert "-m benchmarks.networks.run --json out/networks.json" in make("bench-networks")
    for target in ("bench", "bench-accuracy", "bench-report", "bench-networks"):
        assert f"\n  {target} " in make_help()


def make_help():
    return subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=PATIENCE
    ).stdout


@pytest.mark.slow
def test_scaling(tmp_path, capfd):
    target = tmp_path / "s.json"
    arguments = [*TINY, *FAST, "--engines", "numpy", "--over", "0.5", "--json", str(target)]
    assert scaling.main(arguments) == 0
    out = capfd.readouterr().out
    assert "mobilenet, numpy: 2 threads against 1" in out
    rows = json.loads(target.read_text())["layers"]
    assert [row["layer"] for row in rows] == ["conv11", "conv6/dw"]
    # Above half a MFLOP there is one layer: its ratio is the worst one there.
    ratios = [one / many for one, many in zip(rows[1]["one"], rows[1]["many"], strict=True)]
    big = statistics.median(ratios)
    assert f"all above 0.5 MFLOP (worst {big:.2f})" in out


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


def test_scaling_needs_a_team(capsys):
    with pytest.raises(SystemExit):
        scaling.main(["--threads", "1"])
    assert "--threads is 1, expected at least 2" in capsys.readouterr().err


def test_beside(tmp_path, capfd):
    target = tmp_path / "b.json"
    arguments = ["--layer", "mobilenet:conv6/dw", "--rounds", "2", "--window", "100"]
    assert interference.main([*arguments, "--json", str(target)]) == 0
    out = capfd.readouterr().out
    losses = json.loads(target.read_text())["losses"]
    assert [loss["what"] for loss in losses] == ["1 thread", "2 threads", "2 threads, bursts"]
    for loss in losses:
        assert f"\n{loss['what']} " in out
        assert loss["alone"] > 0
        assert min(loss["loop"], loss["engine"]) >= 0
        assert loss["beyond"] is None or loss["beyond"] <= 1


def test_beside_wants_a_layer_that_is_there(capsys):
    with pytest.raises(SystemExit):
        interference.main(["--layer", "mobilenet:conv99"])
    assert "--layer: there is no mobilenet:conv99" in capsys.readouterr().err


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
def test_overhead(tmp_path, capfd, monkeypatch):
    wheel = tmp_path / "pplconv-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pplconv/big.so", b"0" * 2_000_000)
        archive.writestr("pplconv/small.py", b"1" * 10)
    readings = iter([0.1, 0.001] * 2)
    monkeypatch.setattr(overhead, "run_python", lambda code: next(readings))
    target = tmp_path / "o.json"
    arguments = [*FAST, "--engines", "pplconv,pplconv_conv2d,numpy", "--imports", "2"]
    assert overhead.main([*arguments, "--wheel", str(wheel), "--json", str(target)]) == 0
    out = capfd.readouterr().out
    assert "A call on mb1g1ic8ih8iw8oc8oh8ow8kh3kw3sh1sw1ph1pw1dh0dw0, 1 thread" in out
    assert "pplconv/big.so" in out
    assert "2.00" in out
    plain = json.loads(target.read_text())
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
    return subprocess.run(
        [sys.executable, "-m", "pytest", "benchmarks", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=PATIENCE,
    )


def test_the_pytest_suite():
    done = pytest_run(*TINY, "--engines", "numpy", "-q", "--benchmark-json", "/dev/null")
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    for layer in ("conv11", "conv6/dw"):
        assert f"benchmark 'mobilenet:{layer}, 1 thread(s)': 1 tests" in done.stdout


def test_the_pytest_suite_keeps_the_engines_of_a_layer_together():
    done = pytest_run(
        *TINY, "--engines", "numpy,pplconv", "--bench-threads", "1,2", "--collect-only", "-q"
    )
    ids = [line.split("::")[1] for line in done.stdout.splitlines() if "::" in line]
    assert ids == [
        f"test_conv2d[{engine}-{threads}T-mobilenet:{layer}]"
        for layer in ("conv11", "conv6/dw")
        for threads in (1, 2)
        for engine in ("pplconv", "numpy")
    ], done.stdout + done.stderr


def test_the_pytest_suite_refuses_nonsense():
    done = pytest_run("--nets", "lenet", "--collect-only")
    assert done.returncode != 0
    assert "unknown net lenet" in done.stdout + done.stderr


def test_the_installed_package_is_measured_not_the_tree():
    code = "import sys, benchmarks; print(sys.path[-1]); print(sys.path[0])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    last, first = done.stdout.splitlines()
    assert Path(last) == ROOT
    assert Path(first or ".").resolve() != ROOT


def test_the_machine_is_described(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\ncpu family\t: 25\nmodel\t: 17\nmodel name\t: EPYC\n\n")
    assert machine.cpu_model(cpuinfo) == "EPYC (family 25, model 17)"
    assert machine.cpu_model(tmp_path / "missing")
    sizes = [("1", "Data", "48K", "0"), ("3", "Unified", "32768K", "0-3,8"), ("2", "?", "10X", "0")]
    for number, content in enumerate(sizes):
        index = tmp_path / f"index{number}"
        index.mkdir()
        names = ("level", "type", "size", "shared_cpu_list")
        for name, text in zip(names, content, strict=True):
            (index / name).write_text(text + "\n")
    (tmp_path / "index9").mkdir()
    assert machine.caches(tmp_path) == ["L1d 48 KiB", "L3 32 MiB (shared by 5)", "L2 10X"]
    assert set(machine.describe()) == {"CPU", "cores", "caches a core", "system", "Python"}
