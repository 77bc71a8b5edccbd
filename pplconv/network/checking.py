"""Checks of a parsed model, before anything is built from it.

No check allocates memory of a size that the file claims: sizes are Python integers, and are
compared with the bytes present.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx

from .subgraphs import may_have_graphs
from .tensor_checking import check_tensor, describe_node, iterate_tensors, subgraphs
from .texts import printable

__all__ = ["MAX_DEPTH", "MAX_NODES", "OLDEST_OPSET", "check_model", "is_foreign"]

# The opset of the files that PyTorch is tested with.
OLDEST_OPSET = 6
MAX_DEPTH = 16
"""Deepest nesting of subgraphs, and longest chain of local functions."""
MAX_NODES = 200_000
"""Most nodes of a model, its local functions inlined."""

_STANDARD = ("", "ai.onnx")
# ONNX's checker refuses these operators from the first opset to the second; real files have them.
_WITHDRAWN = {"GroupNormalization": (18, 21)}


# Operators that onnxruntime has in ONNX's domain, and the opset in which ONNX has them, if any.
_FOREIGN = {"LayerNormalization": 17, "SimplifiedLayerNormalization": None}


def is_foreign(operator: str, domain: str, version: int) -> bool:
    """Tell whether an operator of ONNX's domain is onnxruntime's.

    Parameters
    ----------
    operator, domain : str
        Of a node.
    version : int
        The model's opset.

    Returns
    -------
    bool
    """
    if domain not in _STANDARD or operator not in _FOREIGN:
        return False
    first = _FOREIGN[operator]
    return first is None or version < first


def check_model(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Refuse a model that contradicts itself.

    Parameters
    ----------
    model : onnx.ModelProto
        A parsed model.

    Returns
    -------
    list of onnx.TensorProto
        The tensors whose data lie in other files.

    Raises
    ------
    ValueError
        If it has no graph, an opset that is not supported, values that are undefined or defined
        twice, nodes in a cycle, operators used against their definition, tensors whose size
        contradicts their data, or nesting without measure.
    """
    if not model.HasField("graph"):
        raise ValueError("model has no graph")
    opsets = _opsets(model)
    functions = {
        (function.domain, function.name, function.overload): function
        for function in model.functions
    }
    if len(functions) != len(model.functions):
        raise ValueError("model defines a local function twice")
    nodes = _inlined_size(model, functions)
    if nodes > MAX_NODES:
        raise ValueError(f"model has {nodes} nodes: at most {MAX_NODES} are supported")
    tensors = list(iterate_tensors(model))
    for tensor in tensors:
        check_tensor(tensor)
    for function in model.functions:
        own = _versions(function.opset_import)
        names = [*function.input]
        _check_distinct(names, f"inputs of the local function {function.name!r}")
        _check_body(function.node, function.output, set(names), _context(own), functions, 1)
    if not model.graph.output:
        raise ValueError("model has no outputs")
    _check_graph(model.graph, set(), _context(opsets), functions, 0)
    return [each for each in tensors if each.data_location == onnx.TensorProto.EXTERNAL]


def _versions(entries: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    opsets: dict[str, int] = {}
    for entry in entries:
        if not isinstance(entry.domain, str):
            raise ValueError("model imports an opset whose name is not UTF-8")
        domain = "" if entry.domain in _STANDARD else entry.domain
        if not 0 < entry.version < 1 << 31:
            raise ValueError(
                f"model imports the version {entry.version} of the opset {domain or 'ai.onnx'!r}"
            )
        if opsets.setdefault(domain, entry.version) != entry.version:
            raise ValueError(f"model imports two versions of the opset {domain or 'ai.onnx'!r}")
    return opsets


def _opsets(model: onnx.ModelProto) -> dict[str, int]:
    opsets = _versions(model.opset_import)
    newest = onnx.defs.onnx_opset_version()
    version = opsets.get("")
    if version is None:
        raise ValueError("model imports no opset of ONNX")
    if not OLDEST_OPSET <= version <= newest:
        raise ValueError(
            f"model is of opset {version}: expected one from {OLDEST_OPSET} to {newest}"
        )
    return opsets


def _context(opsets: Mapping[str, int]) -> onnx.checker.C.CheckerContext:
    context = onnx.checker.C.CheckerContext()
    context.ir_version = onnx.IR_VERSION
    versions = dict(opsets)
    standard = next((versions[name] for name in _STANDARD if name in versions), None)
    if standard is not None:
        versions.update(dict.fromkeys(_STANDARD, standard))
    context.opset_imports = versions
    return context


_Functions = Mapping[tuple[str, str, str], onnx.FunctionProto]


def _inlined_size(model: onnx.ModelProto, functions: _Functions) -> int:
    """Count the nodes after all functions are inlined."""
    sizes: dict[tuple[str, str, str], int] = {}
    open_calls: list[tuple[str, str, str]] = []

    def size_of(nodes: Iterable[onnx.NodeProto], depth: int) -> int:
        if depth > MAX_DEPTH:
            raise ValueError(f"model nests subgraphs more than {MAX_DEPTH} deep")
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type, node.overload)
            total += function_size(key) if key in functions else 1
            for graph in subgraphs(node):
                total += size_of(graph.node, depth + 1)
        return total

    def function_size(key: tuple[str, str, str]) -> int:
        if key not in sizes:
            if key in open_calls:
                raise ValueError(f"model has a local function that calls itself: {key[1]!r}")
            if len(open_calls) >= MAX_DEPTH:
                raise ValueError(f"model nests local functions more than {MAX_DEPTH} deep")
            open_calls.append(key)
            sizes[key] = size_of(functions[key].node, 0)
            open_calls.pop()
        return sizes[key]

    for key in functions:
        function_size(key)
    return size_of(model.graph.node, 0)


def _check_distinct(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if not name:
            raise ValueError(f"model has a name missing among the {what}")
        if name in seen:
            raise ValueError(f"model has {name!r} twice among the {what}")
        seen.add(name)


def _check_graph(
    graph: onnx.GraphProto,
    outer: set[str],
    context: onnx.checker.C.CheckerContext,
    functions: _Functions,
    depth: int,
) -> None:
    inputs = [value.name for value in graph.input]
    initializers = [tensor.name for tensor in graph.initializer]
    outputs = [value.name for value in graph.output]
    _check_distinct(inputs, "inputs")
    _check_distinct(initializers, "initializers")
    if not depth:
        _check_distinct(outputs, "outputs")
    own = {*inputs, *initializers}
    _check_body(graph.node, outputs, own, context, functions, depth, outer)


def _check_body(
    nodes: Iterable[onnx.NodeProto],
    outputs: Iterable[str],
    own: set[str],
    context: onnx.checker.C.CheckerContext,
    functions: _Functions,
    depth: int,
    outer: set[str] | None = None,
) -> None:
    """Check that each value is defined once, and all before they are used in some order."""
    nodes = list(nodes)
    # Each field of a protobuf is read once: models have thousands of nodes.
    read = [_read(node) for node in nodes]
    known = own | (outer or set())
    producers: dict[str, int] = {}
    for index, (_, results, _) in enumerate(read):
        for name in filter(None, results):
            if name in own or name in producers:
                raise ValueError(f"model defines the value {name!r} twice")
            producers[name] = index
    needs: list[set[int]] = []
    in_order = True
    for index, (operands, _, graphs) in enumerate(read):
        used = set(filter(None, operands))
        for graph in graphs:
            used |= _free_names(graph)
        # A set difference would visit all producers for each node.
        missing = {name for name in used if name not in known and name not in producers}
        if missing:
            raise ValueError(
                f"model never defines the value {min(missing)!r} of {describe_node(nodes[index])}"
            )
        need = {producers[name] for name in used if name in producers and name not in own}
        in_order &= max(need, default=-1) < index
        needs.append(need)
    if not in_order:
        _check_acyclic(nodes, needs)
    for name in outputs:
        # A subgraph cannot output a value from outside directly: it needs an Identity.
        if name not in own and name not in producers:
            raise ValueError(f"model never defines its output {name!r}")
    everything = known | producers.keys()
    version = context.opset_imports.get("", 0)
    for node, (_, _, graphs) in zip(nodes, read, strict=True):
        for graph in graphs:
            _check_graph(graph, everything, context, functions, depth + 1)
        _check_attributes(node)
        operator, domain = node.op_type, node.domain
        foreign = is_foreign(operator, domain, version)
        defined = domain in _STANDARD and not foreign and not _calls(node, functions)
        if graphs and defined and not may_have_graphs(operator):
            raise ValueError(
                f"model has a subgraph at {describe_node(node)}, an operator without subgraphs"
            )
        if not graphs and defined:
            opsets = _definition(node, context) if operator in _WITHDRAWN else context
            try:
                onnx.checker.check_node(_short(node), opsets)
            except onnx.checker.ValidationError as error:
                reason = printable(str(error).strip().splitlines()[0])
                raise ValueError(f"model is wrong at {describe_node(node)}: {reason}") from error


def _calls(node: onnx.NodeProto, functions: _Functions) -> bool:
    return (node.domain, node.op_type, node.overload) in functions


def _definition(
    node: onnx.NodeProto, context: onnx.checker.C.CheckerContext
) -> onnx.checker.C.CheckerContext:
    """Give the opsets to check a node against: a later one if its own is withdrawn."""
    opsets = dict(context.opset_imports)
    first, next_one = _WITHDRAWN.get(node.op_type, (0, 0))
    if not first <= opsets.get("", 0) < next_one:
        return context
    return _context({**opsets, **dict.fromkeys(_STANDARD, next_one)})


def _short(node: onnx.NodeProto) -> onnx.NodeProto:
    """Give a node with the short name of ONNX's own domain, as the checker requires."""
    if not node.domain:
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.ClearField("domain")
    return copy


_Read = tuple[list[str], list[str], list[onnx.GraphProto]]


def _read(node: onnx.NodeProto) -> _Read:
    """Give the operands, the results and the subgraphs of a node; refuse names without text."""
    operands, results, attributes = list(node.input), list(node.output), list(node.attribute)
    texts = [node.name, node.op_type, node.domain, node.overload, node.doc_string]
    texts += [*operands, *results, *(attribute.name for attribute in attributes)]
    # A protobuf gives bytes in place of text that is not UTF-8.
    if {*map(type, texts)} != {str}:
        raise ValueError(f"model has a name that is not UTF-8 at {describe_node(node)}")
    return operands, results, subgraphs(node) if attributes else []


def _check_attributes(node: onnx.NodeProto) -> None:
    attributes = list(node.attribute)
    if len({attribute.name for attribute in attributes}) < len(attributes):
        raise ValueError(f"model has an attribute twice at {describe_node(node)}")
    for attribute in attributes:
        for text in (attribute.s, *attribute.strings):
            try:
                text.decode()
            except UnicodeDecodeError:
                raise ValueError(
                    f"model has a text that is not UTF-8 at {describe_node(node)}: the attribute "
                    f"{attribute.name!r}"
                ) from None


def _free_names(graph: onnx.GraphProto) -> set[str]:
    """Names that a subgraph reads from outside."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    used = {value.name for value in graph.output}
    for node in graph.node:
        own.update(node.output)
        used.update(node.input)
        for inner in subgraphs(node):
            used |= _free_names(inner)
    return used - own - {""}


def _check_acyclic(nodes: list[onnx.NodeProto], needs: list[set[int]]) -> None:
    waiting = [len(need) for need in needs]
    users: list[list[int]] = [[] for _ in nodes]
    for index, need in enumerate(needs):
        for producer in need:
            users[producer].append(index)
    ready = [index for index, count in enumerate(waiting) if not count]
    done = 0
    while ready:
        done += 1
        for user in users[ready.pop()]:
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    if done != len(nodes):
        index = next(index for index, count in enumerate(waiting) if count)
        raise ValueError(f"model has a cycle through {describe_node(nodes[index])}")
