"""Constant folding, within bounds of memory and time."""

from __future__ import annotations

import itertools
import math

import numpy as np
import onnx_ir as ir

from .graph_builder import GraphBuilder
from .inferring import infer_outputs
from .model_passes import remove_unused
from .names import have_unique_names, mend_names
from .node_checks import ContradictionError, check_node, check_sizes
from .nodes import attributes_of
from .onnx_answers import compute_by_reference, infer_by_onnx
from .operands import end_before_the_first, reduce_once
from .operators.table import COMPUTED
from .padding import POOLS, infer_pool, resolve_node, settle_pool
from .partial_values import REWRITINGS, Known, Replacement
from .python_values import passes_in_python
from .resizing import infer_resize
from .storage import Array
from .subgraphs import is_flow, subgraphs_of
from .texts import printable
from .values import attribute_int, constant, describe, is_constant, static_shape

__all__ = ["FOLD_BYTES", "fold"]

FOLD_BYTES = 64 << 20
"""Largest constant that folding computes; larger ones stay operators of the graph."""

# Limit of all constants together: a small file could ask for many large ones.
_TOTAL_BYTES = 8 * FOLD_BYTES

# Larger ones that repeat one value are kept as views of it.
_VIEW_BYTES = 1 << 16

# Constants that repeat one value are views of that value, and cost nothing here.
_REPEATED_BYTES = 4 << 30

# NumPy takes seconds for these operators, the session milliseconds.
_SLOW = frozenset(
    (
        "Attention", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "Einsum", "GRU", "LSTM",
        "MatMulInteger", "QLinearConv", "QLinearMatMul", "RNN", "Resize", "RoiAlign",
    )
)  # fmt: skip
_PRODUCTS = frozenset(("MatMul", "Gemm"))
_PRODUCT_OPERATIONS = 1 << 30
_RANDOM = frozenset(
    ("Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)
# These keep what a model says of its integers.
_QUANTIZING = frozenset(("DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"))
# Operators whose output size depends on data: at most the size of their inputs, for each axis.
_DATA_DEPENDENT = frozenset(("Compress", "NonMaxSuppression", "NonZero", "Unique"))
# Operators that compute sizes from sizes, and most elements of each operand. Their results are not
# large either.
_ON_SIZES = {
    name: COMPUTED[name]
    for name in (
        "Add", "Cast", "Concat", "Div", "Equal", "Gather", "Identity", "Mul", "Reshape", "Slice",
        "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where",
    )
}  # fmt: skip
_MOST_SIZES = 64
# Bytes of an array from which on it is copied in blocks, whose rows and columns are in L1 together.
_LARGE_COPY, _BLOCK = 1 << 16, 64


def fold(model: ir.Model) -> None:
    """Infer shapes and types, and compute results of constants.

    Parameters
    ----------
    model : ir.Model
        Changed in place.

    Raises
    ------
    ValueError
        If a node contradicts itself, or cannot be computed.
    """
    budget = _Budget()
    for _ in range(4):
        try:
            _Fold(model, budget).run()
        except (ContradictionError, _FoldingError):
            raise
        except (RuntimeError, ValueError, TypeError, IndexError, ArithmeticError) as error:
            cause = error.__cause__ or error
            if isinstance(cause, MemoryError):
                raise cause from error
            raise ValueError(
                f"model cannot be folded: {printable(error)}: {printable(cause)}"
            ) from error
        if not _repeat_values(model.graph) + _compute(model.graph, budget):
            break
    remove_unused(model)


class _Fold:
    """One pass over all nodes, in their order.

    A node's attributes are checked before its shapes are inferred or its results computed. Shapes
    are ours where ONNX infers other shapes than onnxruntime computes.

    Parameters
    ----------
    model : ir.Model
        Changed in place.
    budget : _Budget
        Of the constants.
    """

    def __init__(self, model: ir.Model, budget: _Budget) -> None:
        self._model, self._budget = model, budget
        self._known = Known()
        self._modified = False

    def run(self) -> None:
        """Visit the nodes of the graph and of its subgraphs."""
        self._visit_graph(self._model.graph)
        if self._modified and not have_unique_names(self._model.graph):
            mend_names(self._model)

    def _visit_graph(self, graph: ir.Graph) -> None:
        for node in graph:
            replacement = self._visit(node)
            if replacement is not None:
                self._replace(node, replacement, graph)
                continue
            for inner in subgraphs_of(node):
                self._visit_graph(inner)
        for place, value in enumerate(graph.outputs):
            same = self._known.same.get(value)
            maker = None if same is None else same.producer()
            # An output has a node of this graph, and one name.
            if same is None or maker is None or maker.graph is not graph or same.is_graph_output():
                continue
            same.name = value.name
            graph.outputs[place] = same
            self._modified = True

    def _visit(self, node: ir.Node) -> Replacement | None:
        for value in node.inputs:
            # The pass keeps the inferred shape of a folded node for its constant.
            if is_constant(value) and static_shape(value) is None:
                value.shape = ir.Shape(value.const_value.shape)
        check_node(node)
        if not node.domain:
            _as_onnxruntime(node)
        replacement = self._of_sizes(node)
        if replacement is not None:
            return replacement
        self._read_known(node)
        if node.op_type == "Constant" and not node.domain:
            _mark_constant(node)
            return None
        if not is_flow(node):
            self._infer(node)
        replacement = self._rewritten(node) or self._folded(node)
        if node.op_type in POOLS and not node.domain and replacement is None:
            infer_pool(node)
        if node.op_type == "Resize" and not node.domain and replacement is None:
            try:
                shape = infer_resize(node)
            except ValueError:
                # `check_static` says why.
                node.outputs[0].shape = None
            else:
                node.outputs[0].shape = shape or node.outputs[0].shape
        # ONNX's inference of the next node may end the process for such a size.
        check_sizes(node)
        return replacement

    def _infer(self, node: ir.Node) -> None:
        if not node.domain and infer_outputs(node):
            return
        version = self._model.opset_imports.get(node.domain)
        if version is not None:
            infer_by_onnx(node, version)

    def _replace(self, node: ir.Node, replacement: Replacement, graph: ir.Graph) -> None:
        operands = [value for value in node.inputs if value is not None]
        if replacement.nodes or len(node.outputs) > 1:
            ir.convenience.replace_nodes_and_values(
                graph, node, [node], replacement.nodes, node.outputs, replacement.values
            )
        else:
            _replace_one(node, replacement.values[0])
        for value in operands:
            unused = not value.uses() and not value.is_graph_output()
            if unused and value.is_initializer() and value.graph is not None:
                value.graph.initializers.pop(str(value.name))
        self._modified = True

    def _read_known(self, node: ir.Node) -> None:
        """Read the values that stand for a node's operands."""
        for place, value in enumerate(node.inputs):
            same = None if value is None else self._known.same.get(value)
            if same is not None:
                node.replace_input_with(place, same)
                self._modified = True

    def _rewritten(self, node: ir.Node) -> Replacement | None:
        """Rewrite a node by the known values of its operands."""
        rewrite = REWRITINGS.get(node.op_type) if not node.domain else None
        if rewrite is None:
            return None
        op = GraphBuilder()
        try:
            made = rewrite(node, op, self._known)
        except MemoryError:
            raise
        except Exception as error:
            # Shapes are not checked yet, so a wrong file can claim anything of a node.
            raise _failed(node, error) from error
        if made is None or isinstance(made, Replacement):
            return made
        return Replacement([made] if isinstance(made, ir.Value) else made, op.nodes)

    def _of_sizes(self, node: ir.Node) -> Replacement | None:
        """Fold a node that computes sizes or indices, without inference: models have thousands."""
        if node.domain or len(node.outputs) != 1 or node.outputs[0].is_graph_output():
            return None
        result = _known_shape(node) if node.op_type == "Shape" else _on_sizes(node)
        return None if result is None else _constant_for(node, result)

    def _folded(self, node: ir.Node) -> Replacement | None:
        """Compute a node of one output, all of whose operands are constant."""
        if len(node.outputs) != 1 or node.graph is None:
            return None
        results = _results(node, self._budget)
        if results is not None:
            return _constant_for(node, results[0])
        version = self._model.opset_imports.get(node.domain)
        operands = [value for value in node.inputs if value is not None]
        if (
            version is None
            or is_flow(node)
            or (not node.domain and node.op_type in _RANDOM | _QUANTIZING)
            or any(value.const_value is None or value.is_graph_input() for value in operands)
            or not self._budget.takes(node)
        ):
            return None
        result = compute_by_reference(node, version)
        return _constant_for(node, result) if isinstance(result, np.ndarray) else None


def _constant_for(node: ir.Node, array: Array) -> Replacement | None:
    """Put a constant in the place of a node."""
    graph, name = node.graph, node.outputs[0].name
    assert graph is not None
    plain = array.dtype.kind in "fiub"
    tensor = ir.Tensor(array, name=name) if plain else ir.tensor(array, name=name)
    value = ir.Value(
        name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape),
        const_value=tensor,
    )  # fmt: skip
    graph.register_initializer(value)
    return Replacement([value])


def _mark_constant(node: ir.Node) -> None:
    """Note the constant that a Constant node gives."""
    if len(node.attributes) != 1 or len(node.outputs) != 1:
        return
    ((name, attribute),) = node.attributes.items()
    value, given = node.outputs[0], attribute.value
    if given is None:
        return
    tensor: ir.TensorProtocol
    if name in ("value_float", "value_floats"):
        tensor = ir.Tensor(np.array(given, np.float32), name=value.name)
    elif name in ("value_int", "value_ints"):
        tensor = ir.Tensor(np.array(given, np.int64), name=value.name)
    elif name in ("value_string", "value_strings"):
        tensor = ir.StringTensor(np.array(given, np.bytes_), name=value.name)
    elif name == "value":
        tensor = given
    else:
        return
    value.const_value, value.type = tensor, ir.TensorType(tensor.dtype)
    value.shape = ir.Shape(tensor.shape)


def _replace_one(node: ir.Node, new: ir.Value) -> None:
    """Replace a node of one output by a value, as `ir.convenience` replaces several."""
    (old,) = node.outputs
    new.type = new.type if old.type is None else old.type
    new.shape = new.shape if old.shape is None else old.shape
    new.const_value = new.const_value if old.const_value is None else old.const_value
    new.name = new.name if old.name is None else old.name
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    assert node.graph is not None
    node.graph.remove(node, safe=True)


def _known_shape(node: ir.Node) -> Array | None:
    """Give the result of a Shape node, if the shape is known."""
    shape = static_shape(node.inputs[0])
    if shape is None:
        return None
    start, end = attribute_int(node, "start", 0), attribute_int(node, "end", len(shape))
    return np.array(shape[start:end], np.int64)


def _on_sizes(node: ir.Node) -> Array | None:
    """Give the result of a node whose operands are a few known integers."""
    compute = _ON_SIZES.get(node.op_type)
    operands: list[Array | None] = []
    for value in node.inputs if compute is not None else ():
        array = constant(value)
        small = array is not None and array.size <= _MOST_SIZES and array.dtype.kind in "ib"
        if value is not None and not small:
            return None
        operands.append(array)
    if compute is None or not operands:
        return None
    try:
        (result,) = compute(dict(attributes_of(node)), operands, [()])
    except Exception:
        # Inference says why.
        return None
    return np.array(result, order="C")


def _as_onnxruntime(node: ir.Node) -> None:
    """Rewrite a node to onnxruntime's meaning, where ONNX's inference differs."""
    if node.op_type == "ConvTranspose":
        resolve_node(node)
    elif node.op_type in POOLS:
        settle_pool(node)
    elif node.op_type == "Slice":
        end_before_the_first(node)
    elif node.op_type.startswith("Reduce"):
        reduce_once(node)


class _FoldingError(ValueError):
    """A node that our own code refuses."""


def _failed(node: ir.Node, error: Exception) -> _FoldingError:
    return _FoldingError(
        f"model cannot be folded: {describe(node)}: {type(error).__name__}: {printable(error)}"
    )


class _Budget:
    """Decides which nodes are folded, within a budget of memory."""

    def __init__(self) -> None:
        self.left = _TOTAL_BYTES

    def takes(self, node: ir.Node) -> bool:
        """Say whether ONNX's reference may fold a node, all of whose operands are constant."""
        if node.domain or node.op_type in _SLOW or _is_ours(node) or passes_in_python(node):
            return False
        return self.allows(node)

    def allows(self, node: ir.Node) -> bool:
        """Say whether memory and time suffice for a node's outputs, and reserve them."""
        total = _output_bytes(node)
        if total is None or total > min(FOLD_BYTES, self.left):
            return False
        if node.op_type == "ConstantOfShape" and total > _VIEW_BYTES:
            return False
        if node.op_type in _PRODUCTS and total * _depth(node) > 4 * _PRODUCT_OPERATIONS:
            return False
        self.left -= total
        return True


def _output_bytes(node: ir.Node) -> int | None:
    """Upper bound of the outputs' bytes, or None if there is none."""
    sizes = [_size(value) for value in node.outputs]
    if None not in sizes:
        return sum(size or 0 for size in sizes)
    if node.op_type not in _DATA_DEPENDENT:
        return None
    # An index of 8 bytes for each axis and element; arrays have up to 64 axes.
    return sum(64 * 8 * (_size(value) or 0) for value in node.inputs if value is not None)


def _depth(node: ir.Node) -> int:
    """Upper bound of products for each element of the output."""
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    return max((int(size) for size in shape), default=1) if shape is not None else 1


def _size(value: ir.Value) -> int | None:
    """Bytes of a value, or None where its shape is not known."""
    if value.const_value is not None:
        return int(value.const_value.nbytes)
    if value.shape is None or not value.shape.is_static():
        return None
    width = 8.0
    if value.dtype not in (None, ir.DataType.STRING, ir.DataType.UNDEFINED):
        width = value.dtype.itemsize
    size: int = math.ceil(math.prod(value.shape.numpy()) * width)
    return size


def _is_ours(node: ir.Node) -> bool:
    """Tell whether our own code folds a node: ONNX's reference errs for some of them."""
    return node.op_type in COMPUTED and node.op_type not in _SLOW and not node.domain


def _results(node: ir.Node, budget: _Budget) -> list[np.ndarray] | None:
    """Compute a node of constants in NumPy; None if it is not ours, not constant, or too large."""
    compute = COMPUTED.get(node.op_type) if _is_ours(node) else None
    shapes = [static_shape(value) for value in node.outputs]
    known = all(value is None or is_constant(value) for value in node.inputs)
    known = known and not passes_in_python(node)
    sized = None not in shapes or node.op_type in _DATA_DEPENDENT
    if compute is None or not sized or not known:
        return None
    if any(value.is_graph_output() for value in node.outputs) or not budget.allows(node):
        return None
    if "kernel_shape" in node.attributes:
        resolve_node(node)
    operands = [constant(value) for value in node.inputs]
    try:
        with np.errstate(all="ignore"):
            results = compute(dict(attributes_of(node)), operands, [s or () for s in shapes])
    except MemoryError:
        raise
    except Exception as error:
        raise _failed(node, error) from error
    return [_owned(np.asarray(result)) for result in results]


def _owned(array: Array) -> Array:
    """Copy an array into C order: nobody else may hold the memory of a constant."""
    own = np.empty(array.shape, array.dtype)
    longer = [axis for axis, size in enumerate(array.shape) if size > 1]
    near = min(longer, key=lambda axis: abs(array.strides[axis]), default=-1)
    if array.nbytes < _LARGE_COPY or not longer or near == longer[-1]:
        own[...] = array
        return own
    # NumPy would read, or write, an element of each cache line, again and again.
    axes = (near, longer[-1]), (0, 1)
    read, written = np.moveaxis(array, *axes), np.moveaxis(own, *axes)
    for i, j in itertools.product(*(range(0, size, _BLOCK) for size in read.shape[:2])):
        block = slice(i, i + _BLOCK), slice(j, j + _BLOCK)
        written[block] = read[block]
    return own


def _compute(graph: ir.Graph, budget: _Budget) -> int:
    """Fold the nodes of several outputs that NumPy computes; give how many."""
    count = 0
    for node in list(graph):
        results = _results(node, budget) if len(node.outputs) > 1 else None
        if results is None:
            continue
        for value, array in zip(node.outputs, results, strict=False):
            if value.name:
                _replace(graph, value, array)
        graph.remove(node, safe=True)
        count += 1
    return count


def _replace(graph: ir.Graph, value: ir.Value, array: np.ndarray) -> None:
    """Replace a value by a constant of the same name."""
    tensor = ir.Tensor(array, name=value.name)
    known = ir.Value(
        name=value.name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype),
        const_value=tensor,
    )  # fmt: skip
    value.replace_all_uses_with(known)
    value.name = None
    graph.register_initializer(known)


def _repeat_values(graph: ir.Graph) -> int:
    """Fold the remaining ConstantOfShape nodes; give how many."""
    count = 0
    for node in list(graph):
        if node.op_type != "ConstantOfShape" or node.domain or not is_constant(node.inputs[0]):
            continue
        shape = tuple(int(size) for size in node.inputs[0].const_value.numpy())
        attribute = node.attributes.get("value")
        value = np.zeros(1, np.float32) if attribute is None else attribute.value.numpy()
        fits = math.prod(shape) * value.itemsize <= _REPEATED_BYTES
        if any(size < 0 for size in shape) or value.size != 1 or not fits:
            continue
        output = node.outputs[0]
        if output.is_graph_output():
            continue
        tensor = ir.Tensor(np.broadcast_to(value.reshape(()), shape), name=output.name)
        name = output.name
        graph.remove(node, safe=False)
        constant = ir.Value(
            name=name,
            shape=ir.Shape(shape),
            type=ir.TensorType(tensor.dtype),
            const_value=tensor,
        )
        output.replace_all_uses_with(constant)
        graph.register_initializer(constant)
        count += 1
    return count
