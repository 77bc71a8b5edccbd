"""`Chain`: the results of its layers, band by band, whatever the types and the layout."""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pplconv
from benchmarks.forced_bands import COSTS, no_costs
from tests.network import forced_bands
from tests.reference import conv2d_reference

pytestmark = pytest.mark.unbanded("chooses its own bands")

TYPES = [np.float32, np.float64, np.float16, "bfloat16"]


def conv(
    rng: np.random.Generator,
    ic: int,
    oc: int,
    k: int,
    dtype: object = np.float32,
    **options: object,
) -> pplconv.Conv2d:
    groups = int(options.get("groups", 1))  # type: ignore[call-overload]
    w = rng.standard_normal((oc, ic // groups, k, k)) / np.sqrt(ic // groups * k * k)
    given = {"padding": k // 2, "layout": "NHWC", **options}
    return pplconv.Conv2d(w.astype(dtype), rng.standard_normal(oc).astype(dtype), **given)


def quantized(
    rng: np.random.Generator, ic: int, oc: int, k: int, out_dtype: object, groups: int = 1
) -> pplconv.QConv2d:
    scales = {"x_scale": 0.02, "x_zero_point": 3, "w_scale": rng.random(oc) * 0.01 + 0.001}
    if out_dtype == np.uint8:
        scales |= {"y_scale": 0.05, "y_zero_point": 7}
    w = rng.integers(-90, 90, (oc, ic // groups, k, k)).astype(np.int8)
    return pplconv.QConv2d(
        w, rng.standard_normal(oc).astype(np.float32), padding=k // 2, groups=groups,
        layout="NHWC", out_dtype=out_dtype, w_zero_point=2, **scales,
    )  # fmt: skip


def mixed(rng: np.random.Generator, dtype: object, layout: str = "NHWC") -> list[pplconv.Conv2d]:
    """An inverted residual, a layer with a stride, and one for Winograd."""
    of = {"dtype": dtype, "layout": layout}
    return [
        conv(rng, 8, 24, 1, activation="relu6", **of),
        conv(rng, 24, 24, 3, groups=24, activation="hardswish", **of),
        conv(rng, 24, 16, 1, **of),
        conv(rng, 16, 16, 3, stride=2, activation=("prelu", rng.random(16)), **of),
        conv(rng, 16, 16, 3, activation=("leaky_relu", 0.1), **of),
    ]


def one_by_one(layers: object, x: np.ndarray) -> np.ndarray:
    for layer in layers:  # type: ignore[attr-defined]
        x = layer(x)
    return x


def programs(chain: pplconv.Chain, shape: tuple[int, ...]) -> list[object]:
    return list(chain._prepared(shape).programs)


def turns(chain: pplconv.Chain, shape: tuple[int, ...]) -> int:
    return max(step.turns for step in chain.plan_for(shape).steps)


def data(rng: np.random.Generator, shape: tuple[int, ...], dtype: object) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


@pytest.fixture(params=[0, 3, 4])
def bands(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    if request.param:
        forced_bands.force(monkeypatch, request.param)
    else:
        monkeypatch.setattr(COSTS, no_costs)
    return int(request.param)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("dtype", TYPES)
def test_bits_are_those_of_the_layers(bands: int, dtype: object, batch: int) -> None:
    if dtype == "bfloat16":
        import ml_dtypes

        dtype = ml_dtypes.bfloat16
    rng = np.random.default_rng(1)
    layers = mixed(rng, dtype)
    chain, x = pplconv.Chain(layers, threads=2), data(rng, (batch, 41, 23, 8), dtype)
    y = chain(x)
    expected = one_by_one(layers, x)
    assert y.dtype == expected.dtype and y.shape == expected.shape
    assert y.tobytes() == expected.tobytes()
    assert all(program is not None for program in programs(chain, x.shape))
    residual = pplconv.Chain(layers[:3], threads=2)
    assert residual(x).tobytes() == one_by_one(layers[:3], x).tobytes()
    assert (turns(residual, x.shape) > 1) == (bands > 0)


def test_sums_are_those_of_float64(bands: int) -> None:
    rng = np.random.default_rng(2)
    layers = [conv(rng, 4, 8, 3, activation="relu"), conv(rng, 8, 8, 3, groups=8, stride=2)]
    x = data(rng, (1, 40, 31, 4), np.float32)
    y = x.astype(np.float64)
    for layer, activation in zip(layers, ("relu", None), strict=True):
        wide = layer.weight.astype(np.float64), layer.bias.astype(np.float64)
        y = conv2d_reference(
            y, *wide, layer.stride, layer.padding, layer.dilation, layer.groups,
            activation=activation, layout="NHWC",
        )  # fmt: skip
    np.testing.assert_allclose(pplconv.Chain(layers)(x), y, rtol=1e-4, atol=1e-5)


def test_bytes_are_those_of_the_layers(bands: int) -> None:
    rng = np.random.default_rng(3)
    layers = [
        quantized(rng, 8, 16, 1, np.uint8), quantized(rng, 16, 16, 3, np.uint8, groups=16),
        quantized(rng, 16, 16, 3, np.float32), conv(rng, 16, 8, 3),
    ]  # fmt: skip
    chain = pplconv.Chain(layers)
    x = rng.integers(0, 256, (1, 37, 20, 8), np.uint8)
    np.testing.assert_array_equal(chain(x), one_by_one(layers, x))
    assert (chain.dtype, chain.out_dtype) == (np.uint8, np.float32)
    (program,) = programs(chain, x.shape)
    assert program is not None
    assert bool(chain.plan_for(x.shape).groups) == (bands > 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_planes_are_those_of_the_layers(dtype: object) -> None:
    rng = np.random.default_rng(4)
    layers = mixed(rng, dtype, "NCHW")
    chain, x = pplconv.Chain(layers), data(rng, (2, 8, 25, 23), dtype)
    assert chain(x).tobytes() == one_by_one(layers, x).tobytes()
    assert programs(chain, x.shape) != [None]


def test_layers_that_run_alone() -> None:
    rng = np.random.default_rng(5)
    odd = rng.standard_normal((8, 8, 2, 2)).astype(np.float32)
    infinite = np.full((8, 8, 1, 1), np.inf, np.float32)
    layers = [
        conv(rng, 8, 8, 3), conv(rng, 8, 8, 1), conv(rng, 8, 8, 3, padding_mode="reflect"),
        pplconv.ConvTranspose2d(odd, stride=2, layout="NHWC"), conv(rng, 8, 8, 3, dilation=2),
        conv(rng, 8, 8, 1, precision="low"), pplconv.Conv2d(infinite, padding=1, layout="NHWC"),
    ]  # fmt: skip
    chain, x = pplconv.Chain(layers), data(rng, (1, 12, 11, 8), np.float32)
    np.testing.assert_array_equal(chain(x), one_by_one(layers, x))
    assert len(programs(chain, x.shape)) == 6
    kinds = [step.kind for step in chain.plan_for(x.shape).steps]
    assert kinds.count("ConvTranspose2d") == 1


def test_out_batches_and_namespaces() -> None:
    rng = np.random.default_rng(6)
    layers = [conv(rng, 4, 6, 3), conv(rng, 6, 5, 1)]
    chain, x = pplconv.Chain(layers), data(rng, (9, 8, 4), np.float32)
    expected = one_by_one(layers, x)
    assert chain(x).shape == (9, 8, 5)
    out = np.full((9, 8, 5), np.nan, np.float32)
    assert chain(x, out=out) is out
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(chain(x[:, ::-1]), one_by_one(layers, x[:, ::-1]))
    assert chain(x[None][:0]).shape == (0, 9, 8, 5)
    np.testing.assert_array_equal(chain(x.tolist()), expected)


def test_it_is_a_sequence_and_takes_chains() -> None:
    rng = np.random.default_rng(7)
    first, second, third = (conv(rng, 4, 4, 3) for _ in range(3))
    chain = pplconv.Chain([pplconv.Chain([first, second]), third])
    assert list(chain) == [first, second, third] == list(chain.layers)
    assert (len(chain), chain[1], chain.layout) == (3, second, "NHWC")
    assert (chain.in_channels, chain.out_channels) == (4, 4)
    assert repr(chain).startswith("Chain(\n  (0): Conv2d(") and "threads=None" in repr(chain)


def test_pickles_and_threads() -> None:
    rng = np.random.default_rng(8)
    layers = mixed(rng, np.float32)
    chain = pickle.loads(pickle.dumps(pplconv.Chain(layers, threads=2)))
    inputs = [data(rng, (1, 12 + n % 3, 10, 8), np.float32) for n in range(12)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(chain, inputs))
    for x, y in zip(inputs, results, strict=True):
        np.testing.assert_array_equal(y, one_by_one(layers, x))


def test_scopes_have_programs_of_their_own() -> None:
    rng = np.random.default_rng(9)
    layers = mixed(rng, np.float32)
    chain, x = pplconv.Chain(layers), data(rng, (1, 12, 10, 8), np.float32)
    chain(x)
    with pplconv.runtime.tolerance(0):
        np.testing.assert_array_equal(chain(x), one_by_one(layers, x))
        plans = [step.plan for step in chain.plan_for(x.shape).steps]
        assert len(plans) == len(layers) and None not in plans
        assert all(plan.error_bound is not None and not plan.transforms for plan in plans)


def test_max_workspace_counts(bands: int) -> None:
    rng = np.random.default_rng(10)
    shape = (1, 64, 32, 8)
    layers = [conv(rng, 8, 64, 1), conv(rng, 64, 64, 3, groups=64), conv(rng, 64, 8, 1)]
    plan = pplconv.Chain(layers).plan_for(shape)
    used = plan.arena_bytes + plan.scratch_bytes
    assert (used < 64 * 32 * 64 * 4 * 2) == (bands > 0)  # two images between the layers
    pplconv.Chain(layers, max_workspace=used, input_shape=shape)
    with pytest.raises(ValueError, match="max_workspace of 1000 bytes is too little"):
        pplconv.Chain(layers, max_workspace=1000)(np.zeros(shape, np.float32))


def test_mapped_files(tmp_path: object) -> None:
    rng = np.random.default_rng(11)
    layers = [conv(rng, 4, 4, 3), conv(rng, 4, 4, 3)]
    shape = (1, 50, 20, 4)
    x, y = (
        np.memmap(f"{tmp_path}/{name}", np.float32, "w+", shape=shape) for name in ("x", "y")
    )  # fmt: skip
    x[:] = data(rng, shape, np.float32)
    assert pplconv.Chain(layers)(x, out=y) is y
    np.testing.assert_array_equal(y, one_by_one(layers, np.array(x)))


@pytest.mark.parametrize(
    ("layers", "error", "message"),
    [
        ([], ValueError, "layers must have one layer or more"),
        (3, TypeError, "layers must be a sequence of layers, got int"),
        (["a"], TypeError, r"layers\[0\] must be a Conv2d, .* got str"),
        ([(4, 4, {}), (5, 4, {})], ValueError, r"layers\[1\] must take the 4 channels that lay"),
        ([(4, 4, {}), (4, 4, {"layout": "NCHW"})], ValueError, r"layers\[1\] must have layout NH"),
        ([(4, 4, {}), (4, 4, {"dtype": np.float64})], TypeError, r"layers\[1\] must take float32"),
    ],
)
def test_layers_that_do_not_fit(layers: object, error: type[Exception], message: str) -> None:
    rng = np.random.default_rng(0)
    if isinstance(layers, list):
        layers = [conv(rng, *x[:2], 3, **x[2]) if len(x) > 1 else x for x in layers]
    with pytest.raises(error, match=message):
        pplconv.Chain(layers)  # type: ignore[arg-type]


def test_inputs_that_do_not_fit() -> None:
    rng = np.random.default_rng(0)
    chain = pplconv.Chain([conv(rng, 4, 4, 3), conv(rng, 4, 4, 9, padding=0)])
    x = np.zeros((1, 12, 12, 4), np.float32)
    out = np.full((1, 3, 4, 4), 7, np.float32)
    for wrong, error, message in (
        (np.zeros((1, 12, 12, 5), np.float32), ValueError, "^input must have 4 channels"),
        (np.zeros((12, 4), np.float32), ValueError, "^input must have 3 or 4 dimensions"),
        (x.astype(np.float64), TypeError, "^input must be float32 like the layers, got float64"),
        (np.zeros((1, 5, 5, 4), np.float32), ValueError, r"^layers\[1\].weight: the kernel spans"),
    ):
        with pytest.raises(error, match=message):
            chain(wrong, out=out)
    with pytest.raises(ValueError, match=r"^out must have shape"):
        chain(x, out=out)
    assert (out == 7).all()
    with pytest.raises(ValueError, match=r"^input_shape must have 4 channels"):
        chain.plan_for((1, 12, 12, 5))


def test_it_needs_no_onnx() -> None:
    code = """
import sys
for name in ("onnx", "onnx_ir"):
    sys.modules[name] = None
import numpy as np, pplconv
w = np.ones((4, 4, 3, 3), np.float32)
layers = [pplconv.Conv2d(w, padding=1, layout="NHWC") for _ in range(2)]
chain = pplconv.Chain(layers)
print(chain(np.ones((1, 3, 3, 4), np.float32))[0, 1, 1, 0], chain.plan_for((3, 3, 4)).times)
"""
    found = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    # The middle adds up 4 channels of sums at corners, edges and the middle.
    assert found.stdout.split() == [str(4.0 * 4 * (4 * 4 + 4 * 6 + 9)), "1"], found.stderr


@pytest.mark.parametrize("quantize", [False, True])
@pytest.mark.parametrize("own", [None, 1, 2])
def test_the_team_is_that_of_the_chain(quantize: bool, own: int | None) -> None:
    """Whatever the teams of the layers; few operations take one thread, under any cap."""
    rng = np.random.default_rng(12)
    for channels, shape, few in ((64, (1, 64, 64, 64), False), (4, (1, 1, 1, 4), True)):
        if quantize:
            layers = [quantized(rng, channels, channels, 3, np.uint8) for _ in range(2)]
        else:
            layers = [conv(rng, channels, channels, 3, threads=own) for _ in range(2)]
        for threads in (1, 2):
            (program,) = programs(pplconv.Chain(layers, threads=threads), shape)
            assert program.program.threads == (1 if few else threads)  # type: ignore[attr-defined]


def test_a_team_around_a_call_ends_with_its_block() -> None:
    rng = np.random.default_rng(13)
    layers = [conv(rng, 64, 64, 3) for _ in range(2)]
    chain, x = pplconv.Chain(layers, threads=2), data(rng, (1, 64, 64, 64), np.float32)
    with pplconv.runtime.team(1):
        inside = chain(x)
    np.testing.assert_array_equal(chain(x), inside)
    plans = [step.plan for step in chain.plan_for(x.shape).steps]
    assert max(plan.threads for plan in plans if plan is not None) == 2
