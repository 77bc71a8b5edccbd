"""`pplconv.sharing.prepared`: models that travel with their plans and packed weights."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import pplconv
import pplconv.planner
from pplconv.sharing import OtherPacking, Prepared, prepared
from tests.api.buffers import draw
from tests.api.layers import LAYERS
from tests.api.pruned import prune
from tests.levels import allowed_isas


def conv_and_input(rng):
    x, bias = draw(rng, 1, 24, 20, 18), np.ones(32, np.float32)
    return pplconv.Conv2d(draw(rng, 32, 24, 3, 3), bias, padding=1, input_shape=x.shape), x


def linear_and_input(rng):
    x = draw(rng, 5, 24)
    return pplconv.Linear(draw(rng, 40, 24), activation="silu", input_shape=x.shape), x


def brain_and_input(rng):
    conv = LAYERS["Conv2d of bfloat16"]
    x = conv.input(rng)
    return conv.made(rng, input_shape=x.shape), x


def sparse_and_input(rng):
    x, weight = draw(rng, 1, 32, 9, 9), prune(draw(rng, 64, 32, 3, 3), 1, 4, 0.25, 7)
    return pplconv.Conv2d(weight, padding=1, sparse=True, input_shape=x.shape), x


def reflecting_and_input(rng):
    x, weight = draw(rng, 1, 8, 24, 20), draw(rng, 8, 8, 3, 3)
    return pplconv.Conv2d(weight, padding=1, padding_mode="reflect", input_shape=x.shape), x


MODELS = pytest.mark.parametrize(
    "make",
    [
        conv_and_input, linear_and_input, sparse_and_input, reflecting_and_input,
        pytest.param(brain_and_input, marks=pytest.mark.narrow),
    ],
)  # fmt: skip

# How many times the bytes of the weights are sent: once as they are, and packed. Of sparse weights
# a quarter is packed, with its places.
LEAST = {sparse_and_input: 1.2}


@pytest.fixture
def plans_made(monkeypatch):
    """Problems of all calls of the planner."""
    made = []
    make_plan = pplconv.planner.make_plan

    def noting(problem, **settings):
        made.append(problem)
        return make_plan(problem, **settings)

    monkeypatch.setattr(pplconv.planner, "make_plan", noting)
    return made


@MODELS
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_model_arrives_ready(make, protocol, rng, plans_made):
    model, x = make(rng)
    expected = model(x)
    sent = pickle.dumps(prepared(model, threads=1), protocol)
    assert len(sent) > LEAST.get(make, 1.9) * model.weight.nbytes, "weights and packed weights"
    del plans_made[:]
    arrived = pickle.loads(sent)
    assert isinstance(arrived, Prepared)
    there = arrived.model()
    assert type(there) is type(model) and repr(there) == repr(model)
    assert there(x).tobytes() == expected.tobytes()
    assert not plans_made, "plans went along"
    with pplconv.runtime.team(1):
        assert there.plan_for(x.shape) == model.plan_for(x.shape)
        other = np.concatenate([x, x])
        assert there(other).tobytes() == model(other).tobytes()
    # Pickled once more, as by an actor that keeps a model.
    again = pickle.loads(pickle.dumps(arrived, protocol)).model()
    assert again(x).tobytes() == expected.tobytes()


@MODELS
def test_memory_is_used_where_it_arrives(make, rng):
    model, x = make(rng)
    expected = model(x)
    kept = prepared(model, threads=1)
    buffers = []
    stream = pickle.dumps(kept, 5, buffer_callback=buffers.append)
    assert len(stream) < 20_000
    sent = sum(buffer.raw().nbytes for buffer in buffers)
    assert sent > LEAST.get(make, 1.9) * model.weight.nbytes
    assert kept.nbytes == pytest.approx(len(stream) + sent, abs=2_000)
    rooms = copied(buffers)
    there = pickle.loads(stream, buffers=rooms).model()
    assert any(np.shares_memory(there.weight, room) for room in rooms)
    assert there(x).tobytes() == expected.tobytes()
    for room in rooms:
        room[:] = 0
    assert there(x).tobytes() != expected.tobytes(), "nothing else holds its weights"


def copied(buffers, offset=0):
    rooms = []
    for buffer in buffers:
        data = buffer.raw()
        rooms.append(pplconv.empty_aligned((data.nbytes + offset,), np.uint8)[offset:])
        rooms[-1][:] = np.frombuffer(data, np.uint8)
    return rooms


@MODELS
def test_memory_that_begins_anywhere_is_copied_to_cache_lines(make, rng):
    model, x = make(rng)
    buffers = []
    stream = pickle.dumps(prepared(model, threads=1), 5, buffer_callback=buffers.append)
    rooms = copied(buffers, offset=1)
    there = pickle.loads(stream, buffers=rooms).model()
    for room in rooms:
        room[:] = 0
    assert there(x).tobytes() == model(x).tobytes()


def test_models_inside_other_objects_are_prepared_too(rng, plans_made):
    conv, x = conv_and_input(rng)
    linear, rows = linear_and_input(rng)
    sent = pickle.dumps(prepared({"conv": conv, "parts": [linear, conv]}, threads=1))
    del plans_made[:]
    there = pickle.loads(sent).model()
    assert there["conv"] is there["parts"][1]
    assert there["conv"](x).tobytes() == conv(x).tobytes()
    assert there["parts"][0](rows).tobytes() == linear(rows).tobytes()
    assert not plans_made


def test_the_team_is_that_of_the_other_process(rng):
    weight = rng.standard_normal((64, 64, 3, 3)).astype(np.float32)
    shape = (1, 64, 56, 56)
    free = pplconv.Conv2d(weight, padding=1, input_shape=shape)
    own = pplconv.Conv2d(weight, padding=1, input_shape=shape, threads=2)
    assert prepared(free, threads=3).model().plan_for(shape).threads == 3
    assert prepared(own, threads=3).model().plan_for(shape).threads == 2
    with pplconv.runtime.team(4):
        kept = prepared(free)
    assert kept.model().plan_for(shape).threads == 4


def test_packs_of_another_instruction_set_are_refused(rng, monkeypatch):
    model, x = conv_and_input(rng)
    isa = model.plan_for(x.shape).isa
    sent = pickle.dumps(prepared(model, threads=1))
    other = pickle.dumps(prepared(model, threads=1)).replace(
        pplconv.__version__.encode(), b"0" * len(pplconv.__version__)
    )
    with pytest.raises(OtherPacking, match=r"packed weights are of pplconv 0+ with .* has pplconv"):
        pickle.loads(other).model()
    if isa == "portable":
        return  # there is no lower level
    arrived = pickle.loads(sent)
    # The packing names the highest level of the run: other types may be packed for it.
    isa = allowed_isas()[-1]
    with monkeypatch.context() as patch:
        patch.setenv("PPLCONV_MAX_ISA", "portable")
        with pytest.raises(OtherPacking, match=f"with {isa} on .* has pplconv .* with portable on"):
            arrived.model()
    assert arrived.model()(x).tobytes() == model(x).tobytes()


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True])
def test_a_team_that_is_none_is_refused(threads, rng):
    with pytest.raises((TypeError, ValueError), match="threads"):
        prepared(linear_and_input(rng)[0], threads=threads)


def test_it_says_what_it_is(rng):
    text = repr(prepared(conv_and_input(rng)[0], threads=1))
    assert text.startswith("<Prepared: ") and pplconv.__version__ in text
