"""Arrays from untrusted senders are read as they were written, or refused with a ValueError."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pplconv.integrations import npy

DTYPES = st.one_of(arrays.floating_dtypes(), arrays.integer_dtypes(), arrays.boolean_dtypes())


@given(arrays.arrays(DTYPES, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0)))
def test_what_is_written_is_read(array):
    for given_array in (array, np.asfortranarray(array)):
        found = npy.read(npy.write(given_array))
        assert (found.dtype, found.shape) == (array.dtype, given_array.shape)
        assert found.tobytes() == array.tobytes()


def test_numpys_own_files_are_read(tmp_path):
    x = np.arange(24, dtype=">f8").reshape(2, 3, 4)
    for version in ((1, 0), (2, 0)):
        stream = io.BytesIO()
        np.lib.format.write_array(stream, x, version)
        assert (npy.read(stream.getvalue()) == x).all()
    np.save(tmp_path / "x.npy", x)
    assert (npy.read((tmp_path / "x.npy").read_bytes()) == x).all()
    np.save(tmp_path / "y.npy", np.float32(3))
    assert npy.read((tmp_path / "y.npy").read_bytes()) == 3


def test_an_array_lies_where_it_was_read():
    body = bytearray(npy.write(np.zeros((4, 4), np.float32)))
    found = npy.read(body)
    body[-4:] = struct.pack("=f", 1)
    assert found[3, 3] == 1
    # At an odd address it must be copied.
    assert npy.read(memoryview(b"x" + body)[1:]).flags.aligned


GOOD = npy.write(np.arange(12, dtype=np.float32).reshape(3, 4))


@given(
    st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=6),
    st.integers(0, len(GOOD)),
)
def test_a_damaged_file_is_an_array_or_an_error(changes, end):
    body = bytearray(GOOD)
    for at, value in changes:
        body[at] = value
    for damaged in (body, body[:end], body + b"more"):
        try:
            found = npy.read(bytes(damaged))
        except ValueError:
            continue
        assert found.nbytes <= len(damaged)


@pytest.mark.parametrize(
    ("descr", "shape", "text"),
    [
        ("<f4", (1 << 61, 1 << 61), "has 12"),
        ("<f4", (1 << 62, 1), "its shape is"),
        ("<f4", (int("9" * 4300), 1), "its shape is"),
        ("<f4", (True, 3), "its shape is"),
        ("<f4", (1 << 61, 0, 1 << 61), r"not a \.npy file"),
        ("<f4", (-3,), "its shape is"),
        ("<f4", (-1, -3), "its shape is"),
        ("<f4", (4,), "16 bytes, and has 12"),
        ("|O", (3,), "holds Python objects"),
        ("nonsense", (3,), r"not a \.npy file"),
    ],
)
def test_headers_that_lie_are_refused(descr, shape, text):
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    body = (
        b"\x93NUMPY\x01\x00"
        + struct.pack("<H", len(header))
        + header
        + bytes(12 if 0 not in shape else 0)
    )
    with pytest.raises(ValueError, match=text):
        npy.read(body)


@pytest.mark.parametrize("body", [b"", b"hello", b"\x93NUMPY", b"\x93NUMPY\x09\x00", GOOD[:20]])
def test_what_is_no_such_file_is_refused(body):
    with pytest.raises(ValueError, match=r"not a \.npy file"):
        npy.read(body)


def test_parts_are_the_file_and_copy_nothing():
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for given_array in (array, array.T, array[:, ::2], array[0, 0, 0], array[:0]):
        head, rest = npy.parts(given_array)
        stream = io.BytesIO()
        np.save(stream, given_array)
        assert head + rest.tobytes() == stream.getvalue()
    assert np.may_share_memory(np.frombuffer(npy.parts(array)[1], np.uint8), array)


def test_objects_are_not_written():
    with pytest.raises(ValueError, match="Object arrays"):
        npy.write(np.array([object()]))
