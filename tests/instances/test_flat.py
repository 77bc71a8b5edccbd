"""Arrays that go without a pickle come back as they were, and all others are left to pickle."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from pplconv.instances._flat import flatten, read_flat
from pplconv.memory.arrays import empty_aligned

GUARD = 128


def through(obj, own=True):
    """Return `obj` as another process reads it; check that nothing beside the room was written."""
    flat = flatten(obj)
    assert flat is not None
    assert flat.size == flat.at + flat.length
    memory = empty_aligned(flat.size + 2 * GUARD, np.uint8)
    memory[:] = 0xAA
    # Like a mapped segment: NumPy sees no array that owns it.
    room = np.frombuffer(memory[GUARD : GUARD + flat.size].data, np.uint8)
    flat.write(room)
    at = flat.at
    del flat
    assert (memory[:GUARD] == 0xAA).all() and (memory[GUARD + room.size :] == 0xAA).all()
    got = read_flat(room, at, own)
    if own:
        room[:] = 0x55
    return got, room


def same(got, sent):
    assert type(got) is type(sent)
    assert got.dtype == sent.dtype and got.shape == sent.shape
    assert got.tobytes() == sent.tobytes()
    assert got.flags.writeable == sent.flags.writeable


@pytest.mark.parametrize("code", "?bBhHiIlLqQefdFD")
@pytest.mark.parametrize("own", [True, False])
def test_every_type_of_number(code, own, rng):
    for size in (1, 100, 20_000):
        sent = rng.integers(0, 2, size).astype(code)
        got, _ = through(sent, own)
        same(got, sent)
        assert got.dtype is np.dtype(code)
    scalar = sent[0]
    got, _ = through(scalar, own)
    assert type(got) is type(scalar) and got == scalar


@pytest.mark.parametrize("ndim", range(9))
def test_every_number_of_dimensions(ndim, rng):
    sent = np.asarray(rng.standard_normal((2, 1, 3, 1, 2, 1, 2, 3)[:ndim]))
    same(through(sent)[0], sent)
    same(through(sent, own=False)[0], sent)


def test_sizes_about_a_line(rng):
    noise = rng.integers(0, 255, 20_000).astype(np.uint8)
    for size in (1, 63, 64, 65, 127, 128, 129, 16383, 16384, 16385):
        pair = (noise[:size], noise[1 : size + 1])
        for own in (True, False):
            for got, sent in zip(through(pair, own)[0], pair, strict=True):
                same(got, sent)
                if size >= 16384:
                    assert got.ctypes.data % 64 == 0


@pytest.mark.parametrize("count", [1, 2, 16])
def test_forms(count, rng):
    arrays = [rng.standard_normal(size).astype("f") for size in range(1, count + 1)]
    for form in (tuple(arrays), list(arrays)):
        got, _ = through(form)
        assert type(got) is type(form)
        for one, sent in zip(got, form, strict=True):
            same(one, sent)
    (args, kwargs), _ = through((tuple(arrays), {}))
    assert kwargs == {} and type(args) is tuple
    for one, sent in zip(args, arrays, strict=True):
        same(one, sent)


@pytest.mark.parametrize("size", [10, 30_000])
def test_read_only_stays_so(size, rng):
    sent = rng.standard_normal(size)
    sent.flags.writeable = False
    for own in (True, False):
        same(through(sent, own)[0], sent)


def test_views_lie_in_the_room_and_hold_it(rng):
    sent = rng.standard_normal(30_000)
    got, room = through(sent, own=False)
    assert np.shares_memory(got, room) and got.base is room
    small, room = through(sent[:10], own=False)
    assert not np.shares_memory(small, room)
    for size in (10, 30_000):
        got, room = through(sent[:size], own=True)
        assert not np.shares_memory(got, room)
        np.testing.assert_array_equal(got, sent[:size])


class Sub(np.ndarray):
    pass


TWICE = np.ones(3)
PICKLED = {
    "nothing": lambda: None,
    "a number": lambda: 3.5,
    "text": lambda: "text",
    "no array": lambda: (),
    "no arguments": lambda: ((), {}),
    "a dict": lambda: {"x": np.ones(3)},
    "named": lambda: ((np.ones(3),), {"x": np.ones(3)}),
    "mixed": lambda: (np.ones(3), 1),
    "nested": lambda: [(np.ones(3),)],
    "twice": lambda: (TWICE, np.ones(3), TWICE),
    "seventeen": lambda: [np.ones(1) for _ in range(17)],
    "nine dimensions": lambda: np.ones((1,) * 9),
    "empty": lambda: np.ones((0, 3)),
    "strided": lambda: np.ones((4, 4))[:, ::2],
    "Fortran order": lambda: np.ones((4, 3)).T,
    "a subclass": lambda: np.ones(3).view(Sub),
    "masked": lambda: np.ma.ones(3),
    "big-endian": lambda: np.ones(3, ">f4"),
    "long double": lambda: np.ones(3, np.longdouble),
    "text array": lambda: np.array(["a"]),
    "dates": lambda: np.array([1], "M8[s]"),
    "records": lambda: np.zeros(3, [("a", "i4")]),
    "objects": lambda: np.array([None, 1]),
    "with metadata": lambda: np.ones(3, np.dtype("f4", metadata={"a": 1})),
    "a text scalar": lambda: np.str_("a"),
    "a date": lambda: np.datetime64(1, "s"),
}


@pytest.mark.parametrize("kind", PICKLED)
def test_the_rest_is_left_to_pickle(kind):
    assert flatten(PICKLED[kind]()) is None


def test_a_room_that_is_too_small_is_refused(rng):
    flat = flatten(rng.standard_normal(100))
    room = np.full(flat.size - 1, 0xAA, np.uint8)
    with pytest.raises(ValueError, match=f"room has {room.size} bytes, expected {flat.size}"):
        flat.write(room)
    assert (room == 0xAA).all()


def test_arrays_are_held_until_they_are_written():
    sent = np.arange(1000.0)
    flat, held = flatten(sent), weakref.ref(sent)
    del sent
    room = np.empty(flat.size, np.uint8)
    flat.write(room)
    at = flat.at
    assert held() is not None
    del flat
    assert held() is None
    np.testing.assert_array_equal(read_flat(room, at, True), np.arange(1000.0))


@pytest.mark.parametrize("place", [1, 15])
@pytest.mark.parametrize("bad", [1, np.ones((4, 4)).T[1:], np.ones(0)])
def test_what_is_refused_late_is_let_go_of(bad, place):
    """Arrays before the one that must be pickled are released."""
    arrays = [np.ones(3) for _ in range(16)]
    held = weakref.ref(arrays[0])
    arrays[place] = bad
    assert flatten(arrays) is None
    arrays.clear()
    assert held() is None
