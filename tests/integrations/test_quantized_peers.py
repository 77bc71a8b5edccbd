"""Quantized operators compared with onnxruntime and ``onnx.reference``, differences included.

Each engine follows a formula of its own, listed in a table of docs/quantization.md. The tests hold
each engine to its formula, bit for bit, so that the table names every difference from ours.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx
import pytest

import pplconv
from tests import quantized_reference as reference
from tests.integrations.one_node import evaluated, model_of
from tests.network.quantizing import drawn_integers, drawn_weights

pytestmark = pytest.mark.unemulated("onnxruntime crashes there when it is imported")
F32, S8, U8 = np.float32, np.int8, np.uint8


def by_onnx(op, feed, output, **attributes):
    return evaluated(model_of(op, feed, output, 21, **attributes), feed)


def by_onnxruntime(op, feed, output, **attributes):
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    # QLinearConv wants all but its first operand to be constant.
    model = model_of(op, feed, output, 21, **attributes)
    constant = {name: value for name, value in feed.items() if name not in ("x", "a")}
    del model.graph.input[1:]
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(value, name) for name, value in constant.items()
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    first = next(iter(feed))
    return session.run(None, {first: feed[first]})[0]


def scale(rng, powers, shape=()):
    exponents = rng.integers(-8, -1, shape) if powers else rng.uniform(-8, -1, shape)
    return np.exp2(exponents).astype(F32)


# The formulas -----------------------------------------------------------------------------------


def onnxruntime_outputs(sums, x, w, y, zero, dtype):
    """Follow onnxruntime: the multiplier is rounded twice, the rest is our contract."""
    with np.errstate(under="ignore"):
        multiplier = (x * w) / y
    assert multiplier.dtype == F32
    return reference.outputs(sums, reference.Output(dtype, multiplier, zero, y))


def onnx_outputs(sums, x, w, y, zero, dtype):
    """Follow ``onnx.reference``: products in float64, and rounding after the zero point."""
    multiplier = (x * w) / y
    assert multiplier.dtype == F32
    real = sums.astype(np.float64) * multiplier.astype(np.float64) + zero
    return np.rint(np.clip(real, *reference.RANGES[dtype])).astype(dtype)


def conv_case(rng, x_type, w_type, y_type, powers, per_channel, w_zero_each=False, y_zero=None):
    """Draw operands of QLinearConv in its order."""
    oc, channels = 7, 5
    feed = {
        "x": drawn_integers(rng, x_type, (2, channels, 9, 8)),
        "x_scale": scale(rng, powers),
        "x_zero_point": drawn_integers(rng, x_type),
        "w": drawn_weights(rng, w_type, (oc, channels, 3, 3)),
        "w_scale": scale(rng, powers, (oc,) if per_channel else ()),
        "w_zero_point": np.zeros((oc,) if per_channel else (), w_type),
        "y_scale": F32(0.25 if powers else 0.2),
        "y_zero_point": np.asarray(
            drawn_integers(rng, y_type) if y_zero is None else y_zero, y_type
        ),
        "bias": rng.integers(-4000, 4001, oc).astype(np.int32),
    }
    if w_zero_each:
        feed["w_zero_point"] = drawn_integers(rng, w_type, (oc,))
    elif not per_channel:
        feed["w_zero_point"] = np.asarray(drawn_integers(rng, w_type) // 4, w_type)
    return {name: np.asarray(value) for name, value in feed.items()}


GEOMETRY = {"stride": (2, 1), "padding": ((1, 0), (2, 1)), "dilation": (1, 2)}
ATTRIBUTES = {"strides": [2, 1], "pads": [1, 2, 0, 1], "dilations": [1, 2]}


def conv_sums(feed, geometry):
    sums = reference.integer_sums(
        feed["x"], feed["w"], feed["x_zero_point"], feed["w_zero_point"], **geometry
    )
    bias = feed.get("bias")
    return sums if bias is None else sums + bias.astype(np.int64)[:, None, None]


def channels(value):
    return value[:, None, None] if value.ndim else value


def numbers(feed):
    """Return the parameters of requantization: scales, zero point and type."""
    return (
        feed["x_scale"], channels(feed["w_scale"]), feed["y_scale"], int(feed["y_zero_point"]),
        str(feed["y_zero_point"].dtype),
    )  # fmt: skip


def ours(feed, **geometry):
    return pplconv.qconv2d(**feed, **geometry)


RUNTIME_TYPES = [(U8, U8), (U8, S8), (S8, S8)]
ALL_TYPES = [*RUNTIME_TYPES, (S8, U8)]


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("powers", [True, False])
@pytest.mark.parametrize(("x_type", "w_type"), RUNTIME_TYPES)
def test_qlinear_conv_of_onnxruntime(rng, x_type, w_type, powers, per_channel):
    for _ in range(5):
        feed = conv_case(rng, x_type, w_type, x_type, powers, per_channel)
        theirs = by_onnxruntime("QLinearConv", feed, x_type, **ATTRIBUTES)
        sums = conv_sums(feed, GEOMETRY)
        np.testing.assert_array_equal(theirs, onnxruntime_outputs(sums, *numbers(feed)))
        got = ours(feed, **GEOMETRY)
        x, w, y, _, dtype = numbers(feed)
        same = np.broadcast_to(reference.multiplier(x, w, y) == x * w / y, got.shape)
        assert got.dtype == dtype and (same.all() or not powers)
        np.testing.assert_array_equal(got[same], theirs[same])
        # A multiplier that is off by one unit in the last place moves only sums next to a tie.
        assert np.abs(got.astype(int) - theirs.astype(int)).max() <= 1


def test_zero_points_of_each_channel(rng):
    """Newer versions of onnxruntime have them in QLinearConv (ORT#28447), none in ConvInteger."""
    feed = conv_case(rng, U8, U8, U8, True, True, w_zero_each=True)
    expected = onnxruntime_outputs(conv_sums(feed, GEOMETRY), *numbers(feed))
    np.testing.assert_array_equal(ours(feed, **GEOMETRY), expected)
    try:
        theirs = by_onnxruntime("QLinearConv", feed, U8, **ATTRIBUTES)
    except Exception as error:
        assert "zero point of per-channel filter must be same" in str(error)
    else:
        np.testing.assert_array_equal(theirs, expected)
    integer = {name: feed[name] for name in ("x", "w", "x_zero_point", "w_zero_point")}
    with pytest.raises(Exception, match="ConvInteger"):
        by_onnxruntime("ConvInteger", integer, np.int32)


@pytest.mark.parametrize("w_zero_each", [True, False])
@pytest.mark.parametrize("powers", [True, False])
@pytest.mark.parametrize("y_type", [U8, S8])
@pytest.mark.parametrize(("x_type", "w_type"), ALL_TYPES)
def test_qlinear_conv_of_onnx(rng, x_type, w_type, y_type, powers, w_zero_each):
    for _ in range(5):
        feed = conv_case(rng, x_type, w_type, y_type, powers, True, w_zero_each)
        theirs = by_onnx("QLinearConv", {**feed, "bias": feed["bias"]}, y_type, **ATTRIBUTES)
        sums = conv_sums(feed, GEOMETRY)
        np.testing.assert_array_equal(theirs, onnx_outputs(sums, *numbers(feed)))
        got = ours(feed, **GEOMETRY)
        x, w, y, zero, _ = numbers(feed)
        differs = got != theirs
        assert np.abs(got.astype(int) - theirs.astype(int)).max() <= 1
        if powers:
            # All steps are exact here, but for rounding: the sides differ at ties alone, and only
            # with odd zero points.
            real = sums * (x.astype(float) * w / y)
            ties = np.abs(real - np.floor(real)) == 0.5
            inside = (real + zero > np.iinfo(y_type).min) & (real + zero < np.iinfo(y_type).max)
            np.testing.assert_array_equal(differs, ties & inside & bool(zero % 2))


@pytest.mark.parametrize(("zero", "differ"), [(0, False), (1, True), (2, False), (255, True)])
def test_ties_with_odd_zero_points(zero, differ):
    """We round 0.5 and 1.5 to 0 and 2; with an odd zero point added before, they become 1 and 1."""
    feed = {
        "x": np.array([1, 3, 5], U8).reshape(1, 1, 1, 3), "x_scale": F32(0.5),
        "x_zero_point": U8(0), "w": np.ones((1, 1, 1, 1), S8), "w_scale": F32(1),
        "w_zero_point": S8(0), "y_scale": F32(1), "y_zero_point": U8(zero),
    }  # fmt: skip
    feed["bias"] = np.array([-6 if zero == 255 else 0], np.int32)
    feed = {name: np.asarray(value) for name, value in feed.items()}
    sums = np.array([1, 3, 5]) + int(feed["bias"][0])
    before = [round(s / 2) + zero for s in sums]
    after = [round(s / 2 + zero) for s in sums]
    assert ours(feed).ravel().tolist() == before
    assert by_onnxruntime("QLinearConv", feed, U8).ravel().tolist() == before
    assert by_onnx("QLinearConv", feed, U8).ravel().tolist() == after
    assert (before != after) is differ


def test_sums_beyond_2_to_the_24():
    """Beyond 2**24 float32 rounds some sums to ties, which float64 does not."""
    oc = np.arange(-3, 4)
    feed = {
        "x": np.ones((1, 1, 1, 1), U8), "x_scale": F32(1), "x_zero_point": U8(1),
        "w": np.ones((7, 1, 1, 1), S8), "w_scale": F32(1), "w_zero_point": S8(0),
        "y_scale": F32(2**18), "y_zero_point": U8(0),
    }  # fmt: skip
    # Halfway between two outputs, give or take a few: 64.5 * 2**18 is beyond 2**24.
    feed["bias"] = (64 * 2**18 + 2**17 + oc).astype(np.int32)
    feed = {name: np.asarray(value) for name, value in feed.items()}
    exact = [64, 64, 64, 64, 65, 65, 65]
    # 16908288 + 1 is rounded to 16908288 in float32: a tie again, which goes to 64.
    single = [64, 64, 64, 64, 64, 65, 65]
    assert by_onnx("QLinearConv", feed, U8).ravel().tolist() == exact
    assert by_onnxruntime("QLinearConv", feed, U8).ravel().tolist() == single
    assert ours(feed).ravel().tolist() == single


def test_the_multiplier_of_onnxruntime_is_rounded_twice(rng):
    """With some scales, a sum is a tie for one multiplier and none for the other."""
    found = 0
    for _ in range(2000):
        x, w, y = rng.uniform(0.01, 1, 3).astype(F32)
        once, twice = reference.multiplier(x, w, y), x * w / y
        if once == twice:
            continue
        feed = {
            "x": np.ones((1, 1, 1, 1), U8), "x_scale": x, "x_zero_point": U8(1),
            "w": np.ones((4096, 1, 1, 1), S8), "w_scale": w, "w_zero_point": S8(0), "y_scale": y,
            "y_zero_point": U8(0), "bias": np.arange(4096, dtype=np.int32),
        }  # fmt: skip
        sums = np.arange(4096)
        mine = reference.outputs(sums, reference.Output("uint8", once))
        other = reference.outputs(sums, reference.Output("uint8", twice))
        if (mine == other).all():
            continue
        feed = {name: np.asarray(value) for name, value in feed.items()}
        np.testing.assert_array_equal(ours(feed).ravel(), mine)
        np.testing.assert_array_equal(by_onnxruntime("QLinearConv", feed, U8).ravel(), other)
        np.testing.assert_array_equal(
            by_onnx("QLinearConv", feed, U8).ravel() != mine, mine != other
        )
        found += 1
        if found == 3:
            return
    pytest.fail("no such scales were drawn")


def test_tflite_rounds_twice():
    """The example of tensorflow#25087: 7984 times 0.00144... is 11.499."""
    value, quantized, shift = 7984, 1583594044, 9
    exact = value * quantized / 2**31 / 2**shift
    assert 11.49 < exact < 11.5
    high = (value * quantized + 2**30) >> 31  # the doubled high half, rounded
    assert (high + 2 ** (shift - 1)) >> shift == 12
    y = pplconv.qconv2d(
        np.ones((1, 1, 1), U8), F32(quantized / 2**31 / 2**shift), 1, np.ones((1, 1, 1, 1), S8),
        1.0, 0, 1.0, U8(0), np.array([value], np.int32),
    )  # fmt: skip
    assert y[0, 0, 0] == 11


@pytest.mark.parametrize(("x_type", "w_type"), ALL_TYPES)
def test_conv_integer(rng, x_type, w_type):
    """All engines agree; onnxruntime lacks some types."""
    feed = {
        "x": drawn_integers(rng, x_type, (2, 4, 8, 9)),
        "w": drawn_weights(rng, w_type, (6, 2, 3, 2)),
        "x_zero_point": np.asarray(drawn_integers(rng, x_type)),
        "w_zero_point": np.asarray(drawn_integers(rng, w_type)),
    }
    geometry, attributes = {**GEOMETRY, "groups": 2}, {**ATTRIBUTES, "group": 2}
    got = pplconv.conv2d_integer(**feed, **geometry)
    np.testing.assert_array_equal(got, conv_sums(feed, geometry))
    np.testing.assert_array_equal(got, by_onnx("ConvInteger", feed, np.int32, **attributes))
    if (x_type, w_type) in RUNTIME_TYPES:
        theirs = by_onnxruntime("ConvInteger", feed, np.int32, **attributes)
        np.testing.assert_array_equal(got, theirs)
    feed["w_zero_point"] = drawn_integers(rng, w_type, (6,))
    got = pplconv.conv2d_integer(**feed, **geometry)
    np.testing.assert_array_equal(got, by_onnx("ConvInteger", feed, np.int32, **attributes))


@pytest.mark.parametrize(("a_type", "b_type"), ALL_TYPES)
@pytest.mark.parametrize(
    "shapes", [((5, 9), (9, 7)), ((3, 5, 9), (9, 7)), ((2, 1, 5, 9), (3, 9, 7))]
)
def test_matmul_integer(rng, shapes, a_type, b_type):
    feed = {
        "a": drawn_integers(rng, a_type, shapes[0]),
        "b": drawn_weights(rng, b_type, shapes[1]),
        "a_zero_point": np.asarray(drawn_integers(rng, a_type)),
        "b_zero_point": np.asarray(drawn_integers(rng, b_type)),
    }
    for each in (False, True):
        if each:
            feed["b_zero_point"] = drawn_integers(
                rng, b_type, (7,) if len(shapes[1]) == 2 else (*shapes[1][:-2], 1, 7)
            )
        got = pplconv.matmul_integer(**feed)
        np.testing.assert_array_equal(got, by_onnx("MatMulInteger", feed, np.int32))
        np.testing.assert_array_equal(got, by_onnxruntime("MatMulInteger", feed, np.int32))


def test_zero_points_of_each_row(rng):
    feed = {
        "a": drawn_integers(rng, U8, (4, 9)), "b": drawn_weights(rng, S8, (9, 7)),
        "a_zero_point": drawn_integers(rng, U8, (4,)),
    }  # fmt: skip
    full = {**feed, "a_zero_point": feed["a_zero_point"].reshape(4, 1)}
    got = pplconv.matmul_integer(**feed)
    np.testing.assert_array_equal(got, pplconv.matmul_integer(**full))
    np.testing.assert_array_equal(got, by_onnx("MatMulInteger", full, np.int32))
    with pytest.raises(ValueError, match="broadcast"):
        by_onnx("MatMulInteger", feed, np.int32)
    for refused in (feed, full):
        with pytest.raises(Exception, match=r"Mat[Mm]ulInteger"):
            by_onnxruntime("MatMulInteger", refused, np.int32)


@pytest.mark.parametrize(("a_type", "b_type"), RUNTIME_TYPES)
@pytest.mark.parametrize("powers", [True, False])
@pytest.mark.parametrize("each", [True, False])
def test_qlinear_matmul(rng, each, powers, a_type, b_type):
    for shapes in (((5, 9), (9, 7)), ((3, 5, 9), (9, 7))):
        feed = {
            "a": drawn_integers(rng, a_type, shapes[0]), "a_scale": scale(rng, powers),
            "a_zero_point": drawn_integers(rng, a_type), "b": drawn_weights(rng, b_type, shapes[1]),
            "b_scale": scale(rng, powers, (7,) if each else ()),
            "b_zero_point": np.zeros((7,) if each else (), b_type),
            "y_scale": F32(0.25 if powers else 0.3), "y_zero_point": drawn_integers(rng, a_type),
        }  # fmt: skip
        feed = {name: np.asarray(value) for name, value in feed.items()}
        moved = [feed[n].astype(np.int64) - feed[f"{n}_zero_point"] for n in ("a", "b")]
        sums, zero = np.matmul(*moved), int(feed["y_zero_point"])
        rest = (feed["a_scale"], feed["b_scale"], feed["y_scale"], zero, str(np.dtype(a_type)))
        run = partial(by_onnxruntime, "QLinearMatMul", feed, a_type)
        np.testing.assert_array_equal(run(), onnxruntime_outputs(sums, *rest))
        np.testing.assert_array_equal(
            by_onnx("QLinearMatMul", feed, a_type), onnx_outputs(sums, *rest)
        )
        got = pplconv.qmatmul(**feed)
        multiplier = reference.multiplier(*rest[:3])
        expected = reference.outputs(sums, reference.Output(rest[4], multiplier, zero, rest[2]))
        np.testing.assert_array_equal(got, expected)
        if powers:
            np.testing.assert_array_equal(got, run())
