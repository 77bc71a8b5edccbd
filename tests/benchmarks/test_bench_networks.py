"""Whole networks, end to end: stubs and tiny models in processes of their own."""

from __future__ import annotations

import importlib.machinery
import io
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import network_stubs as stubs
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from benchmarks.networks import beside, cases, engines, models, run
from benchmarks.networks.beside import Row, Scene, Team
from benchmarks.networks.cases import Bench, Case, difference, order
from benchmarks.networks.process import Client, WorkerError, choose_cpus
from benchmarks.networks.worker import peak_bytes
from benchmarks.timing import Settings
from examples.models.progress import Progress
from tests.benchmarks.known_runs import python

FAST = ["--rounds", "3", "--min-ms", "1"]


def tiny():
    """A model of one convolution and a Relu, for any height and width."""
    weight = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["y"]),
        ],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4, "h", "w"])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(autouse=True)
def _workers_find_the_stubs(monkeypatch):
    found = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(found))


@pytest.fixture
def one_cpu(monkeypatch):
    """Teams that share a CPU, as a machine with a single one has no others."""
    monkeypatch.setattr(run, "choose_cpus", lambda threads: choose_cpus(1))


@pytest.fixture
def network(monkeypatch):
    """The only network that there is."""
    made = models.Network(models.Generated("tiny.onnx", tiny), {"x": (1, 3, 8, 16)})
    monkeypatch.setattr(models, "NETWORKS", {"tiny": made})
    return made


@pytest.fixture
def with_engines(monkeypatch, network):
    """Make some engines the only ones that there are, and the stub the reference."""

    def use(*chosen, reference=stubs.Reference):
        monkeypatch.setattr(engines, "ENGINES", {engine.name: engine for engine in chosen})
        monkeypatch.setattr(run, "REFERENCE", reference)

    return use


@pytest.mark.slow
def test_a_run_from_its_arguments_to_its_files(tmp_path, with_engines, one_cpu, ran):
    with_engines(stubs.Ours, stubs.Right, stubs.Wrong, stubs.Absent)
    arguments = [*FAST, "--threads", "1,2", "--batch", "1,2", "--cache", str(tmp_path / "cache")]
    found = ran(run.main, *arguments)
    assert "[4/4" in found.err and "tiny, batch 2, 2 threads" in found.err
    assert "Networks, batch 2, 1 thread: median of the rounds, ms" in found.out
    assert "absent: no_such_module is not installed" in found.out
    assert "note: tiny, 1 thread: wrong wrong: off by 0.01 of the largest value" in found.out
    for part in (
        "| network | ours | right | wrong | best peer | ours / best peer | of the rounds |",
        "stands for pplconv",
        "python -m benchmarks.networks.run --rounds 3",
    ):
        assert part in found.text
    plain = found.plain
    assert plain["engines"]["absent"]["installed"] is False
    assert plain["engines"]["right"]["version"] == np.__version__
    assert ["CPU", dict(plain["head"])["CPU"]] in plain["head"]
    assert [(one["batch"], one["threads"]) for one in plain["cases"]] == [
        (1, 1), (2, 1), (1, 2), (2, 2),
    ]  # fmt: skip
    for case in plain["cases"]:
        assert case["shapes"] == {"x": [case["batch"], 3, 8, 16]}
        assert case["best_peer"] == "right"
        assert len(case["ratios"]["ours"]) == 3 and min(case["ratios"]["ours"]) > 0
        assert "absent" not in case["engines"]
        assert case["engines"]["wrong"]["rounds"] == []
        for name in ("ours", "right"):
            entry = case["engines"][name]
            assert entry["status"] == "ok" and entry["error"] == 0.0
            assert len(entry["rounds"]) == 3 and entry["best"] <= entry["median"]
            # It sleeps a millisecond: a faster entry has not been run.
            assert entry["best"] >= 0.001
            assert 0 < entry["first_seconds"] < entry["answer_seconds"]
            assert entry["second_seconds"] > 0
            assert 5e6 < entry["peak_bytes"] < 1e9


def test_onnxruntime_agrees_with_itself_unoptimised(tmp_path, with_engines, ran):
    pytest.importorskip("onnxruntime")
    with_engines(engines.OnnxRuntime, reference=engines.Unoptimised)
    (case,) = ran(run.main, *FAST, "--batch", "2", "--cache", str(tmp_path)).plain["cases"]
    entry = case["engines"]["onnxruntime"]
    assert entry["status"] == "ok" and entry["error"] < 1e-5 and len(entry["rounds"]) == 3


def measured(network, batch, path, *engines):
    """Measure engines by themselves on one CPU; files go beside the model."""
    case = Case("tiny", network, "", batch, 1)
    bench = Bench(engines, stubs.Reference, Settings(2, 0.001))
    bench.measure(case, path, choose_cpus(1), path.parent, lambda text: None)
    return case


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("engine", "status", "detail"),
    [
        (stubs.Wrong, "wrong", "off by 0.01 of the largest value"),
        (stubs.Tired, "wrong", "off by 1 of the largest value"),
        (stubs.TwoOutputs, "wrong", "2 outputs, expected 1"),
        (stubs.Refusing, "failed", "NotImplementedError: an operator that it lacks"),
        (stubs.Dying, "failed", "the process was ended by SIGKILL: "),
        (stubs.Unconverted, "failed", "the converter failed"),
    ],
    ids=lambda value: value.name if isinstance(value, type) else None,
)
def test_who_is_not_right_has_no_figures(tmp_path, network, engine, status, detail):
    (path,) = models.obtain([network], tmp_path, Progress(io.StringIO()))
    case = measured(network, 1, path, engine, stubs.Right)
    entry = case.entries[engine.name]
    assert entry.status == status and detail in entry.detail
    assert entry.rounds == [] and entry.median is None
    # The others go on.
    assert case.entries["right"].status == "ok" and len(case.entries["right"].rounds) == 2
    assert case.best_peer([engine.name, "right"]) == "right"
    assert case.ratios(engine.name, ["right"]) == []


def test_last_words_are_told(tmp_path):
    with Client(stubs.Dying, []) as worker, pytest.raises(WorkerError, match="last words"):
        load(worker, tmp_path)


def test_a_wrong_answer_of_ours_is_the_exit_status(tmp_path, with_engines, capfd):
    with_engines(stubs.WrongOurs, stubs.Right)
    assert run.main([*FAST, "--cache", str(tmp_path)]) == 1
    assert "ours wrong: off by 0.01" in capfd.readouterr().out


def test_without_a_reference_there_is_nothing(tmp_path, with_engines, capfd):
    with_engines(stubs.Right, reference=stubs.Refusing)
    assert run.main([*FAST, "--cache", str(tmp_path)]) == 0
    out = capfd.readouterr().out
    assert "note: tiny, 1 thread: the reference failed: NotImplementedError" in out


def test_a_graph_for_one_image_has_no_batches(tmp_path, network):
    alone = models.Network(network.source, network.inputs, batched=False)
    case = measured(alone, 2, tmp_path / "none", stubs.Right)
    assert case.detail == "its graph is written for a batch of 1" and case.entries == {}


def test_interrupted_rounds_are_kept(tmp_path, with_engines, one_cpu, ran, monkeypatch):
    with_engines(stubs.Ours, stubs.Right)
    visits = []
    ask = Client.ask

    def interrupted(self, do, **command):
        if do == "visit":
            visits.append(do)
            if len(visits) == 4:
                raise KeyboardInterrupt
        return ask(self, do, **command)

    monkeypatch.setattr(Client, "ask", interrupted)
    found = ran(run.main, *FAST, "--threads", "1,2", "--cache", str(tmp_path), status=130)
    assert "interrupted in step 1 of 2: figures are partial" in found.out
    (case,) = found.plain["cases"]
    assert sorted(len(entry["rounds"]) for entry in case["engines"].values()) == [1, 2]
    assert len(case["ratios"]["ours"]) == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--models", "lenet"], "unknown model lenet: expected some of tiny"),
        (["--engines", "torch"], "unknown engine torch: expected some of right"),
        (["--threads", "4096"], "4096 threads on"),
        (["--engines", "absent"], "absent: no_such_module is not installed"),
        (["--rounds", "0"], "expected an integer of at least 1"),
    ],
)
def test_nonsense_is_refused(with_engines, arguments, complaint, refused):
    with_engines(stubs.Right, stubs.Absent)
    assert complaint in refused(run.main, *arguments)


def test_a_version_without_sessions_is_absent(monkeypatch):
    import pplconv

    monkeypatch.setattr(pplconv, "InferenceSession", object(), raising=False)
    assert engines.Pplconv.missing() == ""
    older = types.ModuleType("pplconv")
    older.__spec__ = importlib.machinery.ModuleSpec("pplconv", None)
    monkeypatch.setitem(sys.modules, "pplconv", older)
    assert engines.Pplconv.missing() == "the installed pplconv has no InferenceSession"


def test_pplconv_is_asked_as_its_interface_says(monkeypatch):
    import pplconv

    class Session:
        def __init__(self, path, *, threads):
            self.made = (path, threads)

        def run(self, names, feed):
            assert names is None
            return [self.made, feed]

    monkeypatch.setattr(pplconv, "InferenceSession", Session, raising=False)
    engine = engines.Pplconv()
    engine.load("m.onnx", {"x": (1,)}, 2)
    assert engine.run({"x": 1}) == [("m.onnx", 2), {"x": 1}]


def load(worker, folder, shape=(1, 2)):
    feed = folder / "feed.npz"
    np.savez(feed, np.ones(shape, np.float32))
    return worker.ask("load", path="", shapes={"a/b": shape}, threads=1, feed=str(feed))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_workers_run_where_they_may(tmp_path):
    cpus = choose_cpus(1)
    with Client(stubs.Pinned, cpus) as worker:
        load(worker, tmp_path)
        assert cases.outputs(worker, tmp_path)[0].tolist() == cpus


def test_an_error_leaves_the_worker_at_work(tmp_path):
    with Client(stubs.Right, []) as worker:
        with pytest.raises(WorkerError, match="AttributeError"):
            worker.ask("outputs", path=str(tmp_path / "o.npz"))
        assert load(worker, tmp_path)["peak_bytes"] > 0


def test_a_worker_ends_with_its_driver():
    with Client(stubs.Right, []) as worker:
        process = worker._process
        assert process.poll() is None
    assert process.returncode == 0
    with pytest.raises(RuntimeError), Client(stubs.Right, []) as worker:
        process = worker._process
        raise RuntimeError
    assert process.returncode < 0


def test_memory_is_that_of_the_program_itself(tmp_path):
    status = tmp_path / "status"
    status.write_text("Name:\tx\nVmPeak:\t  999 kB\nVmHWM:\t  123 kB\n")
    assert peak_bytes(status) == 123 * 1024
    assert peak_bytes(tmp_path / "missing") > 5e6
    with Client(stubs.Right, []) as worker:
        before = load(worker, tmp_path)["peak_bytes"]
    ballast = np.ones(3 * before // 8)
    with Client(stubs.Right, []) as worker:
        # The driver's own memory, three times as much, is not counted.
        assert load(worker, tmp_path)["peak_bytes"] < 1.5 * before
    assert ballast.nbytes > 2.5 * before


def test_threads_have_cores_of_their_own(tmp_path):
    for cpu, core in {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}.items():
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(core + "\n")
    assert choose_cpus(2, [0, 1, 2, 3], tmp_path) == [0, 1]
    assert choose_cpus(2, [0, 2, 3], tmp_path) == [0, 3]
    assert choose_cpus(3, [0, 2, 3], tmp_path) == [0, 2, 3]
    assert choose_cpus(2, [4, 5], tmp_path) == [4, 5]
    with pytest.raises(ValueError, match="3 threads on 2 usable CPUs"):
        choose_cpus(3, [0, 1], tmp_path)


def test_each_engine_is_first_and_last_as_often():
    names = ["a", "b", "c"]
    turns = [order(names, turn) for turn in range(6)]
    assert all(sorted(turn) == names for turn in turns)
    assert (
        sorted(turn[0] for turn in turns) == sorted(turn[-1] for turn in turns) == sorted(names * 2)
    )
    assert order([], 3) == []


def test_ratios_are_those_of_a_round():
    case = Case("n", models.Network(None, {}), "", 1, 1)
    # Both slow down in the second round; the better peer is known by all of its rounds.
    case.entries = {
        "ours": cases.Entry("ok", rounds=[1.0, 2.0, 1.0]),
        "good": cases.Entry("ok", rounds=[2.0, 4.0, 2.5]),
        "lucky": cases.Entry("ok", rounds=[1.0, 9.0, 9.0]),
    }
    assert case.best_peer(["good", "lucky", "unknown"]) == "good"
    assert case.ratios("ours", ["good", "lucky"]) == [2.0, 2.0, 2.5]
    assert case.ratios("ours", []) == case.ratios("theirs", ["good"]) == []


def test_what_counts_as_wrong():
    x = np.array([[1.0, -4.0]], np.float32)
    assert difference([x], [x]) == (0.0, "")
    error, wrong = difference([x + np.float32(0.002)], [x])
    assert error == pytest.approx(5e-4, rel=1e-3) and wrong == ""
    assert difference([x + 1], [x]) == (0.25, "off by 0.25 of the largest value")
    assert difference([x.T], [x])[1] == "output 0 is (2, 1), expected (1, 2)"
    assert difference([x, x * np.nan], [x, x])[1] == "output 1 is not finite"
    assert difference([np.array([3])], [np.array([4])])[1] != ""
    assert difference([0 * x], [0 * x]) == (0.0, "")
    assert difference([x + 1], [0 * x])[1] != ""


def test_the_worker_imports_nothing_before_it_counts():
    code = "import sys, benchmarks.networks.worker as w; sys.exit('numpy' in sys.modules)"
    python(code)


def test_networks_beside_other_programs(tmp_path, with_engines, ran):
    with_engines(stubs.PatientOurs, stubs.Patient, stubs.Wrong, stubs.Absent)
    arguments = ["--rounds", "2", "--min-ms", "1", "--engines", "", "--threads", "9"]
    chosen = ["--scenes", "alone,1 loop,2 copies", "--cache", str(tmp_path)]
    found = ran(beside.main, *arguments, *chosen)
    assert "[3/3" in found.err and "tiny, 2 copies" in found.err
    assert "| network | beside | ours, 9 | right, 9 | wrong, 9 | / best peer |" in found.text
    assert "note: tiny: wrong, 9: off by 0.01 of the largest value" in found.text
    assert "absent: no_such_module is not installed" in found.text
    rows = found.plain["rows"]
    assert [row["scene"] for row in rows] == ["alone", "1 loop", "2 copies"]
    for row in rows:
        assert set(row["rounds"]) == {"ours, 9", "right, 9"}
        for seconds in row["rounds"].values():
            # They sleep as many milliseconds as they have threads.
            assert len(seconds) == 2 and min(seconds) >= 9e-3


def test_the_largest_team_of_ours_is_compared_with_peers_and_with_fewer_threads():
    two, one, peer = Team(stubs.Ours, 2), Team(stubs.Ours, 1), Team(stubs.Right, 2)
    row = Row("tiny", "alone", {str(two): [0.003, 0.002], str(one): [0.004], str(peer): [0.008]})
    made = beside.table([row, Row("tiny", "1 loop")], [one, two, peer]).markdown()
    assert "| tiny | alone | 4.00 | 2.00 | 8.00 | 0.25 | 0.50 |" in made
    assert "| tiny | 1 loop | - | - | - | - | - |" in made


def test_loops_run_as_long_as_their_scene(monkeypatch):
    begun = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *args, **how: begun.append(popen(*args, **how)) or begun[-1]
    )
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    with beside.loops(Scene(loops=2, nice=3)) as ready:
        assert ready
        for process in begun:
            assert process.poll() is None
            assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(niceness + 3, 19)
    assert [process.returncode for process in begun] == [-signal.SIGKILL] * 2
    # As where the system gives nobody a higher priority.
    refusing = beside.LOOP.replace("os.nice(", "sys.exit(1 + ")
    monkeypatch.setattr(beside, "LOOP", refusing)
    with beside.loops(Scene(loops=1)) as ready:
        assert not ready
