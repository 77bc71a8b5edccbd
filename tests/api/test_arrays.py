"""Everything that counts as an array, and outputs that are refused."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import pplconv
from tests.api.blocks import in_blocks, to_layout
from tests.api.brain_cases import BF16
from tests.api.buffers import four_arrays, untouched
from tests.reference import assert_convolution

DTYPES = ["float32", "float64"]
ERRORS = (TypeError, ValueError)


@pytest.fixture
def arrays(rng):
    return four_arrays(rng)


def sliced(a):
    wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
    view = wide[..., ::2]
    view[...] = a
    return view


def transposed(a):
    return np.ascontiguousarray(a.T).T


def reversed_axes(a):
    everywhere = (slice(None, None, -1),) * a.ndim
    return np.ascontiguousarray(a[everywhere])[everywhere]


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def byte_swapped(a):
    return a.astype(a.dtype.newbyteorder())


def unaligned(a):
    raw = np.zeros(a.nbytes + 1, np.uint8)
    view = raw[1:].view(a.dtype).reshape(a.shape)
    view[...] = a
    assert view.itemsize == 1 or not view.flags.aligned
    return view


def unaligned_swapped_and_strided(a):
    wide = unaligned(byte_swapped(np.repeat(a, 3, -1)))
    return wide[..., 1::3]


def fortran(a):
    return np.asfortranarray(a)


class Subclass(np.ndarray):
    """An array of another class, with nothing changed."""


def subclass(a):
    return a.view(Subclass)


class ArrayInterface:
    """An object that knows only ``__array__``."""

    def __init__(self, a):
        self._a = a

    def __array__(self, dtype=None, copy=None):
        return np.array(self._a, dtype, copy=copy is not False)


class DLPackOnly:
    """A stand-in for another library's tensor on the CPU: DLPack and nothing else."""

    def __init__(self, a, device=None):
        self._a, self._device = a, device

    def __dlpack__(self, **arguments):
        if self._device is not None:
            raise BufferError("a tensor of another device")
        return self._a.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self._device or self._a.__dlpack_device__()


class OldDLPackOnly(DLPackOnly):
    """An exporter from before DLPack 1.0, which takes no ``max_version``."""

    def __dlpack__(self, stream=None):
        return self._a.__dlpack__(stream=stream)


FORMS = [
    sliced,
    transposed,
    reversed_axes,
    fortran,
    read_only,
    byte_swapped,
    unaligned,
    unaligned_swapped_and_strided,
    subclass,
    memoryview,
    ArrayInterface,
    DLPackOnly,
    OldDLPackOnly,
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", ["input", "weight", "bias", "residual"])
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_arrays(form, name, layout, dtype, arrays):
    arrays = {key: a.astype(dtype) for key, a in arrays.items()}
    arrays |= {key: to_layout(arrays[key], layout) for key in ("input", "residual")}
    plain = pplconv.conv2d(**arrays, layout=layout)
    assert_convolution(plain, **arrays, layout=layout)
    formed = {**arrays, name: form(arrays[name])}
    with untouched(*arrays.values()):
        y = pplconv.conv2d(**formed, layout=layout)
    assert type(y) is np.ndarray
    assert y.flags.c_contiguous and y.flags.writeable and y.dtype == dtype
    assert y.tobytes() == plain.tobytes()
    residual = formed.pop("residual")
    conv = pplconv.Conv2d(formed["weight"], formed["bias"], layout=layout)
    assert conv(formed["input"], residual).tobytes() == plain.tobytes()


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_a_pointwise_input(form, rng):
    """1x1 works on the user's own array where it can; here it mostly cannot."""
    x = rng.standard_normal((2, 20, 6, 7)).astype(np.float32)
    w = rng.standard_normal((9, 20, 1, 1)).astype(np.float32)
    assert_convolution(pplconv.conv2d(form(x), w), x, w)
    nhwc = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    assert_convolution(pplconv.conv2d(form(nhwc), w, layout="NHWC"), nhwc, w, layout="NHWC")
    # Channels last in memory, channels first in shape.
    assert_convolution(pplconv.conv2d(nhwc.transpose(0, 3, 1, 2), w), x, w)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_arrays_in_and_out_of_blocks(form, dtype, rng):
    x = rng.standard_normal((2, 20, 6, 7)).astype(dtype)
    blocked = in_blocks(x, 8)
    with untouched(x, blocked):
        there, back = pplconv.to_blocked(form(x), 8), pplconv.from_blocked(form(blocked), 20)
    assert type(there) is type(back) is np.ndarray
    assert there.dtype == back.dtype == dtype
    assert there.tobytes() == blocked.tobytes()
    assert back.tobytes() == x.tobytes()


def test_broadcast_arrays(arrays):
    x = np.broadcast_to(arrays["input"][:1, :1], (2, 6, 9, 10))
    w = np.broadcast_to(np.float32(0.5), (8, 6, 3, 3))
    bias = np.broadcast_to(np.float32(-1), 8)
    residual = np.broadcast_to(arrays["residual"][:, :, :1], (2, 8, 7, 8))
    y = pplconv.conv2d(x, w, bias, residual=residual)
    assert_convolution(y, x, w, bias, residual=residual)


def test_lists_are_float64(arrays):
    x, w = arrays["input"][0].astype(np.float64), arrays["weight"].astype(np.float64)
    y = pplconv.conv2d(x.tolist(), w.tolist(), arrays["bias"].astype(np.float64).tolist())
    assert_convolution(y, x, w, arrays["bias"])


def test_memory_mapped_file(tmp_path, arrays):
    np.save(tmp_path / "x.npy", arrays["input"])
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    y = pplconv.conv2d(mapped, arrays["weight"])
    assert_convolution(y, arrays["input"], arrays["weight"])


@pytest.mark.parametrize("name", ["input", "weight", "bias", "residual"])
@pytest.mark.parametrize("device", [(2, 0), (8, 0), (10, 1)])
def test_dlpack_of_another_device_is_refused(name, device, arrays):
    arrays[name] = DLPackOnly(arrays[name], device)
    with pytest.raises((*ERRORS, BufferError), match=rf"(?s)\b{name}\b.*(device|CPU)"):
        pplconv.conv2d(**arrays)


@pytest.mark.parametrize("name", ["input", "weight", "bias", "residual"])
@pytest.mark.parametrize(
    "dtype",
    ["longdouble", "int8", "int32", "int64", "bool", "complex64", "object", "S4"],
)
def test_unsupported_types_are_refused(name, dtype, arrays):
    arrays[name] = np.ones(arrays[name].shape, dtype)
    out = np.zeros((2, 8, 7, 8), np.float32)
    with untouched(out), pytest.raises(TypeError, match=rf"(?s)\b{name}\b"):
        pplconv.conv2d(**arrays, out=out)


@pytest.mark.parametrize("thing", [None, "text", object(), {"a": 1}, 1.0])
@pytest.mark.parametrize("name", ["input", "weight"])
def test_things_that_are_no_arrays_are_refused(name, thing, arrays):
    arrays[name] = thing
    with pytest.raises(ERRORS, match=rf"\b{name}\b"):
        pplconv.conv2d(**arrays)


TYPES = {"float16": "f2", "bfloat16": BF16, "float32": "f4", "float64": "f8"}
PAIRS = [
    pytest.param(*pair, marks=[pytest.mark.narrow] if "bfloat16" in pair else [])
    for pair in permutations(TYPES, 2)
]


def prepared(input, weight, bias, residual, out):
    return pplconv.Conv2d(weight, bias)(input, residual, out)


@pytest.mark.parametrize(("dtype", "other"), PAIRS)
@pytest.mark.parametrize("name", ["input", "weight", "bias", "residual", "out"])
@pytest.mark.parametrize("call", [pplconv.conv2d, prepared])
def test_types_are_not_mixed(call, name, dtype, other, arrays):
    """Neither is converted in silence: the message names the argument and both types."""
    arrays["out"] = np.ones((2, 8, 7, 8))
    arrays = {key: a.astype(TYPES[dtype]) for key, a in arrays.items()}
    arrays[name] = arrays[name].astype(TYPES[other])
    # The function takes the type of the input, a layer that of the weights.
    if (call, name) in ((pplconv.conv2d, "input"), (prepared, "weight")):
        name = "weight" if name == "input" else "bias"
        dtype, other = other, dtype
    with (
        untouched(arrays["out"]),
        pytest.raises(TypeError, match=rf"^{name} must be {dtype}\b.*, got {other}") as caught,
    ):
        call(**arrays)
    if dtype == "bfloat16" and name != "out":
        assert "use .astype(ml_dtypes.bfloat16)" in str(caught.value)


# Outputs ---------------------------------------------------------------------------------------


def run_conv2d(arrays, out):
    return pplconv.conv2d(**arrays, out=out)


def run_prepared(arrays, out):
    conv = pplconv.Conv2d(arrays["weight"], arrays["bias"])
    return conv(arrays["input"], arrays["residual"], out)


BAD_OUTPUTS = {
    "sliced": lambda t: np.zeros((2, 8, 7, 16), t)[..., ::2],
    "transposed": lambda t: np.zeros((2, 7, 8, 8), t).transpose(0, 3, 1, 2),
    "reversed": lambda t: np.zeros((2, 8, 7, 8), t)[:, ::-1],
    "broadcast": lambda t: np.broadcast_to(np.zeros((8, 7, 8), t), (2, 8, 7, 8)),
    "fewer rows": lambda t: np.zeros((2, 8, 6, 8), t),
    "more columns": lambda t: np.zeros((2, 8, 7, 9), t),
    "no batch axis": lambda t: np.zeros((16, 7, 8), t),
    "flat": lambda t: np.zeros(2 * 8 * 7 * 8, t),
    "other layout": lambda t: np.zeros((2, 7, 8, 8), t),
    "int32": lambda t: np.zeros((2, 8, 7, 8), np.int32),
    "byte-swapped": lambda t: byte_swapped(np.zeros((2, 8, 7, 8), t)),
    "unaligned": lambda t: unaligned(np.zeros((2, 8, 7, 8), t)),
    "read-only": lambda t: read_only(np.zeros((2, 8, 7, 8), t)),
}
# ml_dtypes has one byte order.
UNFIT = [(what, "float32") for what in BAD_OUTPUTS] + [
    pytest.param(what, "bfloat16", marks=pytest.mark.narrow)
    for what in BAD_OUTPUTS
    if what != "byte-swapped"
]


@pytest.mark.parametrize("run", [run_conv2d, run_prepared])
@pytest.mark.parametrize(("what", "dtype"), UNFIT)
def test_unfit_outputs_are_refused(what, dtype, run, arrays):
    arrays = {key: a.astype(TYPES[dtype]) for key, a in arrays.items()}
    out = BAD_OUTPUTS[what](TYPES[dtype])
    whole = out if out.base is None else out.base
    with untouched(whole), pytest.raises(ERRORS, match=r"^out must\b"):
        run(arrays, out)


@pytest.mark.parametrize("run", [run_conv2d, run_prepared])
@pytest.mark.parametrize("out", [[[0.0]], "out", memoryview(bytearray(2 * 8 * 7 * 8 * 4)), 0])
def test_outputs_that_are_no_arrays_are_refused(out, run, arrays):
    with pytest.raises(TypeError, match=r"\bout\b"):
        run(arrays, out)


def test_neighbouring_outputs_are_taken(arrays):
    """An output that ends where the input begins, in one buffer, shares nothing with it."""
    size, shared = 2 * 8 * 7 * 8, arrays["input"].size
    for first, begin in [(0, size), (shared, 0)]:
        buffer = np.zeros(size + shared, np.float32)
        x = buffer[begin : begin + shared].reshape(2, 6, 9, 10)
        x[...] = arrays["input"]
        out = buffer[first : first + size].reshape(2, 8, 7, 8)
        with untouched(x):
            y = pplconv.conv2d(**{**arrays, "input": x}, out=out)
        assert y is out
        assert_convolution(y, **arrays)


def test_prepared_output_may_stand_where_the_weights_stood(arrays):
    """The weights were packed, so their array is free for anything."""
    buffer = np.zeros(2 * 8 * 7 * 8, np.float32)
    weight = buffer[: arrays["weight"].size].reshape(8, 6, 3, 3)
    weight[...] = arrays["weight"]
    conv = pplconv.Conv2d(weight)
    y = conv(arrays["input"], out=buffer.reshape(2, 8, 7, 8))
    assert_convolution(y, arrays["input"], arrays["weight"])


def test_result_owns_its_memory(arrays):
    conv = pplconv.Conv2d(arrays["weight"])
    first = conv(arrays["input"])
    kept = first.copy()
    second = conv(-arrays["input"])
    assert not np.shares_memory(first, second)
    assert first.tobytes() == kept.tobytes()


# Arrays that begin on a cache line: `empty_aligned`, and results ----------------------------------


LINE = 64


def starts_on_a_line(array) -> bool:
    return array.ctypes.data % LINE == 0


@pytest.mark.parametrize("shape", [7, (), (0, 3), (1, 3, 5), [4, 5, 6, 7], (np.int64(3), 2)])
@pytest.mark.parametrize("dtype", [np.float32, "f8", np.dtype("<i2"), bool])
def test_shape_type_and_place(shape, dtype):
    array = pplconv.empty_aligned(shape, dtype)
    like = np.empty(shape, dtype)
    assert (array.shape, array.dtype) == (like.shape, like.dtype)
    assert array.flags.c_contiguous and array.flags.writeable and array.flags.aligned
    assert starts_on_a_line(array)


def test_every_byte_is_its_own():
    arrays = [pplconv.empty_aligned(n, np.uint8) for n in range(200)]
    for i, array in enumerate(arrays):
        array[...] = i
    for i, array in enumerate(arrays):
        assert (array == i).all()


def test_float32_unless_said_otherwise():
    assert pplconv.empty_aligned(3).dtype == np.float32


@pytest.mark.parametrize(
    ("shape", "dtype", "error", "name"),
    [
        ((3, -1), np.float32, ValueError, "shape"),
        (2.5, np.float32, TypeError, "shape"),
        (("a",), np.float32, TypeError, "shape"),
        (3, object, TypeError, "dtype"),
        (1 << 62, np.float64, (MemoryError, ValueError, OverflowError), "."),
    ],
)
def test_what_cannot_be_made(shape, dtype, error, name):
    with pytest.raises(error, match=name):
        pplconv.empty_aligned(shape, dtype)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_large_results_start_on_a_line(layout, rng):
    x = rng.standard_normal((2, 24, 24, 24)).astype(np.float32)
    w = rng.standard_normal((24, 24, 3, 3)).astype(np.float32)
    conv = pplconv.Conv2d(w, padding=1, layout=layout)
    results = [conv(x) for _ in range(8)]
    results += [pplconv.conv2d(x, w, padding=1, layout=layout) for _ in range(8)]
    assert all(starts_on_a_line(y) for y in results)
    # A place of its own for each: none is written twice.
    assert all((y == results[0]).all() for y in results[:8])


def test_blocked_arrays_start_on_a_line(rng):
    x = rng.standard_normal((2, 40, 16, 16)).astype(np.float32)
    blocked = [pplconv.to_blocked(x) for _ in range(8)]
    back = [pplconv.from_blocked(b, 40) for b in blocked]
    assert all(starts_on_a_line(y) for y in [*blocked, *back])
    assert all((y == x).all() for y in back)
