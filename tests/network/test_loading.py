"""What is read as a model, and how everything else is refused."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from pplconv.network import large_weights
from pplconv.network.loading import load
from pplconv.network.preparing import prepare, specialize
from pplconv.network.session import InferenceSession
from tests.network.evaluating import evaluate
from tests.network.graphs import Graph
from tests.network.models import graph_of, info, model_of

pytestmark = pytest.mark.unemulated("reads and rewrites graphs, which no machine changes")


OWN = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
FOUR = (np.float32, [4])


def written() -> tuple[Graph, str]:
    g = Graph()
    return g, g.Relu(g.conv(g.input(1, 2, 5, 5), 3, (2, 3, 3)))


def small() -> tuple[Graph, onnx.ModelProto]:
    g, y = written()
    return g, g.model(g.Add(y, g.random(3, 1, 1)))


def with_nodes(*nodes: onnx.NodeProto, outputs=("y",), weights=(), inputs=("x",), **more):
    given = [info(name, (np.float32, [2, 2])) for name in inputs]
    results = [info(name, np.float32) for name in outputs]
    graph = helper.make_graph(list(nodes), "test", given, results, list(weights))
    opsets = more.pop("opsets", [helper.make_opsetid("", 17)])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **more)


def flag(name: str, value: bool) -> TensorProto:
    return numpy_helper.from_array(np.array(value), name)


def node(operator: str, inputs: str, outputs: str, **attributes) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


@pytest.mark.parametrize("kind", ["str", "path", "bytes", "bytearray", "memoryview", "proto"])
def test_sources(kind, tmp_path):
    g, proto = small()
    path = tmp_path / "model.onnx"
    content = proto.SerializeToString()
    path.write_bytes(content)
    source = {
        "str": str(path),
        "path": path,
        "bytes": content,
        "bytearray": bytearray(content),
        "memoryview": memoryview(content),
        "proto": proto,
    }[kind]
    model = load(source)
    (want,) = evaluate(load(proto), g.feed)
    np.testing.assert_array_equal(evaluate(model, g.feed)[0], want)


@pytest.mark.parametrize("source", [None, 3, 1.5, [b"a"], io.BytesIO(b""), onnx.GraphProto()])
def test_other_types_are_refused(source):
    with pytest.raises(TypeError, match="model must be a path, bytes or an"):
        load(source)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="model does not exist"):
        load(tmp_path / "none.onnx")
    with pytest.raises(IsADirectoryError, match="model is a folder"):
        load(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 50, b"not a model", b"\x3a\x02\x0a", bytes(range(256))]
)
def test_what_is_no_model(content):
    with pytest.raises(ValueError, match="model"):
        load(content)


def test_the_protobuf_that_was_given_is_left_alone():
    _, proto = small()
    before = proto.SerializeToString(deterministic=True)
    prepare(load(proto))
    assert proto.SerializeToString(deterministic=True) == before


def test_constants_become_weights_but_for_those_that_are_more():
    arrays = {
        name: np.arange(4, dtype=np.float32).reshape(2, 2) + number
        for number, name in enumerate(["small", "told", "result"])
    } | {"large": np.arange(4096, dtype=np.float32).reshape(2, -1)}
    nodes = [
        node("Constant", "", name, value=numpy_helper.from_array(array))
        for name, array in arrays.items()
    ]
    nodes += [
        node("Constant", "", "ints", value_ints=[2, 2]),
        node("Sum", "x small told", "sum"),
        node("MatMul", "sum large", "y"),
        node("Reshape", "sum ints", "again"),
    ]
    proto = with_nodes(*nodes, outputs=("y", "again", "result"))
    proto.graph.value_info.append(info("told", (np.float32, [2, 2])))
    before = proto.SerializeToString(deterministic=True)
    x = np.array([[1, -2], [3, 4]], np.float32)
    summed = x + arrays["small"] + arrays["told"]
    expected = [summed @ arrays["large"], summed, arrays["result"]]
    kept = ["Constant", "Constant", "Constant", "Sum", "MatMul", "Reshape"]
    for source, operators in (
        (before, kept), (proto, ["Constant", "Constant", *kept])
    ):  # fmt: skip
        model = load(source)
        assert [each.op_type for each in model.graph] == operators
        session = InferenceSession(source)
        for found, want in zip(session.run(None, {"x": x}), expected, strict=True):
            np.testing.assert_array_equal(found, want)
    assert proto.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (with_nodes(node("Relu", "x", "y"), opsets=[]), "no opset"),
        (with_nodes(node("Relu", "x", "y"), opsets=[helper.make_opsetid("other", 1)]), "no opset"),
        (with_nodes(node("Relu", "x", "y"), opsets=[helper.make_opsetid("", 5)]), "opset 5"),
        (with_nodes(node("Relu", "x", "y"), opsets=[helper.make_opsetid("", 999)]), "opset 999"),
        (
            with_nodes(
                node("Relu", "x", "y"),
                opsets=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx", 18)],
            ),
            "two versions",
        ),
        (with_nodes(node("Relu", "z", "y")), "never defines the value 'z'"),
        (with_nodes(node("Relu", "x", "z")), "never defines its output 'y'"),
        (with_nodes(node("Relu", "x", "y"), node("Tanh", "x", "y")), "'y' twice"),
        (with_nodes(node("Relu", "x", "x"), node("Tanh", "x", "y")), "'x' twice"),
        (with_nodes(node("Add", "x y", "z"), node("Tanh", "z", "y")), "a cycle"),
        (with_nodes(node("Add", "x y", "y")), "a cycle"),
        (with_nodes(node("Relu", "x", "y"), inputs=("x", "x")), "'x' twice"),
        (with_nodes(node("Relu", "x", "y"), outputs=("y", "y")), "'y' twice"),
        (with_nodes(node("Relu", "x", "y"), outputs=()), "no outputs"),
        (with_nodes(node("Reluu", "x", "y")), "Reluu"),
        (with_nodes(node("Relu", "x x", "y")), "Relu"),
        (with_nodes(node("Conv", "x x", "y", strides="one")), "strides"),
        (with_nodes(node("Softmax", "x", "y", axis=[1])), "axis"),
        (with_nodes(node("Relu", "x", "y", nothing=1)), "nothing"),
        (
            with_nodes(
                node("Relu", "x", "y", then_branch=with_nodes(node("Tanh", "x", "t"), outputs="t",
                                                              inputs=()).graph)
            ),
            "a subgraph at .* an operator without subgraphs",
        ),
    ],
)  # fmt: skip
def test_models_that_contradict_themselves(model, message):
    with pytest.raises(ValueError, match=message):
        load(model)


def test_unsorted_nodes_are_sorted():
    model = load(with_nodes(node("Tanh", "z", "y"), node("Relu", "x", "z")))
    assert [n.op_type for n in model.graph] == ["Relu", "Tanh"]


def test_the_long_name_of_onnx_is_the_short_one():
    opsets = [helper.make_opsetid("ai.onnx", 17)]
    model = load(with_nodes(node("Relu", "x", "y", domain="ai.onnx"), opsets=opsets))
    assert [n.domain for n in model.graph] == [""]
    assert model.opset_imports[""] == 17


def test_other_domains_are_kept():
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    model = load(with_nodes(node("Anything", "x", "y", domain="mine"), opsets=opsets))
    assert [n.domain for n in prepare(model).model.graph] == ["mine"]


def tensor(shape, count, **fields) -> TensorProto:
    array = numpy_helper.from_array(np.zeros(count, np.float32), "w")
    del array.dims[:]
    array.dims.extend(shape)
    for name, value in fields.items():
        setattr(array, name, value)
    return array


@pytest.mark.parametrize(
    "weight",
    [
        tensor([2, 3], 5),
        tensor([-1], 1),
        tensor([-2, -2], 4),
        tensor([1 << 62, 1 << 62], 4),
        tensor([1 << 32, 1 << 32], 0),
        tensor([4], 4, data_type=999),
        tensor([4], 4, data_type=0),
        tensor([4], 4, data_type=TensorProto.STRING),
    ],
)
def test_tensors_that_contradict_themselves(weight):
    with pytest.raises(ValueError, match="'w'"):
        load(with_nodes(node("Add", "x w", "y"), weights=[weight]))
    constant = helper.make_node("Constant", [], ["w"], value=weight)
    with pytest.raises(ValueError, match="'w'"):
        load(with_nodes(constant, node("Add", "x w", "y")))


@pytest.mark.parametrize(
    "kind", [np.float32, np.float64, np.float16, np.int8, np.int64, np.uint64, bool]
)
def test_typed_fields_are_read(kind):
    array = np.array([[1, 0, 1]], dtype=kind)
    weight = helper.make_tensor(
        "w",
        helper.np_dtype_to_tensor_dtype(np.dtype(kind)),
        array.shape,
        array.reshape(-1).tolist(),
    )
    cast = node("Cast", "w", "c", to=TensorProto.FLOAT)
    model = load(with_nodes(cast, node("Add", "x c", "y"), inputs=("x",), weights=[weight]))
    np.testing.assert_array_equal(model.graph.initializers["w"].const_value.numpy(), array)


def nested(depth: int) -> onnx.GraphProto:
    inner = node("Relu", "x", f"y{depth}")
    if depth:
        body = nested(depth - 1)
        inner = node("If", "flag", f"y{depth}", then_branch=body, else_branch=body)
    return graph_of([inner], {}, {f"y{depth}": np.float32})


def test_a_subgraph_gives_back_what_it_computes():
    """A value from outside takes an Identity."""
    other = graph_of([node("Relu", "x", "z")], {}, {"z": np.float32})

    def choosing(*nodes: onnx.NodeProto, output: str) -> onnx.ModelProto:
        branches = {"then_branch": graph_of(nodes, {}, {output: np.float32}), "else_branch": other}
        return with_nodes(node("If", "flag", "y", **branches), weights=[flag("flag", True)])

    with pytest.raises(ValueError, match="never defines its output 'x'"):
        load(choosing(output="x"))
    assert len(load(choosing(node("Identity", "x", "own"), output="own")).graph) == 1


@pytest.mark.parametrize(("depth", "fits"), [(4, True), (12, False)])
def test_nesting_is_bounded(depth, fits, monkeypatch):
    monkeypatch.setattr("pplconv.network.checking.MAX_DEPTH", 6)
    graph = nested(depth)
    graph.input.extend([info("x", (np.float32, [])), info("flag", (np.bool_, []))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if fits:
        assert len(load(model).graph) == 1
    else:
        with pytest.raises(ValueError, match="nests subgraphs"):
            load(model)


def function(name: str, *nodes: onnx.NodeProto, **more) -> onnx.FunctionProto:
    return helper.make_function("own", name, ["x"], ["y"], list(nodes), OWN, **more)


def calling(name: str, *functions: onnx.FunctionProto) -> onnx.ModelProto:
    return with_nodes(node(name, "x", "y", domain="own"), opsets=OWN, functions=list(functions))


def test_local_functions_are_inlined():
    f = function("f", node("Relu", "x", "z"), node("Tanh", "z", "y"))
    g = function("g", node("f", "x", "z", domain="own"), node("f", "z", "y", domain="own"))
    assert [n.op_type for n in load(calling("g", f, g)).graph] == ["Relu", "Tanh"] * 2


def test_functions_that_call_themselves_are_refused():
    f = function("f", node("g", "x", "y", domain="own"))
    g = function("g", node("f", "x", "y", domain="own"))
    with pytest.raises(ValueError, match="calls itself"):
        load(calling("f", f, g))


def test_functions_that_multiply_are_refused():
    functions = [function("f0", node("Relu", "x", "y"))]
    for level in range(1, 9):
        below = f"f{level - 1}"
        chain = [node(below, f"v{i}" if i else "x", f"v{i + 1}", domain="own") for i in range(10)]
        chain[-1].output[0] = "y"
        functions.append(function(f"f{level}", *chain))
    with pytest.raises(ValueError, match="100000000 nodes"):
        load(calling("f8", *functions))


# External data


def external(location: str, shape=(4,), **more: object) -> onnx.ModelProto:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=shape)
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        weight.external_data.add(key=key, value=str(value))
    return model_of([node("Add", "x w", "y")], {"x": FOUR}, [weight], opset=17)


def stored(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def folder(tmp_path) -> Path:
    inside = tmp_path / "models"
    (inside / "weights").mkdir(parents=True)
    content = np.arange(8, dtype=np.float32).tobytes()
    for path in (inside / "w.bin", inside / "weights" / "w.bin", tmp_path / "secret.bin"):
        path.write_bytes(content)
    os.symlink(tmp_path / "secret.bin", inside / "link.bin")
    os.symlink(tmp_path, inside / "up")
    return inside


@pytest.mark.parametrize(
    ("location", "more", "first"),
    [
        ("w.bin", {}, 0),
        ("weights/w.bin", {}, 0),
        ("w.bin", {"offset": 16, "length": 16}, 4),
        ("w.bin", {"offset": 4}, 1),
    ],
)
def test_external_data_is_mapped(folder, location, more, first):
    model = load(stored(external(location, **more), folder))
    x = np.zeros(4, np.float32)
    special = specialize(prepare(model).model, {"x": (4,)})
    (array,) = (v.const_value.numpy() for v in special.model.graph.initializers.values())
    np.testing.assert_array_equal(array + x, np.arange(first, first + 4))


@pytest.mark.parametrize(
    ("location", "more", "error", "message"),
    [
        ("", {}, ValueError, "names no file"),
        ("none.bin", {}, FileNotFoundError, "does not exist"),
        ("../secret.bin", {}, ValueError, "outside its folder"),
        ("weights/../../secret.bin", {}, ValueError, "outside its folder"),
        ("/etc/passwd", {}, ValueError, "outside its folder"),
        ("C:\\secret.bin", {}, ValueError, "outside its folder"),
        ("..\\secret.bin", {}, ValueError, "outside its folder"),
        ("link.bin", {}, ValueError, "outside its folder"),
        ("up/secret.bin", {}, ValueError, "outside its folder"),
        ("w.bin\0.txt", {}, ValueError, "outside its folder"),
        ("weights", {}, ValueError, "not a file"),
        ("w.bin", {"offset": 20}, ValueError, "has only 32"),
        ("w.bin", {"offset": 1 << 62}, ValueError, "has only 32"),
        ("w.bin", {"offset": -4}, ValueError, "offset"),
        ("w.bin", {"offset": "1_0"}, ValueError, "offset"),
        ("w.bin", {"offset": "9" * 30}, ValueError, "offset"),
        ("w.bin", {"length": 12}, ValueError, "length of 12"),
        ("w.bin", {"shape": (1 << 40, 1 << 40)}, ValueError, "has only 32"),
    ],
)
def test_external_data_elsewhere_is_refused(folder, location, more, error, message):
    path = stored(external(location, **more), folder)
    with pytest.raises(error, match=message):
        load(path)


def test_external_data_needs_a_folder():
    with pytest.raises(ValueError, match="not given as a path"):
        load(external("w.bin").SerializeToString())
    with pytest.raises(ValueError, match="not given as a path"):
        load(external("w.bin"))


def holders() -> dict[str, onnx.ModelProto]:
    """Models that keep a tensor in another file: one for each place that a tensor may be in."""

    def outside() -> TensorProto:
        return external("w.bin").graph.initializer[0]

    def whole(*nodes: onnx.NodeProto, weights=(), functions=()) -> onnx.ModelProto:
        return model_of(nodes, {"x": FOUR}, weights, opset_imports=OWN, functions=functions)

    constant = node("Constant", "", "w", value=outside())
    add = node("Add", "x w", "y")
    choice = {
        "then_branch": graph_of([constant, node("Add", "x w", "a")], {}, {"a": FOUR}),
        "else_branch": graph_of([node("Add", "x w", "b")], {}, {"b": FOUR}, [outside()]),
    }
    given = node("Constant", "", "w")
    given.attribute.add(name="value", ref_attr_name="t", type=onnx.AttributeProto.TENSOR)
    default = helper.make_attribute("t", outside())
    call = helper.make_node("F", ["x"], ["y"], domain="own")
    once = outside()
    once.dims[:] = [1]
    shape = numpy_helper.from_array(np.array([4]), "s")
    return {
        "an attribute": whole(constant, add),
        "another attribute": whole(
            node("ConstantOfShape", "s", "w", value=once), add, weights=[shape]
        ),
        "a branch": whole(node("If", "c", "y", **choice), weights=[flag("c", True)]),
        "weights of a branch": whole(node("If", "c", "y", **choice), weights=[flag("c", False)]),
        "a function": whole(call, functions=[function("F", constant, add)]),
        "a default of a function": whole(
            call, functions=[function("F", given, add, attribute_protos=[default])]
        ),
    }


@pytest.mark.parametrize("where", holders())
def test_external_data_lie_beside_the_model(where, folder, tmp_path, monkeypatch):
    # What is called alike where the process runs is another file.
    np.full(8, -7, np.float32).tofile(tmp_path / "w.bin")
    monkeypatch.chdir(tmp_path)
    (folder / "w.bin").write_bytes(np.arange(1, 9, dtype=np.float32).tobytes())
    model = holders()[where]
    special = specialize(prepare(load(stored(model, folder))).model, {})
    (got,) = evaluate(special.model, {"x": np.zeros(4, np.float32)})
    np.testing.assert_array_equal(got, 1 if where == "another attribute" else [1, 2, 3, 4])
    for source in (model, model.SerializeToString()):
        with pytest.raises(ValueError, match="not given as a path"):
            load(source)


@pytest.mark.parametrize("kind", ["BFLOAT16", "BOOL", "INT4", "FLOAT8E4M3FN"])
def test_external_data_of_other_types(kind, folder):
    model = external("w.bin", (8,), offset=8)
    weight = model.graph.initializer[0]
    weight.data_type = TensorProto.DataType.Value(kind)
    path = stored(model, folder)
    weight.ClearField("external_data")
    weight.data_location = TensorProto.DEFAULT
    width = {"BFLOAT16": 16, "INT4": 4}.get(kind, 8)
    weight.raw_data = (folder / "w.bin").read_bytes()[8 : 8 + width]
    array = load(path).graph.initializers["w"].const_value.numpy()
    np.testing.assert_array_equal(array, numpy_helper.to_array(weight))


# Names that are shown


RUDE = "a\x1b[31mb\nc\x07\u202e"


def rude_models() -> list[onnx.ModelProto]:
    def named(operator: str, inputs: list[str], outputs: list[str], **more) -> onnx.NodeProto:
        return helper.make_node(operator, inputs, outputs, name=RUDE, **more)

    other = [helper.make_opsetid("", 17), helper.make_opsetid("d" + RUDE, 1)]
    pads = numpy_helper.from_array(np.zeros(4, np.int64), "p")
    empty = TensorProto(name=RUDE, data_type=1, dims=[4])
    wide = numpy_helper.from_array(np.ones((3, 3), np.float32), RUDE)
    gates = [numpy_helper.from_array(np.ones((1, 6, 2), np.float32), name) for name in "wr"]
    return [
        with_nodes(named("Relu", [RUDE], ["y"])),
        with_nodes(named("Relu", ["x"], [RUDE]), named("Relu", ["x"], [RUDE])),
        with_nodes(named("Relu", ["x"], ["y"]), inputs=("x", RUDE, RUDE)),
        with_nodes(named("Relu", ["x"], ["y"]), outputs=(RUDE,)),
        with_nodes(named("Relu" + RUDE, ["x"], ["y"])),
        with_nodes(named("Op" + RUDE, ["x"], ["y"], domain="d" + RUDE), opsets=other),
        with_nodes(named("Relu", ["x"], ["y"], **{RUDE: 1})),
        with_nodes(named("Pad", ["x", "p"], ["y"], mode=RUDE), weights=[pads]),
        with_nodes(named("Resize", ["x", "", "", "p"], ["y"], mode=RUDE), weights=[pads]),
        with_nodes(named("Add", ["x", RUDE], ["y"]), weights=[empty]),
        with_nodes(named("MatMul", ["x", RUDE], ["y"]), weights=[wide]),
        with_nodes(named("STFT", ["x", "p"], ["y"]), weights=[pads]),
        with_nodes(
            named("GRU", ["u", *"wr"], ["y"], hidden_size=2, activations=[RUDE, "Tanh"]),
            named("Unsqueeze", ["x", "p"], ["u"]),
            weights=[*gates, numpy_helper.from_array(np.array([0]), "p")],
        ),
        with_nodes(named("Gather", [RUDE, "x"], ["y"]), weights=[wide]),
    ]


@pytest.mark.parametrize("number", range(len(rude_models())))
def test_names_do_not_reach_the_terminal_as_they_are(number):
    with pytest.raises(ValueError) as caught:
        session = InferenceSession(rude_models()[number], fallback="error")
        session.run(None, {"x": np.zeros((2, 2), np.float32)})
    assert str(caught.value).isprintable(), str(caught.value)


# Files as they come


def attempt(content: bytes) -> None:
    """Whatever the bytes are, the outcome is a model or a ValueError."""
    try:
        specialize(prepare(load(content)).model, {"x1": (1, 2, 5, 5)})
    except ValueError as error:
        assert str(error)


@pytest.fixture(params=[large_weights._LEAST_BYTES, 1], ids="weights of {} bytes stay".format)
def lifted(request, monkeypatch):
    """Large weights, or all of them, stay in the bytes that are read."""
    monkeypatch.setattr(large_weights, "_LEAST_BYTES", request.param)


def whole() -> bytes:
    """A file with weights in both places."""
    g, y = written()
    constant = g.Constant(value=numpy_helper.from_array(np.ones((3, 1, 1), np.float32)))
    return g.model(g.Add(g.Add(y, constant), g.random(3, 1, 1))).SerializeToString()


@pytest.mark.usefixtures("lifted")
@given(st.integers(0, 1 << 30))
def test_truncated_files(seed):
    content = whole()
    attempt(content[: seed % len(content)])


@pytest.mark.usefixtures("lifted")
@given(st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), min_size=1, max_size=4))
def test_mutated_files(changes):
    content = bytearray(whole())
    for place, value in changes:
        content[place % len(content)] = value
    attempt(bytes(content))


@given(st.binary(max_size=200))
def test_random_files(content):
    with pytest.raises(ValueError, match="model"):
        load(content)
