"""Sessions in instance pools and in other processes: the same bits, weights there once."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import pplconv
import pplconv.planner
from pplconv.network import network as network_module
from pplconv.network.session import InferenceSession
from pplconv.network.session_pickles import packs_of, put_together, taken_apart
from pplconv.sharing import OtherPacking, prepared
from tests.instances.process_case import mappings
from tests.network.graphs import Graph
from tests.network.running import agree, same
from tests.patience import PATIENCE, eventually

PROCESSES = pytest.mark.unemulated("starts processes, each seconds of emulation")


def network(seed: int = 0, channels: int = 16, free: bool = True) -> Graph:
    """Convolutions with what may follow them, a product, and rows that know nothing of others."""
    g = Graph(seed)
    x = g.input(1, 3, 12, 10, free=free)
    y = g.Relu(g.conv(x, channels, (3, 3, 3), pads=[1, 1, 1, 1]))
    y = g.Add(g.conv(y, channels, (channels, 3, 3), pads=[1, 1, 1, 1]), y)
    y = g.HardSwish(g.conv(y, channels, (1, 3, 3), group=channels, strides=[2, 2]))
    pooled = g.Flatten(g.GlobalAveragePool(y))
    g.last = g.Softmax(g.Add(g.MatMul(pooled, g.random(channels, 7)), g.random(7)))
    g.image = y
    return g


def session_of(g: Graph, **options) -> InferenceSession:
    return InferenceSession(g.model(g.last, g.image), **options)


def feeds_of(rng, *batches: int, height: int = 12) -> list[dict[str, np.ndarray]]:
    shapes = [(n, 3, height, 10) for n in batches]
    return [{"x1": rng.standard_normal(shape).astype(np.float32)} for shape in shapes]


def served(rng, *batches: int, channels: int = 16, **options):
    """A session, feeds of so many images, and the outputs for each of them."""
    session = session_of(network(channels=channels), **options)
    feeds = feeds_of(rng, *batches)
    return session, feeds, [session.run(None, feed) for feed in feeds]


@pytest.fixture
def work_done(monkeypatch):
    """What is planned, packed and rewritten from now on."""
    done = []

    def note(module, name):
        function = getattr(module, name)

        def noting(*args, **kwargs):
            done.append(name)
            return function(*args, **kwargs)

        monkeypatch.setattr(module, name, noting)

    note(pplconv.planner, "make_plan")
    note(network_module, "specialize")
    return done


def test_a_session_is_called_with_a_feed(rng):
    session, (feed,), (expected,) = served(rng, 1, threads=1)
    same(session(feed), expected)


def test_a_prepared_session_arrives_ready(rng, work_done):
    session, feeds, expected = served(rng, 1, 4)
    sent = pickle.dumps(prepared(session, threads=1))
    del work_done[:]
    there = pickle.loads(sent).model()
    for feed, outputs in zip(feeds, expected, strict=True):
        same(there.run(None, feed), outputs)
    assert work_done == [], "programs, plans and packed weights went along"
    assert repr(there) == repr(session)
    assert str(there.plan_for(feeds[0])) == str(session.plan_for(feeds[0]))
    # Programs for new shapes are made there, of the same rewritten model.
    (feed,) = feeds_of(rng, 2, height=9)
    same(there.run(None, feed), session.run(None, feed))
    assert "specialize" in work_done
    # An ordinary pickle of what has arrived is a session like any other.
    same(pickle.loads(pickle.dumps(there)).run(None, feeds[0]), expected[0])
    again = pickle.loads(pickle.dumps(prepared(there, threads=1))).model()
    same(again.run(None, feeds[1]), expected[1])


def test_it_computes_with_the_memory_that_arrived(rng):
    session, (feed,), (expected,) = served(rng, 1, channels=64, threads=1)
    buffers = []
    stream = pickle.dumps(prepared(session, threads=1), 5, buffer_callback=buffers.append)
    rooms = []
    for buffer in buffers:
        rooms.append(pplconv.empty_aligned((buffer.raw().nbytes,), np.uint8))
        rooms[-1][:] = np.frombuffer(buffer.raw(), np.uint8)
    weights = 4 * 64 * (3 * 9 + 64 * 9 + 9 + 7)
    assert sum(room.nbytes for room in rooms) > 1.8 * weights, "packed weights too"
    assert len({room.tobytes() for room in rooms}) == len(rooms), "nothing goes twice"
    assert len(stream) < 60_000
    there = pickle.loads(stream, buffers=rooms).model()
    same(there.run(None, feed), expected)
    for room in rooms:
        room[:] = 0
    assert not np.array_equal(there.run(None, feed)[1], expected[1])


def test_programs_that_share_weights_send_them_once(rng):
    """Two widths have plans that pack the weights alike; the machine decides which widths."""
    g = network(channels=64)
    session = session_of(g, threads=1)
    alike = {}
    for width in range(10, 40):
        shape = (1, 3, 12, width)
        session.plan_for({"x1": shape})
        *_, (_, (program, _)) = session._network.programs.all()
        before = alike.setdefault(program.packed, shape)
        if before != shape:
            break
    session = session_of(g, threads=1)
    session.plan_for({"x1": before})
    one = prepared(session, threads=1).nbytes
    session.plan_for({"x1": shape})
    assert len(session._network.programs) == 2
    two = prepared(session, threads=1).nbytes
    assert two < 1.3 * one
    assert packs_of(session._network.shared.packed)


def test_programs_for_another_team_are_planned_for_it(rng):
    session, (feed,), (expected,) = served(rng, 1)
    with pplconv.runtime.team(1):
        same(session.run(None, feed), expected)
    assert len(session._network.programs) == 2, "one for each team"
    there = prepared(session, threads=2).model()
    assert len(there._network.programs) == 1
    same(there.run(None, feed), expected)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_worker_of_any_team_plans_nothing(rng, work_done, threads):
    """A worker's team is that of its process, not an argument of the session."""
    session, (_, feed), _ = served(rng, 1, 64)
    sent = pickle.dumps(prepared(session, threads=threads))
    del work_done[:]
    with pplconv.runtime.team(threads):
        there = pickle.loads(sent).model()
        there.run(None, feed)
    assert work_done == []


def test_packs_of_another_instruction_set_are_refused(rng, monkeypatch):
    session, (feed,), (expected,) = served(rng, 1, threads=1)
    kept = prepared(session, threads=1)
    reduced = session.__reduce_prepared__(1)
    if "portable" in repr(kept):
        return  # there is no lower one
    monkeypatch.setenv("PPLCONV_MAX_ISA", "portable")
    with pytest.raises(OtherPacking, match="portable"):
        kept.model()
    # A pool's worker, which a user may cap, plans and packs anew instead.
    rebuild, values = reduced
    there = rebuild(*values)
    agree(there.run(None, feed), expected, 1e-4)


def test_weights_in_files_of_their_own_travel(tmp_path, rng):
    import onnx

    g = network(channels=32)
    path = tmp_path / "model.onnx"
    onnx.save_model(
        g.model(g.last), str(path), save_as_external_data=True, location="weights", size_threshold=0
    )
    session = InferenceSession(path, threads=1)
    (feed,) = feeds_of(rng, 2)
    expected = session.run(None, feed)
    sent = pickle.dumps(prepared(session, threads=1))
    for file in tmp_path.iterdir():
        file.unlink()
    same(pickle.loads(sent).model().run(None, feed), expected)


def test_a_model_taken_apart_is_left_as_it_is():
    session = session_of(network(channels=32), threads=1)
    before = {name: v.const_value for name, v in session._network.model.graph.initializers.items()}
    sent = taken_apart(session._network.model)
    assert sent.arrays and len(sent.proto) < 20_000
    after = {name: v.const_value for name, v in session._network.model.graph.initializers.items()}
    assert all(after[name] is value for name, value in before.items())
    again = put_together(sent)
    for name, value in before.items():
        np.testing.assert_array_equal(
            again.graph.initializers[name].const_value.numpy(), value.numpy()
        )
        assert again.graph.initializers[name].dtype == value.dtype


@pytest.mark.parametrize("mode", ["thread", pytest.param("process", marks=PROCESSES)])
def test_a_pool_gives_the_bits_of_the_session(mode, rng):
    session, feeds, expected = served(rng, *[1, 2, 1, 4, 1, 1, 2, 4] * 3)
    with pplconv.InstancePool(lambda: session, instances=2, threads=1, mode=mode) as pool:
        for outputs, wanted in zip(pool.map(feeds), expected, strict=True):
            same(outputs, wanted)
        bad = pool.submit({"nothing": feeds[0]["x1"]})
        with pytest.raises(ValueError, match="no input 'nothing'"):
            bad.result(PATIENCE)


@pytest.mark.parametrize("mode", ["thread", pytest.param("process", marks=PROCESSES)])
def test_batches_are_the_session_on_all_rows(mode, rng):
    session, feeds, _ = served(rng, *[1] * 8)
    together = session.run(None, {"x1": np.concatenate([feed["x1"] for feed in feeds])})
    with pplconv.InstancePool(
        lambda: session, instances=1, threads=1, mode=mode, max_batch=8, max_delay=10 * PATIENCE
    ) as pool:
        futures = [pool.submit(feed) for feed in feeds]
        for i, future in enumerate(futures):
            same(future.result(PATIENCE), [array[i : i + 1] for array in together])


def test_a_fixed_batch_is_refused():
    session = session_of(network(free=False))
    with pytest.raises(ValueError, match=r"max_batch: .*'x1'"):
        pplconv.InstancePool(lambda: session, instances=1, threads=1, max_batch=2)


class Slow:
    """A session that says when it runs, in processes too; from one request on, it waits.

    Parameters
    ----------
    session
        What computes.
    folder : str
        Has a file for each run; where it has a file ``go``, nothing waits.
    waits : int
        The first request that waits.
    """

    def __init__(self, session, folder, waits):
        self.session, self.folder, self.waits = session, folder, waits

    def __call__(self, feed, number):
        Path(self.folder, f"{number}-{os.getpid()}-{time.monotonic_ns()}.run").touch()
        while number >= self.waits and not Path(self.folder, "go").exists():
            time.sleep(0.001)
        return number, self.session(feed)


@PROCESSES
@pytest.mark.slow
def test_workers_killed_with_requests_in_flight_lose_none(tmp_path, rng):
    session, feeds, expected = served(rng, 1, 1, 1)
    answers: dict[int, list] = {}
    kills, sent, waits = 3, 90, 20

    def take(future):
        number, outputs = future.result()
        answers.setdefault(number, []).append(outputs)

    with pplconv.InstancePool(
        lambda: Slow(session, str(tmp_path), waits), instances=2, threads=1, mode="process",
        retries=3, queue_size=sent,
    ) as pool:  # fmt: skip
        futures = []
        for number in range(sent):
            futures.append(pool.submit(feeds[number % 3], number))
            futures[-1].add_done_callback(take)
        killed = set()

        def waiting():
            """Workers in the midst of a request, where they stay until they are killed."""
            runs = [path.name.split("-")[:2] for path in tmp_path.glob("*.run")]
            return {int(pid) for number, pid in runs if int(number) >= waits} - killed

        while len(killed) < kills:
            pid = eventually(waiting, "a worker that runs").pop()
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        (tmp_path / "go").touch()
        for future in futures:
            future.result(PATIENCE)
        statistics = pool.statistics()
    assert sorted(answers) == list(range(sent))
    for number, given in answers.items():
        assert len(given) == 1
        same(given[0], expected[number % 3])
    assert sum(s.replaced for s in statistics) == kills
    assert sum(s.errors for s in statistics) == 0
    begun = len(list(tmp_path.glob("*.run")))
    assert begun == sent + sum(s.retried for s in statistics), "an answered request runs no more"


@PROCESSES
@pytest.mark.unsanitized("measures memory, of which a sanitizer takes its share")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc/<pid>/smaps")
def test_weights_are_there_once(rng):
    session, (feed,), (expected,) = served(rng, 1, channels=512)
    weights = 4 * 512 * 512 * 9 >> 10
    with pplconv.InstancePool(lambda: session, instances=2, threads=1, mode="process") as pool:
        for outputs in pool.map([feed] * 16):
            same(outputs, expected)
        models = list(filter(None, map(_maps, psutil.Process().children(recursive=True))))
        assert len(models) == 2
        for (model,) in models:
            assert model["Size"] > 1.9 * weights, "weights and packed weights"
            assert model["Private_Dirty"] == 0
            assert model["Pss"] < 0.75 * model["Rss"], "both read the same memory"


def _maps(process: psutil.Process) -> list[dict[str, int]]:
    """The mappings of a pool's model in a process, which may have ended."""
    try:
        return mappings(process.pid, "pplconv-model")
    except OSError:
        return []
