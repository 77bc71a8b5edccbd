"""Arrays and tensors of bfloat16 as bits, from any library."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from pplconv.memory import array_like
from tests.brain_exporter import Exporter

ml_dtypes = pytest.importorskip("ml_dtypes")
BF16 = np.dtype(ml_dtypes.bfloat16)
NUMBERS = np.array([[1.0, -2.5, 0.0], [np.inf, 2.0**-128, 1.00390625]], np.float32)
BITS = np.array([[0x3F80, 0xC020, 0], [0x7F80, 0x0020, 0x3F80]], np.uint16)


def test_the_type_of_numpy():
    assert array_like.bfloat16_dtype() == BF16


def test_the_type_of_numpy_where_nobody_has_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert array_like.bfloat16_dtype() is None


def test_arrays_share_their_memory():
    array = NUMBERS.astype(BF16)
    assert array_like.is_bfloat16(array)
    bits = array_like.as_bfloat16_bits(array)
    assert bits.dtype == np.uint16 and np.shares_memory(bits, array)
    np.testing.assert_array_equal(bits, BITS)
    np.testing.assert_array_equal(bits.view(BF16), array)


def test_arrays_with_gaps():
    array = np.zeros((4, 9), BF16)
    array[::2, ::3] = NUMBERS
    bits = array_like.as_bfloat16_bits(array[::2, ::3])
    assert np.shares_memory(bits, array)
    np.testing.assert_array_equal(bits, BITS)
    np.testing.assert_array_equal(array_like.as_bfloat16_bits(array.T[::3, ::2]), BITS.T)


def test_exporters_share_their_memory():
    memory = np.zeros((3, 4), np.uint16)
    memory[:, ::2] = BITS.T
    tensor = Exporter(memory[:, ::2])
    assert array_like.is_bfloat16(tensor)
    bits = array_like.as_bfloat16_bits(tensor, "weight")
    assert bits.dtype == np.uint16 and np.shares_memory(bits, memory)
    np.testing.assert_array_equal(bits, BITS.T)


def test_exporters_keep_their_memory():
    kept = [array_like.as_bfloat16_bits(Exporter(BITS + i)) for i in range(50)]
    for i, bits in enumerate(kept):
        np.testing.assert_array_equal(bits, BITS + i)


def test_tensors_that_record_gradients():
    class Parameter(Exporter):
        requires_grad = True

        def detach(self):
            return Exporter(self._bits)

        def __dlpack__(self, stream=None):
            raise BufferError("it records gradients")

    np.testing.assert_array_equal(array_like.as_bfloat16_bits(Parameter(BITS)), BITS)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (NUMBERS, "float32"),
        (BITS, "uint16"),
        (np.ma.masked_array(NUMBERS.astype(BF16)), "masked"),
        ([1.0, 2.0], "float64"),
        (Exporter(BITS, code=2, dtype="torch.float16"), "float16"),
        (Exporter(BITS, code=2, dtype=""), "(2, 16, 1)"),
        (Exporter(BITS, device=2), "device type 2"),
    ],
    ids=["float32", "bits", "a mask", "a list", "half", "half without a name", "a device"],
)
def test_others_are_refused_by_name(value, says):
    with pytest.raises(TypeError, match=r"\bweight\b") as caught:
        array_like.as_bfloat16_bits(value, "weight")
    assert says in str(caught.value)


@pytest.mark.parametrize("value", [NUMBERS, [1.0], 3, None, Exporter(BITS, dtype="other.float16")])
def test_what_is_not_bfloat16(value):
    assert not array_like.is_bfloat16(value)
