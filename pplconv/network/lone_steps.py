"""Nodes at a cut that loops compute: programs of one node, for the sizes of a call.

Products by known weights take any number of rows. Their programs are for numbers of rows that are
rounded up, so that few programs serve all numbers; rows beyond the given ones are zeros, whose
products nobody reads.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import planner
from .._lazy import functions_later
from .._records import record
from ..memory.arrays import empty_aligned
from ..ops.program import Program
from ..ops.refused import Refused
from ..runtime import ForkableLock
from . import arena
from .builder import Builder
from .nodes import Constants, Graph, Node
from .onnx_later import ir
from .operators.table import row_of
from .operators.table_row import Loops
from .plan_settings import Settings
from .storage import Array, Buffer, Shape, Value, place_of, strides_of
from .values import is_constant

if TYPE_CHECKING:
    from .operators import region_steps
else:
    region_steps = functions_later(__package__, "operators.region_steps")

__all__ = ["Alone", "in_loops", "runs_alone"]

# Programs of a product that are kept. Rounded up, numbers of rows have eight between two powers.
_MOST_PROGRAMS = 32
_LEAST_ROWS = 8
_PRODUCTS = frozenset(("Gemm", "MatMul"))

Call = Callable[..., Sequence[Any]]


@record
class Alone:
    """Belongings of the lone nodes of a program that is cut.

    Parameters
    ----------
    settings : Settings
        Settings of plans.
    packed : dict
        Packed weights that programs of a session share.
    used : set
        Keys of the weights that lone nodes use.
    """

    settings: Settings
    packed: dict[Any, Any]
    used: set[Any] = field(default_factory=set)

    def builder(self) -> Builder:
        """Give the builder of a program of one node."""
        isa = planner.default_context("f32").isa
        return Builder(self.settings, isa, self.packed, used=self.used)


def runs_alone(node: ir.Node) -> bool:
    """Tell whether a heavy node runs at a cut, for any number of rows."""
    if node.domain:
        return False
    if node.op_type in _PRODUCTS:
        transposed = node.attributes.get("transA")
        weight = node.inputs[1]
        return (
            all(value is None or is_constant(value) for value in node.inputs[1:])
            and weight is not None
            and weight.shape is not None
            and len(weight.shape) == 2
            and not (transposed is not None and transposed.as_int())
        )
    return node.op_type in _SHAPES


def _of_roi_align(node: Node, arrays: Sequence[Array]) -> Shape | None:
    x, regions, _ = arrays
    return (
        region_steps.roi_align_shape(node, x.shape, len(regions))
        if x.ndim == 4 and regions.ndim
        else None
    )


def _of_first(node: Node, arrays: Sequence[Array]) -> Shape | None:
    return arrays[0].shape


# Shapes of the results of operators that are worth a program a call; results are of the first type.
_SHAPES: Mapping[str, Callable[[Node, Sequence[Array]], Shape | None]] = {
    "LogSoftmax": _of_first,
    "RoiAlign": _of_roi_align,
    "Softmax": _of_first,
}


def in_loops(node: Node, call: Call, alone: Alone) -> Call:
    """Give the function of a node: loops where they serve the arrays, else a given function.

    Parameters
    ----------
    node : Node
        A node at a cut.
    call : callable
        Takes an array for each name that the node reads, once each.
    alone : Alone
        The settings of plans, and packed weights.
    """
    loops, source = row_of(node.op).loops, node.source
    names = [name for name in node.inputs if name]
    if loops is None or source is None or len(set(names)) < len(names) or len(node.outputs) != 1:
        return call
    if node.op in _PRODUCTS and runs_alone(source):
        return _product(node, loops, call, alone)
    find = _SHAPES.get(node.op)
    if find is None:
        return call

    def choose(*arrays: Array) -> Sequence[Any]:
        shape = find(node, arrays)
        if shape is None or not all(array.size for array in arrays):
            return call(*arrays)
        graph = _graph(node, arrays, shape)
        if not loops.serves(node, graph):
            return call(*arrays)
        return [_run(_made(node, loops, graph, alone), graph, arrays)]

    return choose


def _product(node: Node, loops: Loops, call: Call, alone: Alone) -> Call:
    programs: OrderedDict[Any, tuple[Graph, Program]] = OrderedDict()
    making = ForkableLock()

    def find(x: Array, known: Sequence[Array]) -> tuple[Graph, Program] | None:
        key = len(x), x.dtype
        with making:
            if key not in programs:
                columns = known[0].shape[1 - int(node.attributes.get("transB", 0))]
                graph = _graph(node, [x, *known], (len(x), columns), known=True)
                if not loops.serves(node, graph):
                    return None
                programs[key] = graph, _made(node, loops, graph, alone)
                while len(programs) > _MOST_PROGRAMS:
                    programs.popitem(last=False)
            programs.move_to_end(key)
            return programs[key]

    def multiply(x: Array, *known: Array) -> Sequence[Any]:
        matrix = known[0]
        depth = matrix.shape[int(node.attributes.get("transB", 0))]
        if x.ndim < 2 or x.shape[-1] != depth or x.dtype != matrix.dtype or not x.size:
            return call(x, *known)
        rows = x.reshape(-1, depth)
        given = len(rows)
        wanted = _rounded(given)
        if wanted != given:
            padded = empty_aligned((wanted, depth), x.dtype)
            padded[:given] = rows
            padded[given:] = 0
            rows = padded
        found = find(rows, known)
        if found is None:
            return call(x, *known)
        graph, program = found
        return [_run(program, graph, [rows])[:given].reshape(*x.shape[:-1], -1)]

    return multiply


def _rounded(rows: int) -> int:
    """Round up a number of rows, by an eighth at most where there are many."""
    step = max(_LEAST_ROWS, 1 << max(rows.bit_length() - 4, 0))
    return -(-rows // step) * step


def _graph(node: Node, arrays: Sequence[Array], shape: Shape, *, known: bool = False) -> Graph:
    """Give the graph of one node; operands behind the first may be constants."""
    reads = [name for name in node.inputs if name]
    names = [*reads, *node.outputs]
    shapes = dict(zip(names, [*(array.shape for array in arrays), shape], strict=True))
    dtypes = dict(zip(names, [*(array.dtype for array in arrays), arrays[0].dtype], strict=True))
    constants = Constants()
    if known:
        for name, array in zip(reads[1:], arrays[1:], strict=True):
            constants.add_array(name, array)
        reads = reads[:1]
    return Graph([node], shapes, dtypes, constants, reads, node.outputs)


def _made(node: Node, loops: Loops, graph: Graph, alone: Alone) -> Program:
    """Make the program of a node, whose operands and result are its arrays."""
    builder = alone.builder()
    builder.values.constants = graph.constants
    names = [*graph.inputs, *graph.outputs]
    places = [_external(graph, name, number) for number, name in enumerate(names)]
    builder.values.update(zip(graph.inputs, places, strict=False))
    (result,) = graph.outputs
    builder.wanted[result] = places[-1]
    loops.lower(node, builder, graph)
    # Places are known once the arena is arranged.
    size = arena.arrange(arena.lives(builder.steps))
    steps = [
        (step.work, {k: place_of(v) for k, v in step.places.items()}) for step in builder.steps
    ]
    settings = alone.settings
    team, most = planner.team_size(settings.threads), planner.share(settings.threads)
    sizes = [place.buffer.size for place in places]
    return Program(steps, size, sizes, team, most, settings.max_workspace)


def _external(graph: Graph, name: str, number: int) -> Value:
    shape, dtype = graph.shapes[name], graph.dtypes[name]
    size = dtype.itemsize * int(np.prod(shape, dtype=object))
    strides = strides_of(shape, dtype.itemsize)
    return Value(shape, dtype, strides, Buffer(size, external=number))


def _run(program: Program, graph: Graph, arrays: Sequence[Array]) -> Array:
    """Run a program on arrays."""
    (name,) = graph.outputs
    result = empty_aligned(graph.shapes[name], graph.dtypes[name])
    given = [np.require(array, requirements=("A", "C")) for array in arrays]
    frame = program.frame()
    try:
        program.run(frame, [*given, result], 0, len(program.steps))
    except Refused as error:
        raise IndexError(str(error)) from error
    finally:
        program.give_back(frame)
    return result
