"""Files as arrays, and memory that goes back to the system."""

from __future__ import annotations

import errno
import mmap
import os
import sys
import threading

import numpy as np
import pytest

from pplconv.memory import mapping
from pplconv.memory.mapping import (
    blocks,
    discard,
    fresh_pages,
    map_file,
    plain,
    release,
    release_all,
    unchanged,
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")


def resident(kind: str) -> int:
    """Resident bytes of this process: ``RssFile`` (of files) or ``RssAnon`` (of no file)."""
    with open("/proc/self/status") as status:
        (line,) = [line for line in status if line.startswith(kind + ":")]
    return 1024 * int(line.split()[1])


@pytest.fixture
def large(tmp_path):
    content = np.arange(8 << 20, dtype=np.float32)
    path = tmp_path / "large"
    content.tofile(path)
    return path, content


def test_what_is_let_go_can_be_read_again(large):
    path, content = large
    array = map_file(path).view(np.float32)
    assert not array.flags.writeable
    for part in (array, array[5:-7], array[100:-100:3], array.reshape(2048, -1).T, array[:0]):
        release(part)
        np.testing.assert_array_equal(array, content)


@linux
def test_what_is_let_go_takes_no_memory(large):
    path, content = large
    array = map_file(path).view(np.float32)
    before = resident("RssFile")
    assert array.sum(dtype=np.float64) == content.sum(dtype=np.float64)
    assert resident("RssFile") - before > content.nbytes // 2
    release(array[len(array) // 2 :])
    assert resident("RssFile") - before < content.nbytes * 3 // 4
    release(array)
    assert resident("RssFile") - before < content.nbytes // 8


def test_other_memory_is_left_alone(large):
    path, content = large
    own = content.copy()
    with path.open("rb") as file:
        private = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.float32)
    private[:] = 7
    for array in (own, private, np.frombuffer(bytearray(own), np.float32), own[:0]):
        before = array.copy()
        release(array)
        discard(array)
        unchanged(array)
        np.testing.assert_array_equal(array, before)


def test_what_cannot_be_mapped_is_read(tmp_path):
    empty = tmp_path / "empty"
    empty.touch()
    assert map_file(empty).size == 0
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"abc",))
    writer.start()
    array = map_file(tmp_path / "pipe")
    writer.join()
    assert array.tobytes() == b"abc"
    release(array)
    unchanged(array)
    with pytest.raises(FileNotFoundError):
        map_file(tmp_path / "none")


def test_files_that_change(large, tmp_path):
    path, content = large
    array = map_file(path).view(np.float32)
    unchanged(array)
    other = tmp_path / "other"
    other.write_bytes(b"other")
    os.replace(other, path)
    unchanged(array)
    np.testing.assert_array_equal(array, content)
    path.unlink()
    unchanged(array)


@pytest.mark.parametrize("how", ["write", "cut"])
def test_files_that_are_written_to(large, how):
    path, content = large
    part = map_file(path).view(np.float32)[3:10].reshape(7, 1)
    os.utime(path, ns=(0, path.stat().st_mtime_ns - 10**9))
    part = map_file(path).view(np.float32)[3:10].reshape(7, 1)
    unchanged(part)
    if how == "write":
        with path.open("r+b") as file:
            file.write(b"new")
    else:
        os.truncate(path, content.nbytes // 2)
    with pytest.raises(RuntimeError, match="large was changed while it was in use"):
        unchanged(part)


@linux
def test_fresh_pages_go_back():
    before = resident("RssAnon")
    array = fresh_pages((4096, 4096), np.float32)
    assert array.flags.aligned and array.flags.writeable and not array.any()
    array[:] = 1
    whole = resident("RssAnon") - before
    assert whole > array.nbytes * 3 // 4
    discard(array[:2048])
    assert resident("RssAnon") - before < whole * 5 // 8
    assert (array[2048:] == 1).all()
    del array
    # The comparison above may have left some memory in the heap.
    assert resident("RssAnon") - before < whole // 4


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (3, 0), (7, 9)])
def test_small_fresh_pages(shape):
    array = fresh_pages(shape, np.float64)
    assert array.shape == shape and array.dtype == np.float64 and not array.any()
    discard(array)


@pytest.mark.parametrize("shape", [(1,), (3, 5), (1000, 1000), (3, 1 << 20), (5, 700, 3, 301)])
def test_blocks_cover_all_rows_once(shape):
    array = np.broadcast_to(np.float32(0), shape)
    found = [row for part in blocks(array) for row in range(part.start, part.stop)]
    assert found == list(range(shape[0]))


def test_plain_arrays(large, rng):
    path, _ = large
    bytes_of_file = map_file(path)
    odd = bytes_of_file[1:-3].view(np.uint8)
    unaligned = np.frombuffer(odd, np.float32)
    square = bytes_of_file.view(np.float32)[: 2048 * 2048].reshape(2048, 2048)
    for array in (
        unaligned, unaligned[:9], square.T, square[::-1], square[:, ::2], square[:30, :20].T,
        np.float32(3)[...], np.broadcast_to(np.float32(3), (1024, 1024)),
        rng.standard_normal((64, 80, 90)).transpose(2, 0, 1),
    ):  # fmt: skip
        found = plain(array)
        assert found.flags.c_contiguous and found.flags.aligned
        assert found.shape == array.shape and found.dtype == array.dtype
        assert found.tobytes() == array.tobytes()
    assert plain(square) is square


@pytest.mark.parametrize("shape", [(3, 700), (1300, 900), (1031, 5, 1, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.complex128])
def test_plain_arrays_of_transposed_ones(shape, dtype, rng):
    whole = rng.integers(0, 255, (*shape, 2)).astype(dtype)
    for array in (
        whole[..., 0].T,
        whole[..., 0].T[..., None, None],
        # An axis of one element with the largest stride of all.
        np.lib.stride_tricks.as_strided(
            whole[..., 1].T, (1, *shape[::-1]), (1 << 30, *whole[..., 1].T.strides)
        ),
        np.moveaxis(whole, 0, 1)[::-1, ::2],
    ):
        found = plain(array)
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("size", [(1 << 21) - 1, 1 << 21, (1 << 21) + 4097, (5 << 20) + 1])
def test_fresh_pages_of_large_arrays_are_zeros(size):
    array = fresh_pages((size,), np.uint8)
    assert array.shape == (size,)
    assert not array.any()
    array[:] = 1
    discard(array[: 1 << 20])
    assert array[-1] == 1
    assert not array[:4096].any()


@linux
def test_all_files_of_arrays_are_let_go(large):
    path, content = large
    whole = map_file(path)
    parts = whole[: 4 << 20].view(np.float32), whole[8 << 20 :].view(np.float32)
    before = resident("RssFile")
    assert sum(float(part.sum()) for part in parts) > 0
    assert resident("RssFile") > before + (8 << 20)
    release_all([*parts, np.ones(3)])
    assert resident("RssFile") < before + (1 << 20)
    np.testing.assert_array_equal(whole.view(np.float32), content)


def test_no_memory_is_a_memory_error(tmp_path, monkeypatch):
    with pytest.raises(MemoryError):
        fresh_pages((1 << 60,), np.uint8)

    def full(*_, **__):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    (tmp_path / "data").write_bytes(bytes(5000))
    monkeypatch.setattr(mapping, "_Mapping", full)
    with pytest.raises(MemoryError):
        map_file(tmp_path / "data")
