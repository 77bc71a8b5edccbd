"""What worker processes share: the model's arrays, its plans and packed weights."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import pplconv
import pplconv.planner
from pplconv.instances.process import make_process_workers
from pplconv.instances.shared import Parcel, unpack
from pplconv.instances.worker_placement import Placement
from pplconv.runtime import tolerance
from tests.instances import process_models as models
from tests.instances.process_case import ANYWHERE, LINUX, mappings, worker, workers
from tests.patience import PATIENCE

pytestmark = pytest.mark.unemulated("starts dozens of processes, each seconds of emulation")


def through_memory(obj, threads=1):
    """Return `obj` as a worker gets it, unpickled on shared memory, and that memory."""
    parcel = Parcel(obj, threads=threads)
    room = np.full(parcel.size, 0xAA, np.uint8)
    parcel.write(room)
    return unpack(room, parcel.laid), room


def memory_of(pickled):
    """The buffers that a `Conv2d` leaves out of its pickle."""
    buffers = []

    class Prepared(pickle.Pickler):
        def reducer_override(self, obj):
            reduce = getattr(type(obj), "__reduce_prepared__", None)
            return NotImplemented if reduce is None else reduce(obj, 1)

    Prepared(io.BytesIO(), 5, buffer_callback=buffers.append).dump(pickled)
    return [b.raw() for b in buffers]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("groups", [1, 4, 16])
def test_a_prepared_convolution_is_used_where_it_lies(layout, dtype, groups, rng):
    weight = rng.standard_normal((16, 16 // groups, 3, 3)).astype(dtype)
    shape = (2, 16, 9, 10) if layout == "NCHW" else (2, 9, 10, 16)
    conv = pplconv.Conv2d(
        weight, rng.standard_normal(16).astype(dtype), padding=1, groups=groups, layout=layout,
        activation="hardswish", input_shape=shape,
    )  # fmt: skip
    x = rng.standard_normal(shape).astype(dtype)
    expected = conv(x)
    there, room = through_memory(conv)
    assert repr(there) == repr(conv)
    assert there(x).tobytes() == expected.tobytes()
    # It reads its packed weights from the room: clearing the room changes its results.
    room[:] = 0
    changed = there(x)
    assert changed.tobytes() != expected.tobytes()
    np.testing.assert_array_equal(changed, np.zeros_like(expected))


class Named(pplconv.Conv2d):
    """A user's model: a convolution with further attributes."""


class Reduced(Named):
    """The same with a ``__reduce__`` of its own."""

    def __reduce__(self):
        return Reduced, (self.weight * 2,)


def test_subclasses_arrive_as_themselves(rng):
    conv = Named(rng.standard_normal((16, 16, 3, 3)).astype("f"), np.ones(16, "f"), padding=1)
    conv.names = ["a", "b"]
    x = rng.standard_normal((1, 16, 12, 12)).astype("f")
    expected = conv(x)
    there, room = through_memory(conv)
    assert type(there) is Named and there.names == conv.names
    assert there(x).tobytes() == expected.tobytes()
    assert not there.weight.flags.writeable and not there.bias.flags.writeable
    room[:] = 0  # weights and bias lie there, as for any convolution
    assert not there(x).any()


def test_a_subclass_is_pickled_in_its_own_way(rng):
    conv = Reduced(rng.standard_normal((16, 16, 3, 3)).astype("f"))
    there, _ = through_memory(conv)
    assert type(there) is Reduced
    np.testing.assert_array_equal(there.weight, conv.weight * 2)


def test_plans_go_along(rng):
    conv = pplconv.Conv2d(rng.standard_normal((64, 64, 3, 3)).astype("f"), padding=1)
    shapes = [(1, 64, 8, 8), (1, 64, 56, 56), (2, 64, 30, 7)]
    plans = [conv.plan_for(shape) for shape in shapes]
    there, _ = through_memory(conv, threads=3)
    for shape, plan in zip(shapes, plans, strict=True):
        kept = there.plan_for(shape)
        assert kept.bits == plan.bits and kept.isa == plan.isa
        assert kept.threads <= 3
    assert there.plan_for(shapes[1]).threads == 3
    # An unprepared shape is planned after unpickling.
    x = rng.standard_normal((1, 64, 5, 6)).astype("f")
    assert there(x).tobytes() == conv(x).tobytes()


def test_a_team_that_was_asked_for_stays(rng):
    weight = rng.standard_normal((64, 64, 3, 3)).astype("f")
    conv = pplconv.Conv2d(weight, padding=1, threads=2, input_shape=(1, 64, 56, 56))
    assert through_memory(conv, threads=4)[0].plan_for((1, 64, 56, 56)).threads == 2


def test_the_memory_of_a_convolution_is_read_only(rng):
    conv = pplconv.Conv2d(rng.standard_normal((64, 64, 3, 3)).astype("f"), np.zeros(64, "f"))
    conv.plan_for((1, 64, 20, 20))
    buffers = memory_of(conv)
    assert len(buffers) == 3 and all(b.readonly for b in buffers)
    assert sum(b.nbytes for b in buffers) >= 2 * 64 * 64 * 9 * 4


def test_another_cap_on_the_instruction_set_packs_again(rng, monkeypatch):
    conv = pplconv.Conv2d(rng.standard_normal((24, 24, 3, 3)).astype("f"), padding=1)
    x = rng.standard_normal((1, 24, 12, 12)).astype("f")
    if conv.plan_for(x.shape).isa == "portable":
        pytest.skip("there is no lower instruction set")
    parcel = Parcel(conv, threads=1)
    room = np.zeros(parcel.size, np.uint8)
    parcel.write(room)
    monkeypatch.setenv("PPLCONV_MAX_ISA", "portable")
    there = unpack(room, parcel.laid)
    assert there.plan_for(x.shape).isa == "portable"
    np.testing.assert_allclose(there(x), conv(x), rtol=0, atol=1e-3)


def test_memory_that_is_too_small_is_refused(rng):
    conv = pplconv.Conv2d(rng.standard_normal((16, 16, 3, 3)).astype("f"))
    conv.plan_for((1, 16, 20, 20))
    rebuild, (*values, plans, packed, spent), _ = conv.__reduce_prepared__(1)
    for name, memory in packed.items():
        short = {**packed, name: bytes(memory.raw())[:-1]}
        with pytest.raises(ValueError, match="packed weights of"):
            rebuild(*values, plans, short, spent)
    assert rebuild(*values, plans, packed, spent).plan_for((1, 16, 20, 20)) == plans[0][2]


@pytest.mark.parametrize("protocol", range(2, 6))
def test_ordinary_pickles_hold_the_weights_alone(protocol, rng):
    conv = pplconv.Conv2d(rng.standard_normal((64, 64, 3, 3)).astype("f"))
    x = rng.standard_normal((1, 64, 20, 20)).astype("f")
    expected = conv(x)
    pickled = pickle.dumps(conv, protocol)
    assert len(pickled) < 1.9 * 64 * 64 * 9 * 4 or protocol < 3
    assert pickle.loads(pickled)(x).tobytes() == expected.tobytes()
    again, _ = through_memory(pickle.loads(pickled))
    assert pickle.loads(pickle.dumps(again, protocol))(x).tobytes() == expected.tobytes()


@pytest.mark.parametrize("threads", [1, 2])
def test_workers_give_the_bits_of_this_process(threads, rng):
    here = models.Convolutions()
    with worker(models.Convolutions, threads=threads) as there:
        for shape in (models.SHAPE, (2, 32, 24, 20), (1, 32, 7, 90)):
            x = rng.standard_normal(shape).astype("f")
            assert there.run((x,), {}).tobytes() == here(x).tobytes()
            assert there.run((), {"x": x}).tobytes() == here(x).tobytes()


@pytest.mark.unsanitized("measures memory, of which a sanitizer takes its share")
@pytest.mark.skipif(not LINUX, reason="/proc/<pid>/smaps")
def test_weights_are_there_once(rng):
    shape = (1, 1024, 6, 6)
    with workers(large, count=2) as make:
        assert make.shares
        pair = [make(0), make(1)]
        x = rng.standard_normal(shape).astype("f")
        answers = [one.run((x,), {}) for one in pair]
        assert answers[0].tobytes() == answers[1].tobytes()
        for one in pair:
            (model,) = mappings(one.pid, "pplconv-model")
            assert model["Size"] > 2 * 36_000, "weights and packed weights of 36 MiB each"
            # Both read it, and neither copies it.
            assert model["Rss"] > 30_000 and model["Anonymous"] == 0
            assert model["Pss"] < 0.6 * model["Rss"]
            own = sum(int(line.split()[1]) for line in rollup(one.pid) if "Anonymous:" in line)
            assert own < 150_000, "imports, scratch and the answer: not another 72 MiB on top"
        for one in pair:
            one.close(PATIENCE)


def rollup(pid):
    return Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()


def large():
    conv = pplconv.Conv2d(
        np.ones((1024, 1024, 3, 3), np.float32), padding=1, algorithm="direct", layout="NCHW",
        input_shape=(1, 1024, 6, 6),
    )  # fmt: skip
    return conv


def test_a_workers_state_is_its_own():
    with workers(models.Servant, count=2) as make:
        one, other = make(0), make(1)
        assert [one.run(("count", 1), {}) for _ in range(3)] == [1, 2, 3]
        assert other.run(("count", 10), {}) == 10
        with pytest.raises(ValueError, match="read-only"):
            one.run(("write_fixed",), {})
        one.close(PATIENCE)
        again = make(0)
        assert again.run(("count", 1), {}) == 1, "a new worker begins anew"
        again.close(PATIENCE)
        other.close(PATIENCE)


def test_a_model_that_cannot_be_pickled_is_made_in_each_worker():
    with workers(models.Unpicklable) as make:
        assert not make.shares
        one = make(0)
        assert one.run(("count", 2), {}) == 2
        one.close(PATIENCE)


def test_a_factory_need_not_be_importable_if_its_model_is():
    with worker(lambda: models.Servant()) as one:
        assert one.run(("pid",), {}) == one.pid != os.getpid()


def test_what_no_worker_could_have_is_refused_here():
    with pytest.raises(TypeError, match=r"factory .*lambda.* pickled .*top\s+level"):
        make_process_workers(lambda: models.Unpicklable(), [ANYWHERE], 1)
    with pytest.raises(TypeError, match="factory must return a callable, got int"):
        make_process_workers(models.no_callable, [ANYWHERE], 1)


def test_a_model_that_workers_cannot_take_names_the_factory():
    with workers(models.BrokenInWorkers) as make:
        with pytest.raises(RuntimeError, match=r"factory .*BrokenInWorkers.*no such model") as e:
            make(0)
        assert "_broken" in str(e.value.__cause__.__cause__)


def test_workers_have_their_team(monkeypatch):
    monkeypatch.setenv("PPLCONV_NUM_THREADS", "7")
    with worker(models.Servant, threads=3) as one:
        assert one.run(("threads",), {}) == 3
        assert (one.node, one.cores) == (None, ())
    assert os.environ["PPLCONV_NUM_THREADS"] == "7"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_workers_are_bound_to_their_cores():
    before = os.sched_getaffinity(0)
    core = max(before)
    with worker(models.Servant, placements=[Placement(0, (core,))]) as one:
        masks = one.run(("affinity",), {})
        assert masks and all(mask == [core] for mask in masks)
        assert (one.node, one.cores) == (0, (core,))
    assert os.sched_getaffinity(0) == before


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_cores_that_cannot_be_had_are_a_warning():
    placements = [Placement(0, (100_000,)), Placement(1, (100_001,))]
    with workers(models.Servant, placements=placements) as make:
        with pytest.warns(RuntimeWarning, match="cannot be bound") as caught:
            pair = [make(0), make(1)]
        assert len(caught) == 1
        for one in pair:
            assert one.cores == () and one.run(("threads",), {}) == 1
            one.close(PATIENCE)


@pytest.mark.parametrize("spent", [0.0, 0.1 + 0.2, float("inf")])
def test_a_worker_spends_the_tolerance_of_who_made_the_pool(spent):
    with tolerance(spent), workers(models.Servant) as make:
        with tolerance(0.5):  # the tolerance of the thread that starts the worker
            one = make(0)
        try:
            assert one.run(("tolerance",), {}) == spent
        finally:
            one.close(PATIENCE)


def test_plans_are_taken_over_for_their_tolerance_only(rng, monkeypatch):
    planned = []
    make_plan = pplconv.planner.make_plan

    def noting(problem, **settings):
        planned.append(settings["tolerance"])
        return make_plan(problem, **settings)

    monkeypatch.setattr(pplconv.planner, "make_plan", noting)
    weight = rng.standard_normal((8, 8, 3, 3)).astype(np.float32)
    with tolerance(1e-5):
        pickled = Parcel(pplconv.Conv2d(weight, input_shape=(1, 8, 9, 9)), threads=1)
    room = np.empty(pickled.size, np.uint8)
    pickled.write(room)
    del planned[:]
    for error, made in ((0, 1), (1e-5, 0)):
        with tolerance(error):
            there = unpack(room, pickled.laid)
            there.plan_for((1, 8, 9, 9))
        assert len(planned) == made
        # Calls outside of any `tolerance` block do not use the plan either.
        there.plan_for((1, 8, 9, 9))
        assert len(planned) == made + 1
        del planned[:]
