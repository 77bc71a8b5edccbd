"""Calls with arrays that lie about themselves, or that change while they are read.

Not a test module: ``test_array_likes.py`` runs it as a script, which prints what came of each.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import pplconv
from pplconv import imaging, prune, quant

F32, U8, S8 = np.float32, np.uint8, np.int8
rng = np.random.default_rng()

# Shapes that attributes and methods claim. The arrays here are much smaller.
LARGE = {2: (2048, 2048), 1: (1 << 22,), 3: (8, 2048, 2048), 4: (1, 16, 2048, 2048)}
LIES: dict[str, Any] = {
    "shape": property(lambda self: LARGE.get(np.ndarray.view(self, np.ndarray).ndim, (9,))),
    "ndim": property(lambda _: 7),
    "size": property(lambda _: 1 << 40),
    "nbytes": property(lambda _: 1 << 40),
    "itemsize": property(lambda _: 64),
    "strides": property(lambda _: (1 << 40,) * 4),
    "dtype": property(lambda _: np.dtype(np.float64)),
    "flags": property(lambda _: np.ones(1).flags),
    "ctypes": property(lambda _: np.zeros(1).ctypes),
    "T": property(lambda _: np.zeros(1)),
    "__class__": property(lambda _: np.ma.MaskedArray),
    "__array_interface__": property(
        lambda _: {"shape": (1 << 24,), "typestr": "<f4", "data": (8, False), "version": 3}
    ),
    "__len__": lambda _: 1 << 24,
    "__array__": lambda _, *__, **___: np.zeros(3),
    "__array_function__": lambda *_: NotImplemented,
    "reshape": lambda *_: np.zeros(1, F32),
    "view": lambda *_: np.zeros(1, F32),
    "astype": lambda *_, **__: np.zeros(1, F32),
    "copy": lambda *_, **__: np.zeros(1, F32),
}
LIARS = {name: type("Liar", (np.ndarray,), {name: lie}) for name, lie in LIES.items()}


def numbers(dtype: Any, *shape: int) -> np.ndarray:
    """Give small integers, whose sums are exact."""
    return rng.integers(0 if dtype is U8 else -4, 5, shape).astype(dtype)


def in_fours(x: np.ndarray) -> np.ndarray:
    """Give an array in blocks of four channels."""
    n, c, h, w = x.shape
    full = np.zeros((n, -(-c // 4) * 4, h, w), x.dtype)
    full[:, :c] = x
    return full.reshape(n, -1, 4, h, w).transpose(0, 1, 3, 4, 2)


class Case(NamedTuple):
    """A call: arrays by name, the right answer from NumPy, and the other arguments."""

    call: Callable[..., Any]
    arrays: dict[str, np.ndarray]
    right: Callable[..., np.ndarray]
    others: dict[str, Any]


def prepared(kind: Any) -> Callable[..., Any]:
    """Give the function that makes a layer and calls it."""
    return lambda input, weight, bias, residual, out, **others: kind(weight, bias, **others)(
        input, residual, out
    )


def cases(n: int = 3) -> dict[str, Case]:
    """Give a case for each function; `n` is how high and wide images are."""
    found: dict[str, Case] = {}
    x, w, b = numbers(F32, 1, 16, n, n), numbers(F32, 4, 16, 1, 1), numbers(F32, 4)
    r = numbers(F32, 1, 4, n, n)
    floats = {"input": x, "weight": w, "bias": b, "residual": r, "out": np.empty_like(r)}

    def products(input, weight, bias, residual, out=None):
        return (
            np.einsum("nchw,oc->nohw", input, weight[:, :, 0, 0]) + bias[:, None, None] + residual
        )

    geometry = {"stride": 1, "padding": 0, "groups": 1, "dilation": 1, "threads": 1}
    found["conv2d"] = Case(pplconv.conv2d, floats, products, {**geometry, "activation": None})
    found["Conv2d"] = Case(prepared(pplconv.Conv2d), floats, products, geometry)
    turned = {**floats, "weight": np.ascontiguousarray(w.transpose(1, 0, 2, 3))}

    def transposed(weight, **others):
        return products(weight=weight.transpose(1, 0, 2, 3), **others)

    found["conv_transpose2d"] = Case(pplconv.conv_transpose2d, turned, transposed, geometry)
    found["ConvTranspose2d"] = Case(prepared(pplconv.ConvTranspose2d), turned, transposed, geometry)
    signals = {
        "input": x[0].reshape(1, 16, -1), "weight": w[:, :, 0], "bias": b,
        "residual": r[0].reshape(1, 4, -1), "out": np.empty((1, 4, n * n), F32),
    }  # fmt: skip
    found["conv1d"] = Case(
        pplconv.conv1d, signals,
        lambda input, weight, bias, residual, out: np.einsum(
            "ncw,oc->now", input, weight[:, :, 0]) + bias[:, None] + residual,
        {"stride": 1, "padding": 0, "threads": 1},
    )  # fmt: skip
    turned = {**signals, "weight": np.ascontiguousarray(signals["weight"].transpose(1, 0, 2))}
    found["conv_transpose1d"] = Case(
        pplconv.conv_transpose1d, turned,
        lambda input, weight, bias, residual, out: np.einsum(
            "ncw,co->now", input, weight[:, :, 0]) + bias[:, None] + residual,
        {"stride": 1, "output_padding": 0, "threads": 1},
    )  # fmt: skip
    # Two taps in depth, of which each output sees one.
    volumes = {
        "input": x[:, :, None], "weight": np.stack([w, w], 2), "bias": b,
        "residual": np.stack([r, r], 2), "out": np.empty((1, 4, 2, n, n), F32),
    }  # fmt: skip

    def of_volumes(input, weight, bias, residual, out):
        taps = weight[:, :, ::-1, 0, 0]
        sums = np.einsum("nchw,ocd->nodhw", input[:, :, 0], taps)
        return sums + bias[:, None, None, None] + residual

    padded = {"stride": 1, "padding": ((1, 1), (0, 0), (0, 0)), "groups": 1, "threads": 1}
    found["conv3d"] = Case(pplconv.conv3d, volumes, of_volumes, padded)
    found["Conv3d"] = Case(prepared(pplconv.Conv3d), volumes, of_volumes, padded)
    turned = {**volumes, "weight": np.ascontiguousarray(volumes["weight"].swapaxes(0, 1))}
    found["conv_transpose3d"] = Case(
        pplconv.conv_transpose3d, turned,
        lambda weight, **others: of_volumes(weight=weight.swapaxes(0, 1)[:, :, ::-1], **others),
        {"stride": 1, "padding": 0, "output_padding": 0, "threads": 1},
    )  # fmt: skip
    a, matrix = numbers(F32, n * n, 16), numbers(F32, 16, 4)
    added = {"bias": b, "residual": numbers(F32, n * n, 4), "out": np.empty((n * n, 4), F32)}
    found["matmul"] = Case(
        pplconv.matmul, {"a": a, "b": matrix, **added},
        lambda a, b, bias, residual, out: a @ b + bias + residual,
        {"threads": 1, "activation": None},
    )  # fmt: skip
    for name, shape in {"Linear": (n * n,), "Linear of images": (n, n)}.items():
        arrays = {
            "input": a.reshape(*shape, 16), "weight": np.ascontiguousarray(matrix.T), "bias": b,
            "residual": added["residual"].reshape(*shape, 4), "out": np.empty((*shape, 4), F32),
        }  # fmt: skip
        found[name] = Case(
            prepared(pplconv.Linear),
            arrays,
            lambda input, weight, bias, residual, out: input @ weight.T + bias + residual,
            {"threads": 1},
        )
    q, k, whole = numbers(U8, 1, 16, n, n), numbers(S8, 4, 16, 1, 1), numbers(np.int32, 4)
    sums = np.empty((1, 4, n, n), np.int32)

    def exact(x, w, bias=0, out=None):
        y = np.einsum("nchw,oc->nohw", x.astype(np.int32), w[:, :, 0, 0].astype(np.int32))
        return y + (bias if isinstance(bias, int) else bias[:, None, None])

    zeros = {"x_zero_point": 0, "w_zero_point": 0}
    found["conv2d_integer"] = Case(
        pplconv.conv2d_integer, {"x": q, "w": k, "out": sums}, exact, {**zeros, **geometry}
    )
    scales = {"x_scale": 1.0, "w_scale": 1.0, **zeros}
    found["qconv2d"] = Case(
        lambda x, w, bias, out, x_scale, x_zero_point, w_scale, w_zero_point, **others:
            pplconv.qconv2d(x, x_scale, x_zero_point, w, w_scale, w_zero_point, None, None,
                            bias, out=out, out_dtype=np.int32, **others),
        {"x": q, "w": k, "bias": whole, "out": sums}, exact, {**scales, **geometry},
    )  # fmt: skip
    found["QConv2d"] = Case(
        lambda x, w, bias, out, **others: pplconv.QConv2d(
            w, bias, out_dtype=np.int32, **others)(x, out=out),
        {"x": q, "w": k, "bias": whole, "out": sums}, exact, {**scales, **geometry},
    )  # fmt: skip
    rows = q.reshape(16, -1).T.copy()
    bytewise = {"a": rows, "b": k.reshape(4, 16).T.copy(), "out": np.empty((n * n, 4), np.int32)}

    def whole_product(a, b, bias=0, out=None):
        return a.astype(np.int32) @ b.astype(np.int32) + bias

    found["matmul_integer"] = Case(
        pplconv.matmul_integer, bytewise, whole_product,
        {"a_zero_point": 0, "b_zero_point": 0, "threads": 1},
    )  # fmt: skip
    found["qmatmul"] = Case(
        lambda a, b, bias, out, **others: pplconv.qmatmul(
            a, others["a_scale"], 0, b, 1.0, 0, None, None, bias, out_dtype=np.int32, out=out),
        {**bytewise, "bias": whole}, whole_product, {"a_scale": 1.0},
    )  # fmt: skip
    found["to_blocked"] = Case(pplconv.to_blocked, {"x": x}, in_fours, {"block": 4})
    found["from_blocked"] = Case(
        pplconv.from_blocked, {"x": numbers(F32, 1, 4, n, n, 4)},
        lambda x: x.transpose(0, 1, 4, 2, 3).reshape(1, 16, n, n), {"channels": 16},
    )  # fmt: skip
    image, two = numbers(U8, n, n), np.full((1, 1), 2.0)
    filtered = {"image": image, "kernel": two, "out": np.empty_like(image)}
    found["filter2d"] = Case(
        imaging.filter2d, filtered, lambda image, kernel, out: 2 * image, {"threads": 1}
    )
    pair = {"image": image.astype(F32), "kernel_x": two.ravel(), "kernel_y": two.ravel(),
            "out": np.empty((n, n), F32)}  # fmt: skip
    found["sepfilter2d"] = Case(
        imaging.sepfilter2d, pair, lambda image, **_: 4 * image, {"threads": 1, "value": 0.0}
    )
    for call in (imaging.correlate2d, imaging.convolve2d):
        signal = {"in1": image.astype(np.float64), "in2": two}
        found[call.__name__] = Case(call, signal, lambda in1, in2: 2 * in1, {"fillvalue": 0})
    found["prune"] = Case(
        lambda weight, **others: prune.magnitude(weight, 1.0, **others), {"weight": w},
        lambda weight: weight, {"groups": 1},
    )  # fmt: skip
    found["quantize"] = Case(
        lambda x, **others: quant.quantize(x, others["scale"], 0, dtype=np.int8), {"x": x},
        lambda x: x.astype(S8), {"scale": 1.0},
    )  # fmt: skip
    found["dequantize"] = Case(
        lambda q, **others: quant.dequantize(q, others["scale"], 0), {"q": k},
        lambda q: q.astype(F32), {"scale": 1.0},
    )  # fmt: skip
    return found


class Changing:
    """A number or an array that changes another array whenever it is read."""

    def __init__(self, value: Any, change: Callable[[], Any]) -> None:
        self.value, self.change = value, change

    def _read(self, *_: Any, **__: Any) -> Any:
        self.change()
        return self.value

    __index__ = __float__ = __int__ = _read

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        return np.asarray(self._read())


def shrinks(array: np.ndarray) -> None:
    """Give almost all of the memory of an array back."""
    np.ndarray.resize(array, (1,) * array.ndim, refcheck=False)


def turns(array: np.ndarray) -> None:
    """Give an array its dimensions in another order."""
    array.shape = array.shape[::-1]


def outcome(case: Case, arrays: dict[str, Any], others: dict[str, Any]) -> str:
    """Say what came of a call: arrays may be read before they change, or after that."""
    expected = [case.right(**case.arrays)]
    try:
        found = case.call(**arrays, **others)
    except (TypeError, ValueError) as error:
        return f"refused: {error}"
    found = np.ndarray.view(found, np.ndarray)
    if "out" in arrays and np.ndarray.ctypes.__get__(found).data != (
        np.ndarray.ctypes.__get__(arrays["out"]).data
    ):
        return "another out"
    truth = {
        name: np.ndarray.view(value, np.ndarray)
        if isinstance(value, np.ndarray)
        else case.arrays[name]
        for name, value in arrays.items()
    }
    with contextlib.suppress(ValueError):
        expected.append(case.right(**truth))
    return "right" if any(np.array_equal(found, each) for each in expected) else "wrong"


def lies(found: dict[str, str]) -> None:
    """Try each lie about each array of each function."""
    for name, case in cases().items():
        for word, array in case.arrays.items():
            for lie, liar in LIARS.items():
                arrays = {**case.arrays, word: array.view(liar)}
                found[f"{name} {word} {lie}"] = outcome(case, arrays, case.others)


def changes(found: dict[str, str], n: int = 96) -> None:
    """Change each array while each other argument is read; any answer will do, but no crash."""
    for name in cases(1):
        case = cases(n)[name]
        for word in case.arrays:
            for other in [*case.arrays, *case.others]:
                if other in (word, "out"):
                    continue
                for how in (shrinks, turns):
                    for kind in (np.ndarray, LIARS["copy"]):
                        arrays: dict[str, Any] = {k: v.copy() for k, v in case.arrays.items()}
                        # An array of its own, which may be resized.
                        target = np.ndarray.__new__(kind, arrays[word].shape, arrays[word].dtype)
                        np.copyto(np.ndarray.view(target, np.ndarray), arrays[word])
                        others = dict(case.others)
                        value = arrays.get(other, others.get(other))
                        value = 1 if value is None else value
                        arrays[word] = target
                        (arrays if other in arrays else others)[other] = Changing(
                            value, lambda t=target, how=how: how(t)
                        )
                        key = f"{name} {word} {other} {how.__name__} {kind.__name__}"
                        print(key, file=sys.stderr)
                        found[key] = outcome(case, arrays, others)


if __name__ == "__main__":
    found: dict[str, str] = {}
    {"lies": lies, "changes": changes}[sys.argv[1]](found)
    json.dump(found, sys.stdout)
