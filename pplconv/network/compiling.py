"""Compiles a graph of known shapes into a program."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import planner
from .._lazy import functions_later
from . import arena
from .attention import Attention, Item, with_attention
from .bands.groups import groups_of
from .bands.lowering import Lowering, lower_group, plans_of
from .batches import batched_names, for_images, images_at_once
from .builder import Builder, NoSuchPlan, Own
from .bytewise import table_of, with_tables
from .compiled import Compiled, program_of
from .formats import half_level, with_formats
from .fusion import Chain, chains, computed_in, inputs_of, written
from .host_steps import host_step
from .layouts import in_planes
from .narrow_storage import SINGLE, Prices, brain_type, in_narrow_type, seen_as, served_as
from .nodes import Graph, Node, graph_of
from .onnx_later import ir
from .operators.convolution import prices
from .operators.either_type import prices_of_types, takes_either_type
from .operators.elementwise_steps import BRAIN, Stream, emit_outputs, emit_program
from .operators.result_placement import plan_concats, plan_views
from .operators.table import row_of
from .operators.table_row import Format, Moves, View
from .paying_team import with_team
from .plan_settings import Settings
from .search_progress import in_parts
from .storage import (
    Buffer,
    Shape,
    Value,
    channels_last,
    strides_of,
)
from .tensors import release_files

if TYPE_CHECKING:
    from ..planner.racing import Progress
    from . import attention_step
else:
    attention_step = functions_later(__package__, "attention_step")


def compile_model(
    model: ir.Model,
    settings: Settings,
    packed: dict[Any, Any] | None = None,
    planned: dict[Any, Any] | None = None,
    progress: Progress | None = None,
    banded: bool = True,
) -> Compiled:
    """Make the program of a specialised model.

    Parameters
    ----------
    model : onnx_ir.Model
        With the shapes of all values.
    settings : Settings
        What plans are made with.
    packed : dict, optional
        Packed weights of other programs of the same model.
    planned : dict, optional
        Plans to reuse; receives all new plans.
    progress : callable, optional
        Called with the share done, and a text, while plans are searched.
    banded : bool
        Whether groups of steps may run band by band. A program with repeats of its own cannot be
        the body of one.
    """
    half = half_level()
    graph = with_formats(graph_of(model), settings, half)
    items, graph = chains(graph)
    batched = batched_names(graph)
    times = 1
    if batched:
        batch = graph.shapes[graph.inputs[0]][0]
        images = images_at_once(graph, items, batched, planner.kept_bytes())
        if images < batch:
            times = batch // images
            graph = for_images(graph, batched, images)
            items, graph = chains(graph)
    builder, externals = _begun(
        graph, settings, packed if packed is not None else {},
        planned=planned if planned is not None else {},
        progress=in_parts(progress, graph) if progress is not None else None,
    )  # fmt: skip
    items = with_tables(items, graph, builder.isa)
    joined = with_attention(items, graph)
    narrow = _with_narrow_storage(builder, graph, joined)
    builder.planes = in_planes(
        graph, items, lambda node: prices(node, builder, graph),
        lambda name: planner.turning_cycles(
            graph.shapes[name], builder.stored(name, graph.dtypes[name]).itemsize
        ),
    )  # fmt: skip
    plan_views(graph, builder)
    plan_concats(graph, builder)
    _lower_items(joined, builder, graph, narrow, banded)
    release_files(model)
    return _finished(builder, graph, externals, model, planner.share(settings.threads), times)


def compile_layers(
    graph: Graph,
    settings: Settings,
    layout: str,
    own: Mapping[str, Own],
    packed: dict[Any, Any],
    narrow: frozenset[str],
    times: int = 1,
) -> Compiled:
    """Make the program of a graph of layers, for which all is decided but the bands.

    Parameters
    ----------
    graph : Graph
        Its input and its output are images.
    settings : Settings
        What plans are made with.
    layout : str
        ``"NHWC"`` or ``"NCHW"``: of all images.
    own : mapping of str to Own
        By the results of convolutions: what their layers have.
    packed : dict
        Packed weights of other programs of the same layers.
    narrow : frozenset of str
        Images of bfloat16, which are float32 in the graph.
    times : int
        Runs for the whole batch, each for a part of the images.

    Raises
    ------
    NoSuchPlan
        If there are no plans like these for a part of the images.
    """
    if not all(row_of(node.op).is_served(node, graph) for node in graph.nodes):
        raise NoSuchPlan("no loop serves a layer")
    order = channels_last(4) if layout == "NHWC" else tuple(range(4))
    builder, externals = _begun(
        graph, settings, packed, order, narrow=narrow, narrow_type=BRAIN
    )  # fmt: skip
    builder.take_over(own)
    if layout == "NCHW":
        builder.planes = frozenset(name for node in graph.nodes for name in node.outputs)
    _lower_items(graph.nodes, builder, graph, None, True)
    return _finished(builder, graph, externals, None, planner.share(settings.threads), times)


def _begun(
    graph: Graph, settings: Settings, packed: dict[Any, Any], order: Shape | None = None,
    **more: Any,
) -> tuple[Builder, list[Value]]:  # fmt: skip
    """Give a new builder, and the caller's arrays, which lie in an order of dimensions."""
    # For the steps outside plans; lower instruction sets serve the other types.
    isa = half_level() or planner.default_context("f32").isa
    builder = Builder(with_team(settings, graph), isa, packed, **more)
    return builder, _bound_externals(builder, graph, order)


def _lower_items(
    items: Sequence[Node | Chain | Attention], builder: Builder, graph: Graph,
    narrow: Graph | None, banded: bool,
) -> None:  # fmt: skip
    """Lower all items; if `banded`, groups of them band by band."""

    def lower(item: Node | Chain, graph: Graph, narrow: Graph | None) -> None:
        _lower_item(item, builder, graph, narrow)

    network = Lowering(builder, graph, narrow, lower)
    groups = {} if not banded else groups_of(
        items, graph, builder.planes, frozenset(builder.wanted),
        lambda name: math.prod(graph.shapes[name])
        * builder.stored(name, graph.dtypes[name]).itemsize,
        lambda item: plans_of(item, network), planner.team_size(builder.settings.threads),
    )  # fmt: skip
    done = 0
    for number, item in enumerate(items):
        if number < done:
            continue
        group = groups.get(number)
        if group is not None and lower_group(group, network):
            done = number + len(group.members)
        elif not isinstance(item, Attention):
            lower(item, graph, narrow)
        elif not _is_fused(item, builder, graph):
            for part in item.items:
                lower(part, graph, narrow)


def _bound_externals(builder: Builder, graph: Graph, order: Shape | None = None) -> list[Value]:
    """Give names the caller's arrays, inputs and outputs; results are written there if they can."""
    builder.values.constants = graph.constants
    externals = []
    for number, name in enumerate((*graph.inputs, *graph.outputs)):
        shape, dtype = graph.shapes[name], builder.stored(name, graph.dtypes[name])
        size = dtype.itemsize * int(np.prod(shape, dtype=object))
        strides = strides_of(shape, dtype.itemsize, order)
        externals.append(Value(shape, dtype, strides, Buffer(size, external=number)))
    count = len(graph.inputs)
    builder.values.update(zip(graph.inputs, externals[:count], strict=True))
    for name, place in zip(graph.outputs, externals[count:], strict=True):
        if name not in {*graph.constants, *graph.inputs, *builder.wanted}:
            builder.wanted[name] = place
    return externals


def _with_narrow_storage(builder: Builder, graph: Graph, items: Sequence[Item]) -> Graph | None:
    """Choose the values that are stored as bfloat16; give the graph of steps that compute in it."""
    precision = builder.settings.precision
    dtype = brain_type(precision)
    if dtype is None or SINGLE not in graph.dtypes.values():
        return None
    narrow = seen_as(graph, [SINGLE], dtype)

    def priced(item: Node | Attention) -> Prices:
        if isinstance(item, Attention):
            return attention_step.prices_of_attention(item, graph)
        return prices_of_types(item, builder, graph, dtype)

    builder.narrow_type = dtype
    builder.narrow = in_narrow_type(graph, narrow, items, priced, demanded=precision == "low_bf16")
    return narrow


def _is_fused(attention: Attention, builder: Builder, graph: Graph) -> bool:
    """Lower an attention as one step, if there is one for its arrays."""
    apart: set[str] = set()
    if graph.dtypes[attention.sums.outputs[0]] != SINGLE:
        apart = {name for part in attention.items for name in inputs_of(part)}
    with builder.reading(sorted(apart & builder.narrow & builder.values.keys()), SINGLE):
        return attention_step.lower_attention(attention, builder, graph)


def _lower_item(item: Node | Chain, builder: Builder, graph: Graph, narrow: Graph | None) -> None:
    """Lower a node or a chain; `narrow` is the graph of steps that compute in bfloat16."""
    if isinstance(item, Chain):
        others = item.inputs() if computed_in(item, graph) != SINGLE else []
        narrow_ones = [name for name in others if name in builder.narrow]
        with builder.reading(narrow_ones, SINGLE):
            _lower_chain(item, builder, graph)
        return
    own = builder.own.get(item.outputs[0])
    if own is not None and builder.followed is None:
        with builder.owning(own.prepared.plan):
            _lower(item, builder, graph)
        return
    row = row_of(item.op)
    stored = not builder.narrow.isdisjoint(item.outputs)
    kept = takes_either_type(item, graph) or row.view is not View.NO
    if narrow is not None and (row.format is Format.SUMS or (row.widens and not stored)):
        kept = served_as(item, narrow)
    if narrow is None or builder.narrow_type is None or (kept and served_as(item, graph)):
        _lower(item, builder, graph)
        return
    # Constants that a step computes with stay float32.
    moved = row.moves is Moves.ALL
    reads = [
        name for name in item.inputs[: row.arrays]
        if name and (moved or name not in graph.constants) and graph.dtypes[name] == SINGLE
    ]  # fmt: skip
    with builder.reading(reads, builder.narrow_type if stored else SINGLE):
        _lower(item, builder, narrow if stored else graph)


def _lower(node: Node, builder: Builder, graph: Graph) -> None:
    row = row_of(node.op)
    if row.loops is not None and row.loops.serves(node, graph):
        row.loops.lower(node, builder, graph)
        return
    names = list(dict.fromkeys(name for name in node.inputs if name))
    written = [name for name in node.outputs if name]
    if all(math.prod(graph.shapes[name]) == 0 for name in written):
        for name in written:
            builder.deliver(name, builder.new(graph.shapes[name], graph.dtypes[name]))
        return
    # Imported here: its checks need ONNX, which layers as a program do without.
    from .host_functions import function_of

    call = function_of(node, [graph.shapes[name] for name in written])
    values = [builder.new(graph.shapes[name], graph.dtypes[name]) for name in written]
    reads = [builder.values[name] for name in names]
    builder.emit(host_step(node.op, call, reads, values, written))
    for name, value in zip(written, values, strict=True):
        builder.deliver(name, value)


def _lower_chain(chain: Chain, builder: Builder, graph: Graph) -> None:
    name = chain.result
    shape, dtype = graph.shapes[name], builder.stored(name, graph.dtypes[name])
    names = [node.outputs[0] for node in chain.nodes]
    found = table_of(chain, graph, builder.isa)
    if found is not None:
        x = builder.values[found[0]]
        y = builder.target(name, shape, dtype, _order(builder.order(name, len(shape)), shape, [x]))
        emit_program(builder, [(y, 0)], [(x, 0)], [], chain.kind, names, found[1])
        builder.deliver(name, y)
        return
    program = written(chain, graph)
    inputs = [Stream(builder.values[n], number, pair) for n, number, pair in program.inputs]
    order = _order(builder.order(name, len(shape)), shape, [stream.value for stream in inputs])
    y = builder.target(name, shape, dtype, order)
    stored = Stream(y, program.result, program.stored)
    emit_outputs(builder, [stored], program.code, inputs, chain.kind, names, program.dtype)
    builder.deliver(name, y)


def _order(wanted: Shape, shape: Shape, inputs: Sequence[Value]) -> Shape:
    """Order of dimensions: the wanted one if an input has it, else that of the first input."""
    found = [value for value in inputs if value.shape == shape and value.constant is None]
    if not found or any(
        value.lies_as(strides_of(shape, value.dtype.itemsize, wanted)) for value in found
    ):
        return wanted
    return found[0].order


def _finished(
    builder: Builder, graph: Graph, externals: Sequence[Value], model: ir.Model | None, most: int,
    times: int,
) -> Compiled:  # fmt: skip
    """Deliver outputs, allocate the arena, and compile.

    At most `most` threads compute at once in all calls.
    """
    outputs = zip(graph.outputs, externals[len(graph.inputs) :], strict=True)
    for name, place in outputs:
        value = builder.values[name]
        if value.buffer.external != place.buffer.external or value.offset:
            builder.move(value, place, [name])
    steps = builder.steps
    arena_bytes = arena.arrange(arena.lives(steps, builder.repeats))
    sizes = [value.buffer.size for value in externals]
    threads = planner.team_size(builder.settings.threads)
    program, native = program_of(
        steps, builder.repeats, arena_bytes, sizes, threads, most,
        builder.settings.max_workspace, len(graph.inputs),
    )  # fmt: skip

    def told(names: list[str]) -> list[tuple[str, Shape, np.dtype[Any]]]:
        shapes = [graph.shapes[name] for name in names]
        if times > 1:
            shapes = [(times * shape[0], *shape[1:]) for shape in shapes]
        types = [graph.dtypes[name] for name in names]
        return list(zip(names, shapes, types, strict=True))

    return Compiled(
        program, steps, native, told(graph.inputs), told(graph.outputs), frozenset(builder.used),
        model, builder.planned, times, builder.repeats, builder.groups,
    )  # fmt: skip
