"""Tensors of other libraries, lists and masked arrays: taken for what they are, or named."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import pplconv
from tests.api.buffers import four_arrays, untouched
from tests.api.test_allocation import run_probe
from tests.reference import assert_convolution

NAMES = ["input", "weight", "bias", "residual"]
HAS_TORCH = importlib.util.find_spec("torch") is not None


@pytest.fixture
def arrays(rng):
    return four_arrays(rng)


def prepared(input, weight, bias, residual, out=None, **arguments):
    return pplconv.Conv2d(weight, bias, **arguments)(input, residual, out)


def refused(arrays, name, error=TypeError, **arguments):
    """Give the message of a call and of a prepared one, which write nothing."""
    out, messages = np.full((2, 8, 7, 8), 42, np.float32), []
    for call in (pplconv.conv2d, prepared):
        with untouched(out), pytest.raises(error, match=rf"\b{name}\b") as caught:
            call(**arrays, **arguments, out=out)
        messages.append(str(caught.value))
    return messages


# Stand-ins ---------------------------------------------------------------------------------------


class Tensor:
    """A stand-in for PyTorch's tensor: it gives its numbers only if it records no gradient."""

    def __init__(self, a, requires_grad=False, **shown):
        self._a, self.requires_grad, self._shown = a, requires_grad, shown

    def __getattr__(self, name):
        try:
            return self.__dict__["_shown"][name]
        except KeyError:
            raise AttributeError(name) from None

    def detach(self):
        return type(self)(self._a, **self._shown)

    def __array__(self, dtype=None, copy=None):
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self._shown:
            raise TypeError("can't convert this tensor to numpy")
        return np.array(self._a, dtype, copy=copy is not False)


class OnlyDLPack:
    """A tensor that records gradients, and has no ``__array__``."""

    def __init__(self, a, requires_grad=True, dtype=None):
        self._a, self.requires_grad = a, requires_grad
        if dtype is not None:
            self.dtype = dtype

    def detach(self):
        return OnlyDLPack(self._a, requires_grad=False)

    def __dlpack__(self, **arguments):
        if self.requires_grad or hasattr(self, "dtype"):
            raise BufferError("Can't export this tensor")
        return self._a.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return (1, 0)


class Device:
    """A device as PyTorch names it."""

    def __init__(self, type):
        self.type = type

    def __str__(self):
        return f"{self.type}:0"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [Tensor, OnlyDLPack])
def test_tensors_that_record_gradients_are_taken(kind, name, arrays):
    expected = pplconv.conv2d(**arrays)
    parameters = {**arrays, name: kind(arrays[name], requires_grad=True)}
    for call in (pplconv.conv2d, prepared):
        assert call(**parameters).tobytes() == expected.tobytes()


def test_slopes_may_record_gradients(arrays):
    slope = np.linspace(-1, 1, 8, dtype=np.float32)
    expected = pplconv.conv2d(**arrays, activation=("prelu", slope))
    tensor = Tensor(slope, requires_grad=True)
    assert pplconv.conv2d(**arrays, activation=("prelu", tensor)).tobytes() == expected.tobytes()


OTHERS = {
    "bfloat16": ({"dtype": "torch.bfloat16"}, ("torch.bfloat16", ".float()")),
    "sparse": (
        {"layout": "torch.sparse_csr", "to_dense": None, "dtype": "torch.float32"},
        ("torch.sparse_csr", ".to_dense()"),
    ),
    "meta": ({"device": Device("meta"), "dtype": "torch.float32"}, ("meta", "data")),
    "device": ({"device": Device("cuda"), "dtype": "torch.float32"}, ("cuda:0", ".cpu()")),
    "anything else": ({"dtype": "torch.float32"}, ("can't convert this tensor",)),
    "anything else of NumPy's types": ({"dtype": "float32"}, ("can't convert this tensor",)),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", OTHERS)
def test_other_tensors_are_refused_by_name(what, name, arrays):
    shown, words = OTHERS[what]
    arrays[name] = Tensor(arrays[name], **shown)
    for message in refused(arrays, name):
        assert [word for word in words if word not in message] == []


def test_exporters_of_other_types_are_refused_by_name(arrays):
    arrays["input"] = OnlyDLPack(arrays["input"], False, "other.bfloat16")
    for message in refused(arrays, "input"):
        assert "other.bfloat16" in message and ".float()" in message


def test_memory_errors_stay_what_they_are(arrays):
    class Huge:
        def __array__(self, dtype=None, copy=None):
            raise MemoryError

    with pytest.raises(MemoryError):
        pplconv.conv2d(Huge(), arrays["weight"])


# The real libraries, where they are installed; the stand-ins above do all that they do.
if HAS_TORCH:
    import torch

    @pytest.mark.parametrize("name", NAMES)
    def test_parameters_of_pytorch_are_taken(name, arrays):
        expected = pplconv.conv2d(**arrays)
        arrays[name] = torch.nn.Parameter(torch.from_numpy(arrays[name]))
        for call in (pplconv.conv2d, prepared):
            assert np.asarray(call(**arrays)).tobytes() == expected.tobytes()

    TORCH = {
        "eight bits": (lambda t: t.to(torch.float8_e5m2), ".float()"),
        "sparse": (lambda t: t.to_sparse(), ".to_dense()"),
        "meta": (lambda t: t.to("meta"), "meta"),
        "integers": (lambda t: t.int(), ".astype(np.float32)"),
    }

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("what", TORCH)
    def test_other_tensors_of_pytorch_are_refused(what, name, arrays):
        make, word = TORCH[what]
        dense = {**arrays}
        arrays[name] = make(torch.from_numpy(arrays[name]))
        if (what, name) == ("sparse", "weight"):  # which layers take
            assert_convolution(prepared(**arrays), **dense)
            with pytest.raises(TypeError, match=r"weight must be dense.*\.to_dense"):
                pplconv.conv2d(**arrays)
            return
        for message in refused(arrays, name):
            assert word in message


# Types that are not taken ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "bool"])
@pytest.mark.parametrize("name", NAMES)
def test_integers_are_told_what_to_do(name, dtype, arrays):
    arrays[name] = np.ones(arrays[name].shape, dtype)
    (direct, ready) = refused(arrays, "input|weight" if name == "weight" else name)
    assert "use .astype(np.float32)" in direct and dtype in direct
    assert "use .astype(np.float32)" in ready


@pytest.mark.parametrize("dtype", ["complex64", "S4", "object"])
def test_what_is_no_real_number_is_not_told_to_be_cast(dtype, arrays):
    arrays["input"] = np.ones(arrays["input"].shape, dtype)
    for message in refused(arrays, "input"):
        assert "astype" not in message


def test_images_are_told_what_to_do_before_they_change_layout():
    with pytest.raises(TypeError, match=r"x must be .*uint8: use \.astype\(np\.float32\)"):
        pplconv.to_blocked(np.zeros((1, 3, 4, 4), np.uint8))


# Masks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_masked_arrays_are_refused(name, mask, arrays):
    masked = np.ma.array(arrays[name], mask=False)
    masked.mask[0] = mask
    for message in refused({**arrays, name: masked}, name):
        assert "mask" in message and ".filled(" in message
    filled = {**arrays, name: masked.filled(0)}
    assert_convolution(pplconv.conv2d(**filled), **filled)


def test_masked_outputs_and_slopes_are_refused(arrays):
    out = np.ma.zeros((2, 8, 7, 8), np.float32)
    for call in (pplconv.conv2d, prepared):
        with untouched(out.data), pytest.raises(TypeError, match=r"\bout\b.*mask"):
            call(**arrays, out=out)
    slope = np.ma.zeros(8, np.float32)
    with pytest.raises(TypeError, match=r"activation.*mask"):
        pplconv.conv2d(**arrays, activation=("prelu", slope))
    for change in (pplconv.to_blocked, lambda x: pplconv.from_blocked(x[..., None])):
        with pytest.raises(TypeError, match=r"\bx\b.*mask"):
            change(np.ma.zeros((1, 4, 5, 6), np.float32))


# Lists -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_lists_take_the_type_of_the_arrays(name, dtype, arrays):
    arrays = {key: a.astype(dtype) for key, a in arrays.items()}
    expected = pplconv.conv2d(**arrays)
    assert expected.dtype == dtype
    listed = {**arrays, name: arrays[name].tolist()}
    y = pplconv.conv2d(**listed)
    assert y.dtype == dtype and y.tobytes() == expected.tobytes()
    if name != "weight":  # whose type is that of all others there
        y = prepared(**listed)
        assert y.dtype == dtype and y.tobytes() == expected.tobytes()


def test_lists_of_integers_are_numbers_too(arrays):
    bias = [3, -1, 0, 2, 7, 1, 0, -5]
    expected = pplconv.conv2d(**{**arrays, "bias": np.array(bias, np.float32)})
    for call in (pplconv.conv2d, prepared):
        assert call(**{**arrays, "bias": bias}).tobytes() == expected.tobytes()
    alone = pplconv.conv2d([[[1, 2], [3, 4]]], [[[[1, 1], [1, 2]]]])
    assert alone.dtype == np.float64 and alone.tolist() == [[[14.0]]]


def test_lists_of_what_has_a_type_keep_it(arrays):
    for wrong in (list(arrays["bias"].astype(np.float64)), ["1"] * 8, [True] * 8):
        arrays["bias"] = wrong
        refused(arrays, "bias")


# Arrays that lie about themselves, or change while arguments are read -----------------------------
# A subclass may override any attribute, and an object that is read as a number or an array may run
# any code then. Sizes come from the memory itself, so that neither leads the loops astray.


def test_attributes_of_subclasses_are_not_asked():
    """Results are NumPy's for the numbers that the arrays hold."""
    found = run_probe("lying_probe.py", "lies")
    assert found == dict.fromkeys(found, "right")
    assert len(found) > 1000


@pytest.mark.unemulated("hundreds of plans are made")
def test_arguments_may_change_arrays_while_they_are_read():
    """A call computes the arrays from before or after the change, or refuses; it never crashes."""
    found = run_probe("lying_probe.py", "changes")
    odd = {name: what for name, what in found.items() if what.partition(":")[0] == "refused"}
    assert {name: what for name, what in found.items() if what != "right"} == odd
    assert len(odd) < len(found)
