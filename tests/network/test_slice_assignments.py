"""``data[start:end] = v`` with computed bounds, as exporters spell it, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from pplconv.network.session import InferenceSession
from tests.network.models import graph_of, model_of
from tests.network.running import by_onnxruntime, needs_onnxruntime, on_host

RULE = "slice assignment"
INTS = {"one": [1], "zero": [0]}


def bounds(kind: Any = np.int64) -> list[onnx.NodeProto]:
    """`start` and `end` of an input of two floating-point numbers."""
    to = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    return [
        helper.make_node("Cast", ["numbers"], ["whole"], to=to),
        helper.make_node("Split", ["whole"], ["start", "end"], axis=0, num_outputs=2),
    ]


def assigned(
    shape: tuple[int, ...],
    axis: int,
    *,
    operator: str = "ScatterElements",
    data: str = "data",
    result: str = "y",
    changed: dict[str, Any] | None = None,
) -> tuple[list[onnx.NodeProto], dict[str, Any]]:
    """The nodes of an assignment, and their constants; `changed` replaces operands by name."""
    own = {"step": "one", "range start": "start", "range end": "end", "repeats": "one",
           "axis": "axis", "of": data, "reduction": "none", **(changed or {})}  # fmt: skip
    rank = len(shape)
    make = helper.make_node
    nodes = [
        make("Slice", [own["of"], "start", "end", own["axis"], own["step"]], ["piece"]),
        make("Shape", ["piece"], ["sizes"]),
        make("Expand", ["v", "sizes"], ["updates"]),
        make("Squeeze", [own["range start"]], ["first"]),
        make("Squeeze", [own["range end"]], ["last"]),
        make("Squeeze", [own["step"]], ["stride"]),
        make("Range", ["first", "last", "stride"], ["count"]),
    ]
    constants: dict[str, Any] = {
        "axis": [axis], "axis + 1": [axis + 1], "rank": [rank], "two": [2], "other axis": [0]
    }  # fmt: skip
    if operator == "ScatterND":
        constants["column"] = [-1, 1]
        nodes += [
            make("Reshape", ["count", "column"], ["places"]),
            make("ScatterND", [data, "places", "updates"], [result]),
        ]
    else:
        constants["along"] = [-1 if other == axis else 1 for other in range(rank)]
        nodes += [
            make("Reshape", ["count", "along"], ["column"]),
            make("Slice", ["sizes", "zero", "axis"], ["before"]),
            make("Slice", ["sizes", "axis + 1", "rank"], ["behind"]),
            make("Concat", ["before", own["repeats"], "behind"], ["tiles"], axis=0),
            make("Tile", ["column", "tiles"], ["places"]),
            make("ScatterElements", [data, "places", "updates"], [result], axis=axis,
                 reduction=own["reduction"]),
        ]  # fmt: skip
    return nodes, constants


def model_for(
    nodes: list[onnx.NodeProto],
    constants: dict[str, Any],
    shape: tuple[int, ...],
    of_v: tuple[int, ...],
    dtype: Any = np.float32,
    kind: Any = np.int64,
) -> onnx.ModelProto:
    """A model of `data`, `v` and the two bounds."""
    inputs = {"data": (dtype, shape), "v": (dtype, of_v), "numbers": (np.float32, [2])}
    sizes = ("zero", "along", "column", "axis + 1", "rank", "other axis", "repeats")
    weights = {
        name: np.array(value, np.int64 if name in sizes else kind)
        for name, value in {**INTS, **constants}.items()
    }
    # Repeats and steps have different types, where bounds are of int32.
    weights["one of sizes"] = np.array([1], np.int64)
    return model_of([*bounds(kind), *nodes], inputs, weights, {"y": dtype})


def fired(session: InferenceSession) -> int:
    """How many assignments became a Where."""
    return sum(len(rules.get(RULE, ())) for _, rules in session._network.programs.values())


def written(data: np.ndarray, v: np.ndarray, axis: int, start: int, end: int) -> np.ndarray:
    """What NumPy assigns."""
    expected = data.copy()
    at = [slice(None)] * data.ndim
    at[axis] = slice(start, end)
    expected[tuple(at)] = v
    return expected


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.array(10 * rng.standard_normal(shape)).astype(dtype)


WHERE = [
    (0, 0),
    (0, 1),
    (1, 2),
    (3, 5),
    (4, 5),
    (5, 5),
    (0, 5),
    (2, 1),
    (-1, -1),
    (-3, -1),
    (-5, -4),
]


@needs_onnxruntime
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.float16, np.int64, np.int32, np.bool_]
)
@pytest.mark.parametrize(
    ("shape", "axis", "of_v"),
    [
        ((2, 5), 1, (2, 1)),
        ((1, 5), 1, (1, 1)),
        ((5, 3), 0, (1, 3)),
        ((5, 3), 0, (3,)),
        ((2, 5, 3), 1, (2, 1, 3)),
        ((2, 5, 3), 1, (1, 3)),
        ((2, 5, 3), 1, ()),
        ((2, 3, 5), 2, (3, 1)),
        ((2, 5, 3, 4), 1, (1, 1, 1, 4)),
        ((2, 3, 5, 4), 2, (2, 3, 1, 1)),
        ((5,), 0, (1,)),
    ],
)
def test_tiled_indices(shape, axis, of_v, dtype, rng):
    nodes, constants = assigned(shape, axis, changed={"repeats": "one of sizes"})
    model = model_for(nodes, constants, shape, of_v, dtype)
    session = InferenceSession(model, threads=1)
    data, v = drawn(rng, shape, dtype), drawn(rng, of_v, dtype)
    kept = data.copy()
    for start, end in WHERE:
        feed = {"data": data, "v": v, "numbers": np.array([start, end], np.float32)}
        (y,) = session.run(None, feed)
        assert y.dtype == dtype
        np.testing.assert_array_equal(y, written(data, v, axis, start, end))
        np.testing.assert_array_equal(data, kept)
        if dtype != np.float16:  # onnxruntime has no ScatterElements of it on all machines
            np.testing.assert_array_equal(y, by_onnxruntime(model, feed)[0])
    assert fired(session) == 1


@pytest.mark.parametrize("kind", [np.int64, np.int32])
@pytest.mark.parametrize(
    ("shape", "of_v"), [((5, 3), (1, 3)), ((5, 3), (3,)), ((5, 2, 3), (2, 1)), ((5,), ())]
)
def test_pairs_of_indices(shape, of_v, kind, rng):
    """As older exporters write it; indices of ScatterND are int64."""
    nodes, constants = assigned(shape, 0, operator="ScatterND")
    if kind == np.int32:
        nodes[-2:-2] = [helper.make_node("Cast", ["count"], ["wide"], to=onnx.TensorProto.INT64)]
        nodes[-2].input[0] = "wide"
    model = model_for(nodes, constants, shape, of_v, kind=kind)
    session = InferenceSession(model, threads=1)
    data, v = drawn(rng, shape, np.float32), drawn(rng, of_v, np.float32)
    for start, end in WHERE:
        feed = {"data": data, "v": v, "numbers": np.array([start, end], np.float32)}
        (y,) = session.run(None, feed)
        np.testing.assert_array_equal(y, written(data, v, 0, start, end))
    assert fired(session) == 1


@pytest.mark.parametrize(
    ("known", "to", "numbers", "start", "end"),
    [
        ("start", "zero", [7, 4], 0, 4),
        ("end", "five", [3, 9], 3, 5),
        ("start", "before the end", [7, -1], 3, 4),
        ("end", "before the end", [-5, 9], 0, 3),
    ],
)
def test_one_bound_is_known(known, to, numbers, start, end, rng):
    nodes, constants = assigned((2, 5), 1, changed={"repeats": "one of sizes"})
    for node in nodes:
        for place, name in enumerate(node.input):
            if name == known:
                node.input[place] = to
    model = model_for(nodes, {**constants, "five": [5], "before the end": [-2]}, (2, 5), (2, 1))
    session = InferenceSession(model, threads=1)
    data, v = drawn(rng, (2, 5), np.float32), drawn(rng, (2, 1), np.float32)
    feed = {"data": data, "v": v, "numbers": np.array(numbers, np.float32)}
    np.testing.assert_array_equal(session.run(None, feed)[0], written(data, v, 1, start, end))
    assert fired(session) == 1


@pytest.mark.parametrize("numbers", [(3, 9), (7, 9), (-9, 2), (-1, 0), (-2, 3), (2**40, 2**41)])
def test_bounds_for_which_the_scatter_is_undefined(numbers, rng):
    """Indices are outside of the array, or fewer than updates: what is written is inside."""
    nodes, constants = assigned((2, 5), 1, changed={"repeats": "one of sizes"})
    session = InferenceSession(model_for(nodes, constants, (2, 5), (2, 1)), threads=1)
    data, v = drawn(rng, (2, 5), np.float32), drawn(rng, (2, 1), np.float32)
    whole = np.zeros((6, 5), np.float32)
    whole[2:4] = data
    (y,) = session.run(None, {"data": whole[2:4], "v": v, "numbers": np.array(numbers, np.float32)})
    assert ((y == data) | (y == v)).all()
    np.testing.assert_array_equal(whole, np.pad(data, ((2, 2), (0, 0))))


@needs_onnxruntime
@pytest.mark.parametrize(
    ("change", "of_v"),
    [
        ({}, (2, 3)),  # as many values as the slice has
        ({"step": "two"}, (2, 1)),
        ({"axis": "other axis"}, (1, 1)),
        ({"range start": "zero"}, (2, 1)),
        ({"range end": "two"}, (2, 1)),
        ({"of": "other"}, (2, 1)),
        ({"reduction": "add"}, (2, 1)),
        ({"repeats": "two of sizes"}, (2, 1)),
    ],
)
def test_near_misses_stay(change, of_v, rng):
    change = {"repeats": "one of sizes", **change}
    nodes, constants = assigned((2, 5), 1, changed=change)
    nodes.insert(0, helper.make_node("Neg", ["data"], ["other"]))
    model = model_for(nodes, constants, (2, 5), of_v)
    tensor = onnx.numpy_helper.from_array(np.array([2], np.int64), "two of sizes")
    model.graph.initializer.append(tensor)
    session = InferenceSession(model, threads=1)
    data, v = drawn(rng, (2, 5), np.float32), drawn(rng, of_v, np.float32)
    feed = {"data": data, "v": v, "numbers": np.array([0, 3], np.float32)}
    try:
        (expected,) = by_onnxruntime(model, feed)
    except Exception:
        with pytest.raises(ValueError, match="cannot run"):
            session.run(None, feed)
    else:
        np.testing.assert_array_equal(session.run(None, feed)[0], expected)
    assert fired(session) == 0


@needs_onnxruntime
@pytest.mark.parametrize("trips", [0, 1, 4, 9])
def test_turns_of_a_loop(trips, rng):
    """``data[:, i:min(i + 1, n)] = v * i`` in each turn, whose body is one program of loops."""
    shape = (2, 5, 3)
    nodes, constants = assigned(shape, 1, data="state", result="next",
                                changed={"repeats": "one", "of": "state"})  # fmt: skip
    make = helper.make_node
    body = [
        make("Identity", ["going"], ["on"]),
        make("Reshape", ["turn", "one"], ["start"]),
        make("Add", ["start", "one"], ["after"]),
        make("Min", ["after", "five"], ["end"]),
        make("Cast", ["turn"], ["factor"], to=onnx.TensorProto.FLOAT),
        make("Mul", ["values", "factor"], ["v"]),
        *nodes,
    ]
    graph = graph_of(
        body,
        {"turn": (np.int64, []), "going": (np.bool_, []), "state": (np.float32, shape)},
        {"on": np.bool_, "next": np.float32},
    )
    loop = make("Loop", ["trips", "", "data"], ["y"], body=graph)
    weights = {**INTS, **constants, "five": [5]}
    model = model_of(
        [loop],
        {"data": (np.float32, shape), "values": (np.float32, (2, 1, 3)), "trips": (np.int64, [])},
        {name: np.array(value, np.int64) for name, value in weights.items()},
        {"y": np.float32},
    )
    session = InferenceSession(model, threads=1)
    data, values = drawn(rng, shape, np.float32), drawn(rng, (2, 1, 3), np.float32)
    feed = {"data": data, "values": values, "trips": np.array(trips)}
    (y,) = session.run(None, feed)
    expected = data.copy()
    for turn in range(min(trips, 5)):
        expected[:, turn : turn + 1] = values * turn
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(y, by_onnxruntime(model, feed)[0])
    ((program, _),) = session._network.programs.values()
    for body in program.bodies:
        for turn, rules in body.programs.values():
            assert len(rules[RULE]) == 1
            assert not any(step.host for step in turn.steps)


def test_nothing_runs_in_python(rng):
    nodes, constants = assigned((2, 5, 3), 1, changed={"repeats": "one of sizes"})
    session = InferenceSession(model_for(nodes, constants, (2, 5, 3), (2, 1, 3)), threads=1)
    data, v = drawn(rng, (2, 5, 3), np.float32), drawn(rng, (2, 1, 3), np.float32)
    session.run(None, {"data": data, "v": v, "numbers": np.array([1, 3], np.float32)})
    assert on_host(session) == []
