"""Networks whose weights are pruned: results as of dense ones, and reports of plans."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from onnx import numpy_helper

import pplconv
from pplconv.network.pruning import prune_model, steps_of
from pplconv.network.session import InferenceSession
from pplconv.problem import ConvProblem
from tests.network.graphs import Graph
from tests.network.running import agree


def network(seed=0, free=False):
    """Convolutions of all kinds, normalization, a residual, products, a depthwise layer."""
    g = Graph(seed, opset=17)
    x = g.Relu(
        g.conv(g.input(2, 3, 17, 15, free=free), 32, (3, 3, 3), strides=[2, 2], pads=[1] * 4)
    )
    y = g.HardSwish(g.batch_norm(g.conv(x, 64, (32, 1, 1)), 64))
    z = g.Relu(g.conv(y, 64, (1, 3, 3), group=64, pads=[1] * 4))
    z = g.conv(z, 64, (32, 3, 3), group=2, pads=[1] * 4)
    y = g.Clip(g.Add(y, z), g.constant(0.0), g.constant(6.0))
    y = g.ConvTranspose(y, g.random(64, 16, 2, 2), g.random(16), strides=[2, 2])
    y = g.Flatten(g.GlobalAveragePool(g.conv(y, 48, (16, 5, 5))))
    y = g.Gemm(y, g.random(40, 48), g.random(40), transB=1, alpha=0.5)
    y = g.Tanh(g.MatMul(y, g.random(40, 36)))
    return g, g.Add(y, g.MatMul(y, g.random(36, 36)))


def pruned(density=0.2, width=4, **options):
    g, y = network(**options)
    model = g.model(y)
    return model, g.feed, prune_model(model, density, width)


def sessions(model, **options):
    """A session that may leave zeros out, and one that may not."""
    return [
        InferenceSession(model, threads=1, sparse=sparse, **options) for sparse in ("auto", False)
    ]


def sparse_steps(plan):
    return [step for step in plan.steps if step.leaves_zeros_out]


@pytest.mark.parametrize("width", [1, 4, 8, 16])
@pytest.mark.parametrize("density", [0.0, 0.05, 0.3])
def test_a_pruned_network_is_the_dense_one_of_its_weights(width, density):
    model, feed, _ = pruned(density, width)
    # Direct sums on both sides: layers behind Winograd's would add to its error.
    sparse, dense = sessions(model, tolerance=0)
    # With 30 % of single weights left, the planner may choose no sparse loops.
    assert sparse_steps(sparse.plan_for(feed)) or (width, density) == (1, 0.3)
    assert not sparse_steps(dense.plan_for(feed))
    agree(sparse.run(None, feed), dense.run(None, feed))


def test_all_layers_as_sparse_ones(monkeypatch):
    """Whatever the planner thinks: each layer runs by the loops that leave zeros out."""
    from pplconv.planner import estimating

    model, feed, layers = pruned(0.3)
    expected = InferenceSession(model, threads=1, sparse=False, tolerance=0).run(None, feed)
    serving = estimating.serving

    def alone(problem):
        found = serving(problem)
        return {"sparse": found["sparse"]} if "sparse" in found else found

    monkeypatch.setattr(estimating, "serving", alone)
    session = InferenceSession(model, threads=1)
    plan = session.plan_for(feed)
    assert len(sparse_steps(plan)) >= len(layers)
    agree(session.run(None, feed), expected)
    again = pickle.loads(pickle.dumps(session))
    assert again.run(None, feed)[0].tobytes() == session.run(None, feed)[0].tobytes()


def test_nothing_changes_for_dense_weights():
    g, y = network()
    model = g.model(y)
    plans = [session.plan_for(g.feed) for session in sessions(model)]
    assert plans[0] == plans[1] and str(plans[0]) == str(plans[1])
    assert "sparse" not in str(plans[0])


def test_what_is_told():
    model, feed, layers = pruned(0.1)
    session = InferenceSession(model, threads=1)
    plan = session.plan_for(feed)
    found = sparse_steps(plan)
    known = [s for s in plan.steps if s.plan is not None and s.plan.sparsity is not None]
    assert f"sparse weights: of {len(known)} steps, {len(found)} of which leave zeros out" in str(
        plan
    )
    for step in known:
        assert step.plan.predicted_gain is not None
        assert f"{step.plan.sparsity.text}" in step.detail
    assert all(step.method == "sparse" for step in found)
    timed = session.profile(feed, repeats=1)
    assert [s.method for s in timed.steps] == [s.method for s in plan.steps]
    steps = steps_of(layers, plan)
    for layer, step in zip(layers, steps, strict=True):
        assert step is not None, layer.name
        shape = ConvProblem.parse(step.plan.problem).weight_shape
        assert np.prod(shape) == np.prod(layer.shape) and shape[0] == layer.shape[0]
        if layer.operator != "Gemm":
            assert step.plan.sparsity == layer.sparsity


def test_processes_share_sparse_weights():
    model, feed, _ = pruned(0.1)
    session = InferenceSession(model, threads=1)
    y = session.run(None, feed)
    buffers = []
    sent = pickle.dumps(
        pplconv.sharing.prepared(session, threads=1), 5, buffer_callback=buffers.append
    )
    again = pickle.loads(sent, buffers=[bytes(buffer.raw()) for buffer in buffers]).model()
    assert again.run(None, feed)[0].tobytes() == y[0].tobytes()
    assert again.plan_for(feed) == session.plan_for(feed)


def test_other_shapes_use_the_same_weights():
    model, feed, _ = pruned(0.1, free=True)
    session, dense = sessions(model)
    (name,) = feed
    for size in (17, 33, 9):
        x = np.random.default_rng(size).standard_normal((1, 3, size, size)).astype(np.float32)
        agree(session.run(None, {name: x}), dense.run(None, {name: x}))


def test_infinite_weights_run_dense():
    g = Graph(5, opset=17)
    weight = g.rng.standard_normal((16, 8, 3, 3)).astype(np.float32)
    weight[:, 1:] = 0
    weight[3, 0, 1, 1] = np.inf
    x = g.input(1, 8, 9, 9)
    model = g.model(g.Conv(x, g.constant(weight), pads=[1] * 4))
    session, dense = sessions(model)
    assert not sparse_steps(session.plan_for(g.feed))
    np.testing.assert_array_equal(session.run(None, g.feed)[0], dense.run(None, g.feed)[0])


@pytest.mark.parametrize(
    ("sparse", "error"), [(True, ValueError), ("never", ValueError), (None, TypeError)]
)
def test_what_is_refused(sparse, error):
    g, y = network()
    with pytest.raises(error, match=r"\bsparse\b"):
        InferenceSession(g.model(y), sparse=sparse)


def test_quantized_networks_say_how_sparse_they_are():
    g = Graph(3, opset=17)
    x = g.input(1, 16, 9, 9)
    weight = g.rng.standard_normal((32, 16, 3, 3)).astype(np.float32)
    weight = pplconv.prune.magnitude(weight, 0.25)
    model = g.model(g.Relu(g.Conv(x, g.constant(weight), pads=[1] * 4)))
    integers = pplconv.quant.quantize_model(model, [g.feed])
    session, dense = sessions(integers)
    plan = session.plan_for(g.feed).by_operators()
    (step,) = [s for s in plan.steps if s.plan is not None and s.flops]
    assert step.plan.compute != "f32"
    assert step.plan.sparsity is not None and step.plan.sparsity.density <= 252
    np.testing.assert_array_equal(session.run(None, g.feed)[0], dense.run(None, g.feed)[0])


# Pruning of models -------------------------------------------------------------------------------


def tensors(model):
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def test_which_weights_are_pruned():
    g, y = network()
    model = g.model(y)
    before = tensors(model)
    layers = prune_model(model, 0.25, 4)
    after = tensors(model)
    assert [layer.operator for layer in layers] == [
        "Conv", "Conv", "Conv", "Conv", "Gemm", "MatMul", "MatMul",
    ]  # fmt: skip
    changed = {name for name, array in after.items() if not np.array_equal(array, before[name])}
    assert len(changed) == len(layers)
    for name in changed:
        old, new = before[name], after[name]
        assert new.dtype == old.dtype and new.shape == old.shape
        np.testing.assert_array_equal(new[new != 0], old[new != 0])
    for layer in layers:
        assert layer.sparsity.block == 4 and 240 <= layer.sparsity.density <= 262
        assert 0.5 < layer.norm < 1
    # Columns of a matrix are its output channels.
    matrix = next(array for name, array in after.items() if array.shape == (40, 36))
    expected = pplconv.prune.magnitude(
        before[next(name for name, array in after.items() if array.shape == (40, 36))].T, 0.25
    )
    np.testing.assert_array_equal(matrix.T, expected)
    groups = next(n for n, a in after.items() if a.shape == (64, 32, 3, 3))
    np.testing.assert_array_equal(
        after[groups], pplconv.prune.magnitude(before[groups], 0.25, groups=2)
    )


def test_weights_of_several_nodes_and_of_constant_nodes():
    g = Graph(1, opset=17)
    x = g.input(1, 8, 6, 6)
    w = g.random(8, 8, 3, 3)
    y = g.Conv(g.Conv(x, w, pads=[1] * 4), w, pads=[1] * 4)
    inner = numpy_helper.from_array(g.rng.standard_normal((12, 8, 1, 1)).astype(np.float32))
    y = g.Conv(y, g.Constant(value=inner))
    model = g.model(y)
    layers = prune_model(model, 0.5, 4)
    assert [layer.shape for layer in layers] == [(8, 8, 3, 3), (8, 8, 3, 3), (12, 8, 1, 1)]
    assert layers[0].sparsity == layers[1].sparsity
    assert np.count_nonzero(tensors(model)[w]) == 8 * 8 * 9 // 2
    session = InferenceSession(model, threads=1)
    assert None not in steps_of(layers, session.plan_for(g.feed))


def test_networks_without_such_weights():
    g = Graph(1, opset=17)
    x, w = g.input(1, 8, 6, 6), g.input(8, 8, 3, 3)
    y = g.conv(g.Conv(x, w), 8, (1, 3, 3), group=8)
    with pytest.raises(ValueError, match="no convolution or product by known weights"):
        prune_model(g.model(y), 0.5, 4)
