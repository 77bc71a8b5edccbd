"""Pairs of products summed in 16 bits: used only if no pair can overflow, and then exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pplconv
import pplconv.ops.quantized.quantized_run as run
from pplconv.machine import current
from pplconv.numerics import integer_permission, numerics_of
from pplconv.ops.quantized.pairs import pairs_fit, product_permission
from pplconv.planner import Request
from tests.api.blocks import to_layout
from tests.api.candidates import all_contexts, describe, every_candidate, force_plan, usable_isas
from tests.api.quantized_kernel_cases import RANGES, Case
from tests.emulation import few
from tests.levels import allowed_isas

pytestmark = pytest.mark.narrow
needs_pairs = pytest.mark.needs_isa("avx2")


def bounded(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Weights whose pairs are at the bound in every order of k, and beyond seven bits."""
    oc, ic, kh, kw = shape
    count = kh * kw * ic
    # Where channels are odd every two neighbours are a pair in some order.
    first = rng.integers(65, 128, (oc, -(-count // 2) if ic % 2 == 0 else 1))
    large = np.stack(np.broadcast_arrays(first, 128 - first), axis=-1).reshape(oc, -1)
    large = np.tile(large, (1, count))[:, :count] * rng.choice([-1, 1], (oc, 1))
    large = large.astype(np.int8)
    return np.ascontiguousarray(large.reshape(oc, kh, kw, ic).transpose(0, 3, 1, 2))


def sequences(weight: np.ndarray) -> list[np.ndarray]:
    """Every order in which kernels may read k, each (oc, k) with an even number of them."""
    oc, ic, kh, kw = weight.shape
    taps = weight.transpose(0, 2, 3, 1).reshape(oc, kh * kw, ic)
    found = [taps.reshape(oc, -1)]
    for together in (kw, 1):  # a row of taps after the other, or a tap
        found.append(taps.reshape(oc, kh * kw // together, together * ic))
    return [np.pad(f, [(0, 0)] * (f.ndim - 1) + [(0, f.shape[-1] % 2)]) for f in found]


def truly_fit(weight: np.ndarray) -> bool:
    """By the definition: the largest and least sums of two products with 255 fit 16 bits."""
    for k in sequences(weight.astype(np.int64)):
        pairs = k.reshape(*k.shape[:-1], -1, 2)
        most = 255 * np.maximum(pairs, 0).sum(-1).max(initial=0)
        least = 255 * np.minimum(pairs, 0).sum(-1).min(initial=0)
        if most > 32767 or least < -32768:
            return False
    return True


@pytest.mark.parametrize(("ic", "size"), [(1, 1), (2, 3), (3, 1), (3, 3), (4, 1), (5, 2), (6, 3)])
def test_pairs_that_fit(ic: int, size: int, rng: np.random.Generator) -> None:
    """Weights that overflow in some order are refused; of even channels and matrices no others."""
    verdicts = set()
    for _ in range(300):
        low, high = (-64, 65) if rng.random() < 0.5 else (-128, 128)
        weight = rng.integers(-64, 65, (3, ic, size, size)).astype(np.int8)
        many = rng.random(weight.shape) < rng.choice([0.02, 0.3])
        weight[many] = rng.integers(low, high, int(many.sum()))
        found = pairs_fit(weight)
        verdicts.add(found)
        if ic % 2 == 0 or size == 1:
            assert found == truly_fit(weight)
        else:
            assert truly_fit(weight) or not found
    assert verdicts == ({True} if (ic, size) == (1, 1) else {True, False})


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("place", [0, 39])
def test_the_bound_itself(sign: int, place: int) -> None:
    """The bound is exact in the first row and the last, of more weights than one pass reads."""
    weight = np.zeros((40, 64, 9, 9), np.int8)
    at = (place, slice(62, 64), 8, 8)
    weight[at] = 100 * sign, 28 * sign
    assert pairs_fit(weight)
    weight[at] = 100 * sign, 29 * sign
    assert not pairs_fit(weight)
    weight[place, 61:63, 8, 8] = 100 * sign, 29 * sign
    weight[place, 63, 8, 8] = 0
    assert pairs_fit(weight)  # neighbours, but of two pairs
    assert pairs_fit(np.full((1, 1, 1, 1), -128, np.int8))
    assert pairs_fit(np.zeros((0, 4, 3, 3), np.int8))


CASES = [
    (3, (1, 1, 3, 3)), (5, (2, 2, 3, 2)), (8, (1, 1, 3, 3)), (7, (1, 1, 1, 1)),
    (66, (1, 1, 1, 1)), (64, (2, 1, 3, 3)),
]  # fmt: skip


@pytest.mark.sampled(14)
@needs_pairs
@pytest.mark.parametrize("kind", sorted(RANGES))
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("channels", "rest"), CASES)
def test_every_candidate(
    channels: int, rest: tuple[int, ...], layout: str, kind: str,
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator,
) -> None:  # fmt: skip
    """AVX2's kernels and AVX-512's, at the bound, with the largest and smallest inputs."""
    batch, stride, kh, kw = rest
    low, high, dtype = RANGES[kind]
    weight = bounded(rng, (37, channels, kh, kw))
    assert pairs_fit(weight) and abs(weight.astype(int)).max() > 64
    x = rng.choice(np.array([low, low + 1, high], dtype), (batch, channels, 9, 11))
    numbers: dict[str, Any] = {
        "x_dtype": kind, "x_zero": int(rng.integers(low, high + 1)), "out_dtype": "s32",
        "offset": rng.integers(-999, 999, 37).astype(np.int32),
    }  # fmt: skip
    pad = ((kh // 2, kh // 2), (kw // 2, kw // 2))
    geometry = {"stride": (stride,) * 2, "padding": pad, "dilation": (1, 1), "groups": 1}
    case = Case(x, weight, numbers, geometry)
    monkeypatch.setattr(run, "product_permission", lambda *given: ("u8p",))
    numerics = numerics_of(kind, "u8p", "s32")
    problem = case.problem(layout, permitted=("u8p",))
    isas, tried = set(), 0
    for around in all_contexts(numerics):
        request = Request(problem, threads=around.threads)
        for candidate in few(list(every_candidate(problem, around)), 6):
            plan = force_plan(monkeypatch, request, candidate, around.isa)
            kernel = case.kernel(layout, threads=around.threads)
            got = case.run(kernel)
            np.testing.assert_array_equal(got, case.expected(), err_msg=str(describe(candidate)))
            assert kernel.plan_for(to_layout(x, layout).shape).compute == plan.compute == "u8p"
            isas.add(around.isa)
            tried += 1
    assert isas == set(usable_isas(numerics))
    assert tried >= 4


@needs_pairs
@pytest.mark.parametrize("kind", sorted(RANGES))
def test_weights_decide(
    kind: str, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Calls of one problem have plans by their weights, in whatever order they come."""
    monkeypatch.setenv("PPLCONV_MAX_ISA", "avx2")
    low, high, dtype = RANGES[kind]
    x = rng.choice(np.array([low, high], dtype), (1, 10, 10, 64))
    fits = rng.integers(-64, 65, (32, 64, 3, 3)).astype(np.int8)
    over = fits.copy()
    over[31, 62:64, 2, 2] = 127, 2
    extreme = np.full_like(fits, 127)
    kernels = []
    for weight in (fits, over, extreme, fits, extreme):
        exact = Case(
            np.moveaxis(x, 3, 1), weight,
            {"x_zero": 0, "offset": np.zeros(32, np.int32), "out_dtype": "s32"},
            {"stride": (1, 1), "padding": ((1, 1),) * 2, "dilation": (1, 1), "groups": 1},
        ).expected()  # fmt: skip
        got = pplconv.conv2d_integer(x, weight, padding=1, layout="NHWC")
        np.testing.assert_array_equal(np.moveaxis(got, 3, 1), exact)
        kernels.append(run.QuantizedKernel(
            weight, kind, 0, np.zeros(32, np.int32), "s32", padding=1, layout="NHWC", threads=1,
            algorithm="direct",  # Winograd takes words, whatever the weights
        ))  # fmt: skip
        np.testing.assert_array_equal(kernels[-1](x), got)
    computed = [kernel.plan_for(x.shape).compute for kernel in kernels]
    assert {computed[1], computed[2], computed[4]} == {"s16"}
    assert computed[0] == computed[3]
    if 2 * current().fma_rate("avx2", "u8p") > current().fma_rate("avx2", "s16"):
        assert computed[0] == "u8p"


@needs_pairs
def test_matrices_are_looked_at_too(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setenv("PPLCONV_MAX_ISA", "avx2")
    a = rng.choice(np.array([0, 255], np.uint8), (40, 129))
    for limit in (64, 127):
        b = np.full((129, 50), limit, np.int8) * rng.choice(np.array([-1, 1], np.int8), 50)
        expected = a.astype(np.int32) @ b.astype(np.int32)
        np.testing.assert_array_equal(pplconv.matmul_integer(a, b), expected)


@pytest.mark.parametrize("cap", allowed_isas())
@pytest.mark.parametrize("storage", sorted(RANGES))
def test_levels_with_products_of_four_bytes_keep_them(
    cap: str, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There, and where there are no kernels of pairs, problems do not differ by their weights."""
    monkeypatch.setenv("PPLCONV_MAX_ISA", cap)
    weight = np.ones((8, 16, 3, 3), np.int8)
    usual = integer_permission(storage, "s8", depthwise=False)
    found = product_permission(storage, weight, 1)
    alone = usable_isas(numerics_of(storage, "u8")) == ("portable",)
    assert "u8p" not in usual
    assert ("u8p" in found) == (alone and usable_isas(numerics_of(storage, "u8p")) != ())
    assert ("u8p" in found) >= (cap == "avx2")
    assert tuple(kind for kind in found if kind != "u8p") == usual
    assert found[-1] == "s16"
    assert "u8p" not in product_permission(storage, weight.astype(np.int16), 1)
    assert "u8p" not in product_permission(storage, np.full_like(weight, 65), 1)
    depthwise = product_permission(storage, np.ones((8, 1, 3, 3), np.int8), 8)
    assert depthwise[0] == f"{storage}d"
