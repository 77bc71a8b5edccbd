"""Files that are almost models: small networks with a few bytes, or a few fields, changed.

A seed says everything, so a file that makes trouble is made again from its number.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from onnx import TensorProto

from tests.network.flow_cases import FLOWS, SIZES, model_of
from tests.network.small_models import SMALL, grouped, older
from tests.network.value_cases import ALL

NUMBERS = (
    0, 1, -1, 2, 3, 7, 8, 64, 255, 4097, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 40) + 1,
    (1 << 62) + 1, (1 << 63) - 1, -(1 << 31), -(1 << 63),
)  # fmt: skip
REALS = (0.0, -0.0, 1.0, -2.5, 1e-40, 3e38, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "", "x", "\0", "é", "NOTSET", "SAME_LOWER", "VALID", "reverse", "bidirectional", "floor",
    "linear", "cubic", "align_corners", "Tanh", "Relu", "a" * 300, "../w.bin",
)  # fmt: skip
FILES = (
    "w.bin", "none.bin", "../secret.bin", "up/secret.bin", "link.bin", "/dev/zero", "/etc/passwd",
    "folder", "w.bin\0", "..\\secret.bin", "", ".", "fifo",
)  # fmt: skip
_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: 32, FieldDescriptor.CPPTYPE_INT64: 64,
    FieldDescriptor.CPPTYPE_UINT32: -32, FieldDescriptor.CPPTYPE_UINT64: -64,
    FieldDescriptor.CPPTYPE_ENUM: 32,
}  # fmt: skip


class Mutant(NamedTuple):
    """A file, and what was done to make it."""

    content: bytes
    text: str


class Site(NamedTuple):
    """A field of a message, or an element of a repeated one."""

    message: Message
    field: FieldDescriptor
    index: int | None

    def get(self) -> Any:
        value = getattr(self.message, self.field.name)
        return value if self.index is None else value[self.index]

    def set(self, value: Any) -> None:
        if self.index is None:
            setattr(self.message, self.field.name, value)
        else:
            getattr(self.message, self.field.name)[self.index] = value


@cache
def originals() -> dict[str, bytes]:
    """The files that are mutated."""
    models = {name: make().model for name, make in (*SMALL.items(), ("grouped", grouped))}
    models |= {f"opset {opset}": older(opset).model for opset in (7, 10, 12, 16)}
    rng = np.random.default_rng(9)
    # Of one of them, the numbers of the input decide when it ends.
    cases = (item for item in (FLOWS | SIZES).items() if item[0] != "loop until")
    models |= {name: model_of(case, rng) for name, case in cases}
    models |= {name: case.model for name, case in ALL.items()}
    return {name: model.SerializeToString(deterministic=True) for name, model in models.items()}


def sites(message: Message) -> Iterator[Site]:
    """Yield every field that is set, in it and in all messages inside."""
    for field, value in message.ListFields():
        several = field.is_repeated
        for index, each in enumerate(value) if several else ((None, value),):
            yield Site(message, field, index)
            if isinstance(each, Message):
                yield from sites(each)


def number_of(rng: random.Random) -> int:
    """A number, more often one that sizes and axes have."""
    return rng.randrange(-1, 10) if rng.randrange(3) else rng.choice(NUMBERS)


def names(model: onnx.ModelProto) -> list[str]:
    """Names of values."""
    found = [value.name for value in (*model.graph.input, *model.graph.output)]
    found += [tensor.name for tensor in model.graph.initializer]
    return found + [name for node in model.graph.node for name in node.output]


# What is done to bytes


def flip(rng: random.Random, content: bytearray) -> None:
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def overwrite(rng: random.Random, content: bytearray) -> None:
    content[rng.randrange(len(content))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def truncate(rng: random.Random, content: bytearray) -> None:
    del content[rng.randrange(1, len(content)) :]


def cut(rng: random.Random, content: bytearray) -> None:
    begin = rng.randrange(len(content))
    del content[begin : begin + rng.choice((1, 2, 7, 64))]


def insert(rng: random.Random, content: bytearray) -> None:
    place = rng.randrange(len(content) + 1)
    # The largest varint, of ten bytes, is larger than any real size or number.
    content[place:place] = rng.choice((b"\0", b"\xff" * 9 + b"\1", rng.randbytes(5)))


def repeat(rng: random.Random, content: bytearray) -> None:
    begin = rng.randrange(len(content))
    piece = content[begin : begin + rng.randrange(1, 200)]
    content[begin:begin] = piece * rng.randrange(1, 4)


def splice(rng: random.Random, content: bytearray) -> None:
    """Take a piece of a file, of this one or another, to any place."""
    other = rng.choice(list(originals().values()))
    begin = rng.randrange(len(other))
    place = rng.randrange(len(content) + 1)
    size = rng.randrange(1, 300)
    content[place : place + rng.choice((0, size))] = other[begin : begin + size]


BYTES: tuple[Callable[[random.Random, bytearray], None], ...] = (
    flip, overwrite, truncate, cut, insert, repeat, splice,
)  # fmt: skip


# What is done to fields


def other_value(rng: random.Random, field: FieldDescriptor, value: Any, texts: list[str]) -> Any:
    """Give another value for a field that is no message."""
    bits = _INTEGERS.get(field.cpp_type)
    if bits is not None:
        number = rng.choice((*NUMBERS, value + 1, value - 1, -value, 2 * value))
        if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            return rng.choice(list(field.enum_type.values_by_number))
        low, high = (0, 1 << -bits) if bits < 0 else (-(1 << (bits - 1)), 1 << (bits - 1))
        return low + (number - low) % (high - low)
    if field.cpp_type in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return rng.choice((*REALS, -value, value * 1e10))
    if field.type == FieldDescriptor.TYPE_BYTES:
        changed = bytearray(value or b"\0")
        rng.choice(BYTES)(rng, changed)
        return bytes(changed)
    return rng.choice((*TEXTS, *texts, *texts))


def change_field(rng: random.Random, model: onnx.ModelProto) -> str:
    """Give another value to any field."""
    found = [
        site for site in sites(model) if site.field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE
    ]
    # Most fields are names, of which `change_edge` makes others.
    numbers = [site for site in found if site.field.cpp_type != FieldDescriptor.CPPTYPE_STRING]
    site = rng.choice(numbers if numbers and rng.randrange(4) else found)
    value = other_value(rng, site.field, site.get(), names(model))
    site.set(value)
    return f"{site.message.DESCRIPTOR.name}.{site.field.name} = {value!r:.40}"


def change_message(rng: random.Random, model: onnx.ModelProto) -> str:
    """Leave out, repeat or exchange a message or an element."""
    found = [site for site in sites(model) if site.index is not None]
    site = rng.choice(found)
    assert site.index is not None
    several = getattr(site.message, site.field.name)
    what = f"{site.message.DESCRIPTOR.name}.{site.field.name}[{site.index}]"
    kind = rng.choice(("left out", "twice", "first", "another"))
    value = site.get()
    if isinstance(value, Message):
        kept = type(value)()
        kept.CopyFrom(value)
        if kind == "another":
            like = [each for other in sites(model) if isinstance(each := other.get(), type(value))]
            # It may lie inside of what it replaces.
            kept.CopyFrom(rng.choice(like))
            value.CopyFrom(kept)
            return f"{what} is another"
    else:
        kept = value
    if kind in ("left out", "first"):
        del several[site.index]
    if kind != "left out":
        several.append(kept)
    if kind == "first":
        # Where it is last, the others are moved behind it, one after the other.
        for _ in range(len(several) - 1):
            moved = several.pop(0)
            several.append(moved)
    return f"{what} {kind}"


def _node(rng: random.Random, model: onnx.ModelProto) -> onnx.NodeProto:
    graphs = [model.graph]
    graphs += [
        attribute.g for node in model.graph.node for attribute in node.attribute
        if attribute.HasField("g")
    ]  # fmt: skip
    nodes = [node for graph in graphs for node in graph.node]
    nodes += [node for function in model.functions for node in function.node]
    return rng.choice(nodes) if nodes else model.graph.node.add(op_type="Relu")


def change_size(rng: random.Random, model: onnx.ModelProto) -> str:
    """Give another size to a tensor or an input."""
    number = number_of(rng)
    lists = [tensor.dims for tensor in model.graph.initializer if tensor.dims]
    dims = [
        dim for value in (*model.graph.input, *model.graph.output)
        for dim in value.type.tensor_type.shape.dim
    ]  # fmt: skip
    if lists and (not dims or rng.randrange(2)):
        chosen = rng.choice(lists)
        chosen[rng.randrange(len(chosen))] = number
    elif dims:
        dim = rng.choice(dims)
        if rng.randrange(4):
            dim.dim_value = number
        else:
            dim.dim_param = rng.choice(TEXTS)
    return f"a size of {number}"


def change_weight(rng: random.Random, model: onnx.ModelProto) -> str:
    """Give another shape to a weight, and as many numbers."""
    if not model.graph.initializer:
        return "nothing"
    tensor = rng.choice(model.graph.initializer)
    shape = list(tensor.dims)
    kind = rng.randrange(4)
    if kind == 0:
        shape.insert(rng.randrange(len(shape) + 1), rng.choice((0, 1, 2)))
    elif shape and kind == 1:
        del shape[rng.randrange(len(shape))]
    elif shape:
        shape[rng.randrange(len(shape))] = rng.randrange(10)
    element = {TensorProto.FLOAT: b"\0\0\x80\x3f", TensorProto.INT64: b"\1" + bytes(7)}
    if tensor.data_type not in element or math.prod(shape) > 1 << 16 or min(shape, default=0) < 0:
        return "nothing"
    tensor.CopyFrom(TensorProto(
        name=tensor.name, dims=shape, data_type=tensor.data_type,
        raw_data=element[tensor.data_type] * math.prod(shape),
    ))  # fmt: skip
    return f"a weight of {shape}"


def change_type(rng: random.Random, model: onnx.ModelProto) -> str:
    """Give another type to a tensor or an input."""
    kind = rng.choice((*TensorProto.DataType.values(), 99, -1))
    tensors = list(model.graph.initializer)
    values = [*model.graph.input, *model.graph.output]
    if tensors and (not values or rng.randrange(2)):
        rng.choice(tensors).data_type = kind
    elif values:
        rng.choice(values).type.tensor_type.elem_type = kind
    return f"type {kind}"


def change_nesting(rng: random.Random, model: onnx.ModelProto) -> str:
    """Make a sequence or an optional of the type of an input, an output, or one of a subgraph."""
    found = [each for site in sites(model) if isinstance(each := site.get(), onnx.TypeProto)]
    if not found:
        return "nothing"
    kind, before = rng.choice(found), onnx.TypeProto()
    before.CopyFrom(kind)
    how = rng.choice(("sequence_type", "optional_type", "sequence_type", "sparse_tensor_type"))
    if how == "sparse_tensor_type":
        kind.sparse_tensor_type.elem_type = before.tensor_type.elem_type
    elif before.WhichOneof("value") != "tensor_type" and rng.randrange(2):
        kind.tensor_type.elem_type = rng.choice((1, 7, 8, 9))
    else:
        getattr(kind, how).elem_type.CopyFrom(before)
    return f"a type is {kind.WhichOneof('value')}"


def change_sparse(rng: random.Random, model: onnx.ModelProto) -> str:
    """Change a sparse initializer, or make one of a dense one."""
    if not model.graph.sparse_initializer:
        if not model.graph.initializer:
            return "nothing"
        tensor = rng.choice(model.graph.initializer)
        kept = model.graph.sparse_initializer.add(dims=tensor.dims)
        kept.values.CopyFrom(tensor)
        count = math.prod(tensor.dims)
        kept.values.ClearField("dims")
        kept.values.dims.append(count)
        if not 0 <= count <= 1 << 16:
            return "nothing"
        kept.indices.CopyFrom(TensorProto(
            name="i", dims=[count], data_type=TensorProto.INT64, int64_data=range(count)
        ))  # fmt: skip
        model.graph.initializer.remove(tensor)
        return f"{tensor.name} is sparse"
    sparse = rng.choice(model.graph.sparse_initializer)
    number, kind = number_of(rng), rng.randrange(4)
    if kind == 0 and sparse.dims:
        sparse.dims[rng.randrange(len(sparse.dims))] = number
    elif kind == 1:
        sparse.indices.dims[:] = rng.choice(([number], [len(sparse.dims), number], []))
    elif kind == 2:
        sparse.values.data_type = rng.choice((*TensorProto.DataType.values(), 99))
    else:
        content = bytearray(sparse.indices.raw_data or bytes(8))
        place = rng.randrange(max(len(content) // 8, 1)) * 8
        content[place : place + 8] = (number % (1 << 64)).to_bytes(8, "little")
        sparse.indices.raw_data = bytes(content)
    return f"a sparse tensor with {number}"


def change_constant(rng: random.Random, model: onnx.ModelProto) -> str:
    """Give another number to an axis, a size, a weight or the like."""
    tensors = [tensor for tensor in model.graph.initializer if tensor.raw_data]
    if not tensors:
        return "nothing"
    # Integers are sizes and axes, on which more depends than on weights.
    integers = [tensor for tensor in tensors if tensor.data_type == TensorProto.INT64]
    tensor = rng.choice(integers if integers and rng.randrange(4) else tensors)
    size = 8 if tensor.data_type == TensorProto.INT64 else 4
    content = bytearray(tensor.raw_data)
    place = rng.randrange(max(len(content) // size, 1)) * size
    number = number_of(rng)
    content[place : place + size] = (number % (1 << (8 * size))).to_bytes(size, "little")
    tensor.raw_data = bytes(content)
    return f"a constant of {number}"


def change_edge(rng: random.Random, model: onnx.ModelProto) -> str:
    """Let a node read or write another value: cycles, values made twice or not at all."""
    node, known = _node(rng, model), names(model)
    ends = node.input if node.input and (not node.output or rng.randrange(4)) else node.output
    name = rng.choice([*known, *TEXTS]) if known else ""
    if ends:
        ends[rng.randrange(len(ends))] = name
    return f"{node.op_type} with the value {name!r:.20}"


def change_operator(rng: random.Random, model: onnx.ModelProto) -> str:
    """Make another operator of a node."""
    node = _node(rng, model)
    before, node.op_type = node.op_type, rng.choice(OPERATORS)
    if not rng.randrange(6):
        node.domain = rng.choice(("own", "ai.onnx", "ai.onnx.ml", "pplconv", "com.microsoft"))
    return f"{before} is {node.op_type}"


def change_attribute(rng: random.Random, model: onnx.ModelProto) -> str:
    """Give a node an attribute, of its own or another's."""
    node = _node(rng, model)
    taken = [a for other in model.graph.node for a in other.attribute]
    if taken and rng.randrange(3):
        # The node may lie inside of it.
        attribute = onnx.AttributeProto()
        attribute.CopyFrom(rng.choice(taken))
        node.attribute.append(attribute)
        return f"{node.op_type} with {attribute.name}"
    known: dict[str, Any] = {}
    if rng.randrange(8) and onnx.defs.has(node.op_type):
        known = dict(onnx.defs.get_schema(node.op_type).attributes)
    name = rng.choice(sorted(known) or ATTRIBUTES)
    size = rng.choice((1, 1, 2, 4))
    values: Any = {
        "INT": number_of(rng), "INTS": [number_of(rng) for _ in range(size)],
        "FLOAT": rng.choice(REALS), "FLOATS": [rng.choice(REALS) for _ in range(size)],
        "STRING": rng.choice(TEXTS), "STRINGS": [rng.choice(TEXTS) for _ in range(size)],
    }  # fmt: skip
    kind = known[name].type.name if name in known and rng.randrange(8) else ""
    value = values.get(kind) if kind in values else rng.choice(list(values.values()))
    for attribute in list(node.attribute):
        if attribute.name == name and rng.randrange(8):
            node.attribute.remove(attribute)
    node.attribute.append(onnx.helper.make_attribute(name, value))
    return f"{node.op_type} with {name} = {value!r:.60}"


def contradict(rng: random.Random, model: onnx.ModelProto) -> str:
    """Change an attribute that its operands have to agree with."""
    found = [
        (node, attribute) for node in model.graph.node for attribute in node.attribute
        if attribute.type in (onnx.AttributeProto.INT, onnx.AttributeProto.INTS)
    ]  # fmt: skip
    if not found:
        return "nothing"
    node, attribute = rng.choice(found)
    if attribute.type == onnx.AttributeProto.INT:
        attribute.i += rng.choice((-2, -1, 1, 2, attribute.i))
        return f"{node.op_type} with {attribute.name} = {attribute.i}"
    numbers = attribute.ints
    kind = rng.randrange(4)
    if kind == 0 and numbers:
        numbers.pop()
    elif kind == 1:
        numbers.append(rng.randrange(3))
    elif kind == 2:
        numbers.extend(list(numbers))
    elif numbers:
        numbers[rng.randrange(len(numbers))] += rng.choice((-2, -1, 1, 2))
    return f"{node.op_type} with {attribute.name} = {list(numbers)}"


def change_opset(rng: random.Random, model: onnx.ModelProto) -> str:
    """Import another opset, or one more."""
    imports = model.opset_import
    chosen = rng.choice(imports) if imports and rng.randrange(4) else imports.add()
    if rng.randrange(4) == 0:
        chosen.domain = rng.choice(("", "ai.onnx", "own", "pplconv"))
    chosen.version = rng.choice((*range(1, 28), *NUMBERS))
    return f"opset {chosen.version} of {chosen.domain!r}"


def change_storage(rng: random.Random, model: onnx.ModelProto) -> str:
    """Keep the data of a weight in another file."""
    tensors = list(model.graph.initializer)
    if not tensors:
        return "nothing"
    tensor = rng.choice(tensors)
    tensor.data_location = TensorProto.EXTERNAL
    if rng.randrange(4):
        tensor.ClearField("raw_data")
    location = rng.choice((*FILES, FILES[0], FILES[0]))
    entries: dict[str, Any] = {"location": location}
    for key in ("offset", "length", "checksum"):
        if rng.randrange(3) == 0:
            entries[key] = rng.choice((*NUMBERS, *TEXTS))
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    return f"a weight in {location!r}"


FIELDS: tuple[Callable[[random.Random, onnx.ModelProto], str], ...] = (
    change_field, change_field, change_message, change_size, change_size, change_type,
    change_constant, change_constant, change_weight, change_weight, change_edge, change_operator,
    change_attribute, change_attribute, change_attribute, contradict, contradict, change_opset,
    change_storage, change_nesting, change_sparse,
)  # fmt: skip
OPERATORS = (
    "Relu", "Add", "MatMul", "Conv", "ConvTranspose", "Gemm", "Concat", "Split", "Slice", "Pad",
    "Reshape", "Transpose", "Softmax", "LSTM", "GRU", "RNN", "Resize", "MaxPool", "AveragePool",
    "GlobalAveragePool", "ReduceMean", "LayerNormalization", "BatchNormalization", "Gather",
    "Expand", "Squeeze", "Unsqueeze", "Flatten", "Where", "Cast", "TopK", "NonMaxSuppression",
    "If", "Loop", "Scan", "Constant", "ConstantOfShape", "Range", "Shape", "Clip", "Dropout",
    "Identity", "Tile", "OneHot", "Einsum", "NoSuchOperator", "", "SequenceConstruct",
    "SequenceAt", "SequenceInsert", "SequenceErase", "SequenceLength", "SplitToSequence",
    "ConcatFromSequence", "SequenceMap", "Optional", "OptionalGetElement", "StringConcat",
)  # fmt: skip
ATTRIBUTES = (
    "axis", "axes", "pads", "strides", "dilations", "kernel_shape", "group", "perm", "to", "mode",
    "auto_pad", "hidden_size", "direction", "ceil_mode", "output_shape", "output_padding", "alpha",
    "epsilon", "keepdims", "transA", "allowzero", "num_outputs", "split", "layout", "clip",
    "activations", "linear_before_reset", "value", "coordinate_transformation_mode", "body",
)  # fmt: skip


def mutant(seed: int) -> Mutant:
    """Make the file of a number."""
    rng = random.Random(seed)
    name = rng.choice(list(originals()))
    content = bytearray(originals()[name])
    done = [name]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.randrange(8) == 0:
            change = rng.choice(BYTES)
            change(rng, content)
            done.append(change.__name__)
        else:
            model = onnx.ModelProto()
            try:
                model.ParseFromString(bytes(content))
                done.append(rng.choice(FIELDS)(rng, model))
            except (DecodeError, ValueError):
                continue  # bytes were changed before: no model any more, or names that are no text
            content = bytearray(model.SerializeToString(deterministic=True))
        if not content:
            break
    return Mutant(bytes(content), ", ".join(done))
