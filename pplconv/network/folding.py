"""Constant folding, within bounds of memory and time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
import onnx_ir.passes.common as passes
from onnxscript.optimizer._constant_folding import FoldConstantsPass, Replacement, registry

from .inferring import infer_outputs
from .names import have_unique_names
from .node_checks import ContradictionError, check_node, check_sizes
from .nodes import attributes_of
from .operands import end_before_the_first, reduce_once
from .operators.table import COMPUTED
from .padding import POOLS, infer_pool, resolve_node, settle_pool
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
# A SplitToSequence of more parts stays: a small file could ask for any number of results.
_MOST_PARTS = 64
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
            _Fold(budget)(model)
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
    passes.RemoveUnusedNodesPass()(model)


class _Fold(FoldConstantsPass):
    """onnxscript's pass, with our checks before each node.

    A node's attributes are checked before its shapes are inferred or its results computed. Shapes
    are ours where ONNX infers other shapes than onnxruntime computes.
    """

    def __init__(self, budget: _Budget) -> None:
        super().__init__(
            shape_inference=True, input_size_limit=1 << 40, output_size_limit=1 << 40,
            should_fold=budget.should_fold,
        )  # fmt: skip
        self._budget = budget

    def call(self, model: ir.Model) -> Any:
        """See `FoldConstantsPass`, which looks for names to mend, though there are hardly any."""
        self._reset()
        self._opset_imports = model.opset_imports
        self.visit_graph(model.graph)
        if self._modified and not have_unique_names(model.graph):
            passes.NameFixPass()(model)
        return ir.passes.PassResult(model, self._modified)

    def _do_inference(self, node: ir.Node) -> None:
        """See `FoldConstantsPass`, which asks ONNX about each node."""
        if node.domain or not infer_outputs(node):
            super()._do_inference(node)

    def _prepare_folded_tensor(
        self, node: ir.Node, output_name: str, output_array: Any
    ) -> ir.Tensor | None:
        """See `FoldConstantsPass`, whose checks take longer than small arrays take to compute."""
        if type(output_array) is np.ndarray and output_array.dtype.kind in "fiub":
            return ir.Tensor(output_array, name=output_name)
        return super()._prepare_folded_tensor(node, output_name, output_array)

    def replace_node(self, node: ir.Node, replacement: Replacement, root: Any) -> None:
        """See `FoldConstantsPass`, which also records the names of all replaced operands."""
        operands = [value for value in node.inputs if value is not None]
        if replacement.new_nodes or len(node.outputs) > 1:
            ir.convenience.replace_nodes_and_values(
                root, node, [node], replacement.new_nodes, node.outputs, replacement.new_outputs
            )
        else:
            _replace_one(node, replacement.new_outputs[0])
        for value in operands:
            unused = not value.uses() and not value.is_graph_output()
            if unused and value.is_initializer() and value.graph is not None:
                value.graph.initializers.pop(str(value.name))
        self._modified = True

    def process_node(self, node: ir.Node, is_function: bool) -> Any:
        """See `FoldConstantsPass`."""
        for value in node.inputs:
            # The pass keeps the inferred shape of a folded node for its constant.
            if is_constant(value) and static_shape(value) is None:
                value.shape = ir.Shape(value.const_value.shape)
        check_node(node)
        if not node.domain:
            _as_onnxruntime(node)
        small = self._of_sizes(node)
        if small is not None:
            return small
        replacement = None
        if self._stays(node):
            self._read_known(node)
            self._do_inference(node)
        elif _may_be_rewritten(node):
            replacement = super().process_node(node, is_function) or self._folded(node)
        else:
            self._do_inference(node)
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

    def visit_node(self, node: ir.Node, root: Any) -> None:
        """See `FoldConstantsPass`, which looks at each attribute."""
        replacement = self.process_node(node, is_function=False)
        if replacement is not None:
            self.replace_node(node, replacement, root)
            return
        for graph in subgraphs_of(node):
            self.visit_graph(graph)

    def _stays(self, node: ir.Node) -> bool:
        """Tell whether nothing can replace a node: it is not constant, and has no rewriting."""
        if node.domain or is_flow(node) or node.op_type == "Constant":
            return False
        if all(value is None or value.const_value is not None for value in node.inputs):
            return False
        return not registry.lookup_evaluators("", node.op_type, self._opset_imports[""])

    def _read_known(self, node: ir.Node) -> None:
        """Read the values that stand for a node's operands, as `FoldConstantsPass` does."""
        for place, value in enumerate(node.inputs):
            known = self._state.get_sym_value(value)
            if isinstance(known, ir.Value):
                node.replace_input_with(place, known)
                self._modified = True

    def _of_sizes(self, node: ir.Node) -> Replacement | None:
        """Fold a node that computes sizes or indices, without inference: models have thousands."""
        if node.domain or len(node.outputs) != 1 or node.outputs[0].is_graph_output():
            return None
        result = _known_shape(node) if node.op_type == "Shape" else _on_sizes(node)
        value = None if result is None else self.new_initializer(node, result)
        if value is None or node.graph is None:
            return None
        node.graph.register_initializer(value)
        return Replacement([value], [])

    def _folded(self, node: ir.Node) -> Replacement | None:
        """Fold a node of one output that NumPy computes."""
        results = _results(node, self._budget) if len(node.outputs) == 1 else None
        if results is None or node.graph is None:
            return None
        value = self.new_initializer(node, results[0])
        if value is None:
            return None
        node.graph.register_initializer(value)
        return Replacement([value], [])


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


def _may_be_rewritten(node: ir.Node) -> bool:
    """Tell whether onnxscript may rewrite a node.

    It makes a Cast of a CastLike and loses attributes; and a Split of a SplitToSequence, be it of
    many parts, and fails where their sizes are not known.
    """
    if node.domain or node.op_type not in ("CastLike", "SplitToSequence"):
        return True
    if node.op_type == "CastLike":
        return not node.attributes
    if len(node.inputs) < 2:
        return True
    x, split = node.inputs[0], constant(node.inputs[1])
    shape, axis = static_shape(x), attribute_int(node, "axis", 0)
    if split is None or shape is None or not -len(shape) <= axis < len(shape):
        return False
    if split.ndim:
        return split.ndim == 1 and 0 < split.size <= _MOST_PARTS
    size = int(split)
    return 0 < size <= shape[axis] <= size * _MOST_PARTS


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


class _Budget:
    """Decides which nodes are folded, within a budget of memory."""

    def __init__(self) -> None:
        self.left = _TOTAL_BYTES

    def should_fold(self, node: ir.Node) -> bool | None:
        """Say whether to fold a node, all of whose inputs are constant."""
        if node.domain or node.op_type in _SLOW or _is_ours(node) or passes_in_python(node):
            return False
        return self.allows(node)

    def allows(self, node: ir.Node) -> bool | None:
        """Say whether memory and time suffice for a node's outputs, and reserve them."""
        total = _output_bytes(node)
        if total is None or total > min(FOLD_BYTES, self.left):
            return False
        if node.op_type == "ConstantOfShape" and total > _VIEW_BYTES:
            return False
        if node.op_type in _PRODUCTS and total * _depth(node) > 4 * _PRODUCT_OPERATIONS:
            return False
        self.left -= total
        # None would apply onnxscript's own list, which refuses ConstantOfShape.
        return True if node.op_type == "ConstantOfShape" else None


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
    if any(value.is_graph_output() for value in node.outputs) or budget.allows(node) is False:
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
        raise _FoldingError(
            f"model cannot be folded: {describe(node)}: {type(error).__name__}: {printable(error)}"
        ) from error
    # Nobody else may hold the memory of a constant.
    return [np.array(result, order="C") for result in results]


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
