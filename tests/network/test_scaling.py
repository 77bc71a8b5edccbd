"""Weights that are scaled when they are packed."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import onnx_ir as ir
import pytest

from pplconv.network.channel_affine import Affine, Weights, after, before
from pplconv.network.scaling import ScaledTensor, scaled, stays_finite
from pplconv.network.session import InferenceSession


@pytest.mark.parametrize("group", [1, 4])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("where", [after, before])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("sizes", [(64, 160), (128, 640)])
def test_the_bits_are_those_of_whole_arrays(where, transposed, group, dtype, sizes, rng):
    """At once or later, in blocks or not, products and sums are made and rounded the same way."""
    rows, columns = sizes
    w = rng.standard_normal((rows, columns // group, 3, 3)).astype(dtype)
    weights = Weights(ir.Tensor(w), None, group, transposed)
    bias = rng.standard_normal(weights.channels).astype(dtype)
    weights = weights._replace(bias=bias)
    count = weights.channels if where is after else weights.input_channels
    scale, offset = rng.standard_normal((2, count))
    if transposed and where is before:
        offset[:] = 0
    found = where(weights, Affine(scale, offset))
    # The dimensions as (group, output channels, input channels, kh, kw).
    axes = (0, 2, 1, 3, 4) if transposed else (0, 1, 2, 3, 4)
    parts = w.reshape(group, rows // group, columns // group, 3, 3).transpose(axes)
    factors = scale.reshape(group, *((-1, 1) if where is after else (1, -1)), 1, 1)
    want = (parts.astype(np.float64) * factors).astype(dtype).transpose(axes).reshape(w.shape)
    np.testing.assert_array_equal(found.tensor.numpy(), want)
    if where is after:
        sums = offset + bias * scale
    else:
        shifted = parts.astype(np.float64) * offset.reshape(group, 1, -1, 1, 1)
        sums = bias + shifted.sum(axis=(2, 3, 4)).reshape(-1)
    if dtype != np.float64:
        np.testing.assert_array_equal(found.bias, sums.astype(dtype))
    np.testing.assert_allclose(found.bias, sums, rtol=1e-2, atol=1e-3)
    assert isinstance(found.tensor, ScaledTensor) == (w.nbytes >= 1 << 16)


def test_an_array_is_the_same_while_somebody_has_it(rng):
    w = rng.standard_normal((300, 400)).astype(np.float32)
    tensor = scaled(ir.Tensor(w), np.full((300, 1), 0.5))
    assert isinstance(tensor, ScaledTensor) and tensor.source.numpy() is w
    first = tensor.numpy()
    assert tensor.numpy() is first and not first.flags.writeable
    assert tensor.tobytes() == (w / 2).tobytes()
    twice = scaled(tensor, np.full((1, 400), 3.0))
    np.testing.assert_array_equal(twice.numpy(), w / 2 * 3)
    del first
    gc.collect()
    assert tensor._found() is None
    np.testing.assert_array_equal(tensor.numpy(), w / 2)


@pytest.mark.parametrize(("factor", "fits"), [(2.0, True), (1e39, False), (np.nan, False)])
def test_what_does_not_stay_finite(factor, fits):
    w = np.ones((300, 40), np.float32)
    w[200, 7] = 1e38
    factors = np.ones((300, 1))
    factors[200] = factor
    assert stays_finite(ir.Tensor(w), factors) == fits
    w[3] = np.inf
    assert not stays_finite(ir.Tensor(w), factors)


def test_scaled_once_for_all_shapes(rng, monkeypatch, g):
    """Other shapes take the packed weights that fit them, and pickles have the scaled ones."""
    x = g.input(1, 64, 8, 8, free=True)
    y = g.Conv(x, g.random(128, 64, 1, 1))
    y = g.Relu(g.BatchNormalization(y, *(g.positive(128) for _ in range(4))))
    y = g.conv(y, 300, (128, 1, 1))
    model = g.model(g.BatchNormalization(y, *(g.positive(300) for _ in range(4))))
    computed = []
    numpy = ScaledTensor.numpy
    monkeypatch.setattr(
        ScaledTensor, "numpy", lambda self: (computed.append(self.shape[0]), numpy(self))[1]
    )
    session = InferenceSession(model, threads=1)
    computed.clear()
    (want,) = session.run(None, g.feed)
    assert computed == [300]
    session.run(None, {"x1": np.ones((1, 64, 9, 9), np.float32)})
    # Once for each way to pack them: a plan for another shape may have panels of another width.
    packings = sum(
        isinstance(kept.constant, ScaledTensor) for kept in session._network.shared.packed.values()
    )
    assert computed == [300] * packings
    (found,) = pickle.loads(pickle.dumps(session)).run(None, g.feed)
    np.testing.assert_array_equal(found, want)
