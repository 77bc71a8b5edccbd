"""Each operator as a network of one node, against ONNX's reference: convolutions, windows, rows.

Where nothing else is said, no step may run in Python.
"""

from __future__ import annotations

import cProfile
import itertools

import numpy as np
import onnx
import pytest

from pplconv.network.operators.table import ROWS
from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph
from tests.network.running import by_onnxruntime, check, needs_onnxruntime, on_host, one, referred

# Reductions that loops compute.
REDUCTIONS = sorted(op for op, row in ROWS.items() if op.startswith("Reduce") and row.loops)

both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])


# Convolutions


CONV = [
    {},
    {"pads": [1, 1, 1, 1]},
    {"pads": [0, 1, 2, 0]},
    {"strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"strides": [1, 2]},
    {"dilations": [2, 1], "pads": [2, 0, 2, 0]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"auto_pad": "SAME_LOWER"},
    {"auto_pad": "VALID"},
]


@both_types
@pytest.mark.parametrize("attributes", CONV, ids=str)
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_conv(attributes, groups, dtype, g):
    x = g.input(2, 6, 9, 8)
    one(g, g.Conv(x, g.random(12, 6 // groups, 3, 3), g.random(12), group=groups, **attributes))


@both_types
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (2, 2), (7, 7)])
def test_conv_kernels(shape, dtype, g):
    one(g, g.Conv(g.input(1, 5, 9, 8), g.random(7, 5, *shape)))


@both_types
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("kernel", "channels"), [(1, 1), (3, 1), (3, 2), (1, 4)])
def test_conv_of_a_part_of_the_channels_into_a_part(kernel, channels, stride, dtype, g):
    x = g.MaxPool(g.input(1, 5, 6, 7), kernel_shape=[1, 1])
    a, b = g.Split(x, g.constant([1, 4], np.int64), axis=1, outputs=2)
    w = g.random(channels, 1, kernel, kernel)
    y, z = (g.Conv(part, w, strides=[stride] * 2) for part in (a, g.Slice(b, *(
        g.constant([i], np.int64) for i in (1, 2, 1)
    ))))  # fmt: skip
    one(g, g.Relu(g.Concat(y, z, axis=1)))


@needs_onnxruntime
def test_conv_transposes_that_share_weights(g):
    """What is packed for one stride is not taken for another."""
    x, w = g.input(1, 3, 5, 5), g.random(3, 3, 4, 4)
    once = g.ConvTranspose(x, w, pads=[1, 1, 1, 1])
    twice = g.ConvTranspose(x, w, strides=[2, 2])
    one(g, once, twice, g.ConvTranspose(x, w, strides=[2, 2], dilations=[2, 1]),
        expected=by_onnxruntime)  # fmt: skip


def test_conv_in_half_precision():
    g = Graph(3, dtype=np.float16)
    w, b = g.random(9, 5, 3, 3), g.random(9)
    one(g, g.Conv(g.input(1, 5, 8, 8), w, b, pads=[1, 1, 1, 1]))


@pytest.mark.parametrize("size", [(9,), (6, 6), (5, 6, 5)])
def test_conv_with_weights_that_are_inputs(size, g):
    one(g, g.Conv(g.input(1, 4, *size), g.input(5, 4, *[3] * len(size))))


CONV_TRANSPOSE = [
    {},
    {"strides": [2, 2]},
    {"strides": [2, 3]},
    {"strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"strides": [2, 2], "pads": [0, 1, 2, 1]},
    {"strides": [2, 2], "output_padding": [1, 1]},
    {"strides": [3, 2], "pads": [1, 1, 1, 1], "output_padding": [2, 0]},
    {"strides": [2, 2], "output_shape": [12, 11]},
    {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"dilations": [2, 2]},
    {"dilations": [1, 3], "strides": [3, 2], "pads": [0, 1, 1, 0]},
    {"strides": [6, 4]},
]


def transposed(x, w, b, groups, strides, dilations, begins, shape):
    """Scatter each input pixel, tap by tap."""
    n, ic, h, width = x.shape
    per, kernel = w.shape[1], w.shape[2:]
    # Room for what padding cuts off.
    y = np.zeros((n, per * groups, 64, 64), np.float64)
    for i, j in np.ndindex(*kernel):
        for g in range(groups):
            ics = slice(g * ic // groups, (g + 1) * ic // groups)
            part = np.einsum("nihw,io->nohw", x[:, ics], w[ics, :, i, j])
            rows = slice(i * dilations[0], i * dilations[0] + h * strides[0], strides[0])
            columns = slice(j * dilations[1], j * dilations[1] + width * strides[1], strides[1])
            y[:, g * per : (g + 1) * per, rows, columns] += part
    y = y[:, :, begins[0] : begins[0] + shape[0], begins[1] : begins[1] + shape[1]]
    return y + b[:, None, None]


@pytest.mark.sampled(116)
@both_types
@pytest.mark.parametrize(
    ("attributes", "kernel"),
    [
        *itertools.product(CONV_TRANSPOSE, [(3, 3), (4, 4), (5, 3)]),
        *(
            (attributes, (1, 2))
            for attributes in CONV_TRANSPOSE
            if not {"output_shape", "auto_pad", "pads"} & set(attributes)
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("groups", [1, 2])
def test_conv_transpose(attributes, groups, kernel, dtype, g):
    x = g.input(2, 6, 6, 5)
    w, b = g.random(6, 8 // groups, *kernel), g.random(8)
    model = g.model(g.ConvTranspose(x, w, b, group=groups, **attributes))
    strides = attributes.get("strides", [1, 1])
    dilations = attributes.get("dilations", [1, 1])
    more = attributes.get("output_padding", [0, 0])
    pads = np.reshape(attributes.get("pads", [0, 0, 0, 0]), (2, 2))
    full = [
        s * (n - 1) + o + (k - 1) * d + 1
        for s, n, o, k, d in zip(strides, (6, 5), more, kernel, dilations, strict=True)
    ]
    shape = [n - p for n, p in zip(full, pads.sum(0), strict=True)]
    begins = list(pads[0])
    if "output_shape" in attributes or "auto_pad" in attributes:
        shape = attributes.get("output_shape") or [6 * strides[0], 5 * strides[1]]
        total = [n - m for n, m in zip(full, shape, strict=True)]
        # SAME_UPPER has the odd one at the end, what is not said has it at the beginning.
        upper = attributes.get("auto_pad") == "SAME_UPPER"
        begins = [t // 2 if upper else t - t // 2 for t in total]
    weights = [onnx.numpy_helper.to_array(t) for t in model.graph.initializer]
    expected = transposed(
        g.feed[x].astype(np.float64), *weights, groups, strides, dilations, begins, shape
    )
    check(model, g.feed, expected=lambda model, feed: [expected.astype(dtype)])


# Pools


POOL = [
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 2]},
    {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]},
    {"kernel_shape": [3, 3], "pads": [1, 0, 0, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "strides": [2, 3], "ceil_mode": 1, "pads": [1, 1, 1, 1]},
    {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1},
    {"kernel_shape": [2, 3], "dilations": [2, 2]},
    {"kernel_shape": [3, 3], "dilations": [2, 1], "pads": [2, 1, 2, 1]},
    {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]},
    {"kernel_shape": [1, 1]},
    {"kernel_shape": [9, 8]},
]


LOWER = [attributes for attributes in POOL if attributes.get("auto_pad") == "SAME_LOWER"]


@both_types
@pytest.mark.parametrize("attributes", [a for a in POOL if a not in LOWER], ids=str)
def test_max_pool(attributes, dtype, g):
    one(g, g.MaxPool(g.input(2, 5, 9, 8), **attributes))


@both_types
@needs_onnxruntime
@pytest.mark.parametrize("attributes", LOWER, ids=str)
def test_max_pool_with_more_padding_above(attributes, dtype, g):
    """The reference has another size of the output there than ONNX's text."""
    one(g, g.MaxPool(g.input(2, 5, 9, 8), **attributes), expected=by_onnxruntime)


@both_types
@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("attributes", POOL, ids=str)
def test_average_pool(attributes, include, dtype, g):
    one(g, g.AveragePool(g.input(2, 5, 9, 8), count_include_pad=include, **attributes))


def test_wide_windows_and_images(g):
    # A window or an image of a million pixels is no loop of Python.
    x = g.input(1, 1, 1, 1 << 20)
    y = g.MaxPool(x, kernel_shape=[1, 3], pads=[0, 1, 0, 1])
    z = g.MaxPool(x, kernel_shape=[1, 1 << 20])
    session = InferenceSession(g.model(y, z), threads=1)
    profile = cProfile.Profile()
    got = profile.runcall(session.run, None, g.feed)
    assert sum(entry.callcount for entry in profile.getstats()) < 1 << 18
    wide = np.pad(g.feed[x], ((0, 0), (0, 0), (0, 0), (1, 1)), constant_values=-np.inf)
    expected = np.lib.stride_tricks.sliding_window_view(wide, 3, -1).max(-1)
    np.testing.assert_array_equal(got[0], expected)
    assert got[1].item() == g.feed[x].max() and not on_host(session)


@needs_onnxruntime
def test_max_pool_with_indices(g):
    """ONNX's reference counts them by the width of the output."""
    y, indices = g.MaxPool(g.input(1, 3, 6, 6), kernel_shape=[2, 2], outputs=2)
    model = g.model(y, indices)
    model.graph.output[1].type.tensor_type.elem_type = 7
    check(model, g.feed, expected=by_onnxruntime)


# Resize


MODES = [
    {"mode": "nearest", "nearest_mode": how}
    for how in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
] + [
    {"mode": "linear"},
    {"mode": "cubic"},
    {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1},
]
WHERE = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners"]


@needs_onnxruntime
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("attributes", MODES, ids=str)
def test_resize_by_scales(attributes, where):
    for scales in ((2, 2), (3, 1), (1.5, 2.5), (0.5, 0.9), (2, 0.7)):
        g = Graph(11)
        x = g.input(2, 3, 6, 5)
        factors = g.constant([1, 1, *scales])
        y = g.Resize(x, "", factors, coordinate_transformation_mode=where, **attributes)
        one(g, y, expected=by_onnxruntime)


@pytest.mark.parametrize("dtype", [pytest.param(np.float32, marks=needs_onnxruntime), np.float64])
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_to_sizes(mode, where, dtype):
    # In double precision the reference has weights of single precision.
    double = dtype == np.float64
    options = {"allowed": 1e-5, "expected": referred} if double else {"expected": by_onnxruntime}
    for sizes in ((12, 10), (6, 9), (4, 3), (2, 5), (13, 7)):
        g = Graph(12, dtype=dtype)
        x = g.input(1, 4, 6, 5)
        y = g.Resize(
            x, "", "", g.constant([1, 4, *sizes], np.int64), mode=mode,
            coordinate_transformation_mode=where,
        )  # fmt: skip
        one(g, y, **options)


@needs_onnxruntime
@pytest.mark.parametrize("axes", [[2, 3], [3], [-1, -2]])
def test_resize_of_some_axes(axes, g):
    scales = g.constant([2.0, 1.5][: len(axes)])
    y = g.Resize(g.input(1, 3, 4, 6), "", scales, axes=axes, mode="linear")
    one(g, y, expected=by_onnxruntime)


@pytest.mark.parametrize(
    ("shape", "scales", "attributes"),
    [
        ((1, 3, 6, 6), (1, 2, 2, 2), {}),
        ((3, 6, 6), (1, 2, 2), {}),
    ],
)
def test_resize_of_channels(shape, scales, attributes, g):
    one(g, g.Resize(g.input(*shape), "", g.constant(scales), **attributes))


# Reductions and rows


AXES = [axes for n in range(1, 5) for axes in itertools.combinations(range(4), n)]


@both_types
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions(op, keep, dtype):
    for axes in AXES:
        g = Graph(15, dtype=dtype)
        x = g.input(2, 5, 4, 7)
        one(g, getattr(g, op)(x, g.constant(axes, np.int64), keepdims=keep))


@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions_of_all_and_of_nothing(op, g):
    x = g.input(3, 4, 5)
    one(g, getattr(g, op)(x), getattr(g, op)(x, g.constant([-1], np.int64)))


@pytest.mark.parametrize("shape", [(1, 1, 1), (300,), (2, 1, 9), (1, 700, 1)])
@pytest.mark.parametrize("op", ["ReduceMean", "ReduceMax", "ReduceL2"])
def test_reductions_of_odd_shapes(op, shape):
    for axis in range(len(shape)):
        g = Graph(17)
        one(g, getattr(g, op)(g.input(*shape), g.constant([axis], np.int64)))


@both_types
@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("shape", [(2, 7, 5, 6), (1, 3, 8), (2, 3, 4, 3, 2)])
def test_global_pools(op, shape, dtype, g):
    x = g.input(*shape)
    reduce = np.mean if op == "GlobalAveragePool" else np.max
    expected = reduce(g.feed[x], axis=tuple(range(2, len(shape))), keepdims=True)
    one(g, getattr(g, op)(x), expected=lambda model, feed: [expected])


@pytest.mark.parametrize("op", ["GlobalMaxPool", "GlobalAveragePool"])
@pytest.mark.parametrize("first", [0, 1])
def test_global_pools_of_one_channel_of_several(op, first, g):
    x = g.MaxPool(g.input(1, 3, 6, 7), kernel_shape=[1, 1])
    part = g.Slice(x, *(g.constant([i], np.int64) for i in (first, first + 1, 1)))
    one(g, getattr(g, op)(part), g.ReduceSum(part))


@both_types
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, -2])
def test_softmax(op, axis, dtype, g):
    one(g, getattr(g, op)(g.input(2, 5, 3, 11), axis=axis))


@both_types
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("offset", [False, True])
def test_layer_normalization(axis, offset, dtype, g):
    shape = (4, 5, 9)
    scale = g.random(*shape[axis:])
    more = (g.random(*shape[axis:]),) if offset else ()
    one(g, g.LayerNormalization(g.input(*shape), scale, *more, axis=axis, epsilon=1e-3))


@pytest.mark.parametrize("shape", [(1,), (9,), (5, 1)])
def test_layer_normalization_with_scales_that_repeat(shape, g):
    x = g.input(4, 5, 9)
    one(g, g.LayerNormalization(x, g.random(*shape), g.random(*shape), axis=1))
