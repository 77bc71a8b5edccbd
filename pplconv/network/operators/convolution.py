"""Convolutions: planned as in `Conv2d`, on images in the chosen layout (see `layouts`)."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import planner
from ...arguments import checks
from ...arguments.activation import Activation
from ...memory.dtypes import DTYPES, name_of
from ...ops.placing import with_places
from ...ops.prepared import Activation as PlannedActivation
from ...ops.prepared import Prepared
from ...problem import ConvProblem
from ...sparsity import Sparsity
from ..builder import Builder
from ..kept_weights import packing_of, part_of_weights
from ..nodes import Graph, Node, as_type
from ..storage import Array, Shape, Step, Value, channels_last, strides_of
from .dilated import Part, parts_of
from .elementwise_steps import BRAIN, NATIVE
from .epilogue import Epilogue, emit_rest, epilogue_of, finish_of

if TYPE_CHECKING:
    from ..scaling import ScaledTensor

# The geometry of a product.
PLAIN: dict[str, Any] = {
    "stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1,
}  # fmt: skip
# Estimates err, and each part is a step of its own.
_LEAST_GAIN = 1.1


def problem_of(
    builder: Builder,
    x: Shape,
    weight: Shape,
    dtype: np.dtype[Any],
    geometry: dict[str, Any],
    layout: str,
    sparsity: Sparsity | None = None,
    *,
    result: np.dtype[Any] | None = None,
    computed: bool = False,
) -> ConvProblem:
    """Describe a convolution to the planner.

    Parameters
    ----------
    builder : Builder
        Its settings limit error, time and memory.
    x, weight : tuple of int
        Shapes in ONNX's order.
    dtype : numpy.dtype
        Of the input.
    geometry : dict
        See `emit_convolution`.
    layout : str
        ``"NHWC"`` or ``"NCHW"``.
    sparsity : Sparsity or None
        As of `ConvProblem`.
    result : numpy.dtype, optional
        Of residual and output; by default that of the input.
    computed : bool
        Whether the weights are computed; then their type is not narrowed.
    """
    key = x, weight, dtype, result, tuple(sorted(geometry.items())), layout, sparsity, computed
    if key not in builder.problems:
        n, ic, h, w = x
        name = name_of(dtype)
        precision = None if computed else _precision(builder, name)
        problem = checks.make_problem(
            (n, h, w, ic) if layout == "NHWC" else (n, ic, h, w), weight, name, **geometry,
            layout=layout, permitted=checks.check_precision(precision, name),
            sparsity=sparsity,
        )  # fmt: skip
        if result is not None and result != dtype:
            # Half precision has no results of other types.
            permitted = tuple(kind for kind in problem.permitted if kind != "f16")
            problem = replace(problem, destination=name_of(result), permitted=permitted)
        builder.problems[key] = problem
    return builder.problems[key]


def emit_convolution(
    builder: Builder,
    x: Value,
    weight: Array | ScaledTensor | Value,
    y: Value,
    epilogue: Epilogue,
    geometry: dict[str, Any],
    key: tuple[Any, ...],
    nodes: list[str],
    layout: str = "NHWC",
) -> None:
    """Add the steps of one convolution.

    Parameters
    ----------
    builder : Builder
        Gets the steps.
    x, y : Value
        Input and output, of four dimensions; both are NHWC, or both NCHW.
    weight : ndarray, ScaledTensor or Value
        (oc, ic / groups, kh, kw), of any strides; scaled weights are computed for packing, and a
        value's are packed in each run.
    epilogue : Epilogue
        Operations after the sums.
    geometry : dict
        ``stride``, ``padding`` as ((top, bottom), (left, right)), ``dilation``, ``groups``.
    key : (ndarray or ScaledTensor, ...)
        Identity of known weights: the object behind their constant, and the part of it. Equal
        keys mean equal weights.
    nodes : list of str
        Names of its nodes.
    layout : str
        ``"NHWC"`` or ``"NCHW"``.
    """
    n = x.shape[0]
    order = channels_last(4) if layout == "NHWC" else tuple(range(4))
    shape = tuple(int(size) for size in weight.shape)
    given = epilogue
    epilogue, alpha = epilogue.as_clip(shape[0])
    described = epilogue.described(shape[0])
    # Operations that the loops lack run after them, and so do all later ones.
    activation = described if described is not None else Activation("none")
    # Non-finite factors turn zeros into NaN.
    counted = math.isfinite(alpha)
    known = None if isinstance(weight, Value) else weight
    sparsity = None
    if counted and known is not None:
        sparsity = builder.sparsity(key, known, geometry["groups"])
    problem = problem_of(
        builder, x.shape, shape, x.dtype, geometry, layout, sparsity, result=y.dtype,
        computed=known is None,
    )  # fmt: skip
    if (problem.batch, problem.oc, problem.oh, problem.ow) != y.shape:
        # Otherwise outputs would stay unwritten, or writes would go out of bounds.
        raise ValueError(f"the convolution {problem} of {nodes} does not give {y.shape}")
    residual = epilogue.residual
    if residual is not None and residual.dtype != y.dtype:
        residual = builder.in_type(residual, y.dtype)
        epilogue = replace(epilogue, residual=residual)
    if residual is not None and not residual.lies_as(y.strides):
        residual = builder.contiguous(residual, order)
        if not residual.lies_as(y.strides):
            packed = builder.new(y.shape, y.dtype, order)
            inner = replace(epilogue, residual=residual)
            emit_convolution(builder, x, weight, packed, inner, geometry, key, nodes, layout)
            builder.copy(packed, y, nodes)
            return
    finite = known is None or builder.all_finite(key, known)
    fields: dict[str, Any] | None = None
    padded = any(itertools.chain(*geometry["padding"]))
    # Some algorithms multiply padding: infinite weights would give NaN there.
    for algorithm in planner.asked_in_turn("auto", finite):
        plan, dense = builder.plan(problem, algorithm, activation.epilogue, key)
        # Computed weights may be infinite, and loops get no others than packed ones.
        if known is None and (plan.transforms or (padded and dense["multiplies_padding"])):
            continue
        fields = with_places(dense, x, y) if layout == "NHWC" else dense
        if fields is not None:
            break
    if fields is None:
        # Copy arrays with strides that the loops cannot walk: only the input, if that is enough.
        tight = Value(x.shape, x.dtype, strides_of(x.shape, x.dtype.itemsize, order), x.buffer)
        if with_places(dense, tight, y) is not None:
            copied = builder.new(x.shape, x.dtype, order)
            builder.copy(x, copied, nodes)
            emit_convolution(builder, copied, weight, y, given, geometry, key, nodes)
            return
        whole = builder.new(y.shape, y.dtype, order)
        emit_convolution(builder, x, weight, whole, given, geometry, key, nodes)
        builder.copy(whole, y, nodes)
        return
    prepared = Prepared(problem, plan, fields, planner.share(builder.settings.threads))
    weights: Any
    if isinstance(weight, Value):
        weights = pack_computed(builder, prepared, weight, nodes)
    else:
        weights = builder.packed_once(
            part_of_weights(key, problem.groups, alpha, plan), packing_of(plan), prepared,
            scaled(weight, alpha, x.dtype),
        )  # fmt: skip
    bias = epilogue.bias
    if isinstance(bias, Value):
        bias = converted(builder, builder.contiguous(bias), DTYPES[plan.numerics.bias], nodes)
    elif bias is not None:
        with np.errstate(all="ignore"):
            bias = np.require(bias, DTYPES[plan.numerics.bias], ("A", "C"))
    # The loops have already added the residual.
    rest = replace(epilogue, residual=None)
    finish = after = None
    if described is not None and (not plan.numerics.converts_out or y.dtype == BRAIN):
        finish, after, rest = finish_of(rest, y, plan.numerics.bias)
    flops = 2 * problem.k * problem.output_pixels * problem.oc * n
    reads = [read for read in (x, residual, after, weights, bias) if isinstance(read, Value)]
    builder.emit(Step(
        prepared, reads, [y],
        {
            "x": x, "y": y, "residual": residual, "weights": weights,
            "bias": bias, "activation": PlannedActivation(activation, plan.numerics.bias),
            "finish": finish, "after": after,
        },
        "Conv", nodes, f"{plan.algorithm} {plan.kernel}, {problem}", flops=flops,
    ))  # fmt: skip
    emit_rest(builder, y, rest, described is None, nodes)


def pack_computed(builder: Builder, prepared: Prepared, weight: Value, nodes: list[str]) -> Value:
    """Add a step that packs computed weights; in a repeat, before it.

    Parameters
    ----------
    builder : Builder
        Gets the step.
    prepared : Prepared
        A plan whose loops read packed weights alone.
    weight : Value
        (oc, ic / groups, kh, kw), of any strides.
    nodes : list of str
        Names of its nodes.
    """
    dtype = DTYPES[prepared.plan.numerics.weights]
    dense = converted(builder, builder.contiguous(weight), dtype, nodes)
    packed = builder.new((prepared.packed_bytes,), np.dtype(np.uint8))
    places = {"arrays": [packed, dense]}
    step = Step(prepared.pack_work(), [dense], [packed], places, "Pack", nodes)
    step.detail = str(prepared.problem)
    builder.emit(step, once=True)
    return packed


def converted(builder: Builder, value: Value, dtype: np.dtype[Any], nodes: list[str]) -> Value:
    """Give a value in another type of floating point."""
    if value.dtype == dtype:
        return value
    other = builder.new(value.shape, dtype)
    builder.convert(value, other, nodes)
    return other


def scaled(
    weight: Array | ScaledTensor, alpha: float, dtype: np.dtype[Any]
) -> Array | ScaledTensor:
    """Scale weights by `alpha`, rounded to the given type."""
    if alpha == 1:
        return weight
    array = as_type(weight if isinstance(weight, np.ndarray) else weight.numpy(), dtype)
    return np.asarray(array * dtype.type(alpha))


def _precision(builder: Builder, dtype: str) -> str | None:
    """The session's precision, if it applies to arrays of this type."""
    precision = builder.settings.precision
    return precision if dtype in checks.PRECISIONS[precision] else None


def explicit_pads(node: Node, spatial: int = 2) -> Shape:
    """Pads of a node whose ``auto_pad`` is resolved: begins, then ends."""
    return tuple(node.attributes.get("pads") or [0] * 2 * spatial)


def lower_conv(node: Node, builder: Builder, graph: Graph) -> None:
    """Conv, plain or fused."""
    weight = weight_of(node, builder, graph)
    value, name = builder.values[node.inputs[0]], node.outputs[0]
    shape, dtype = graph.shapes[name], builder.stored(name, graph.dtypes[name])
    if name in builder.planes:
        layout, x = "NCHW", builder.contiguous(value)
        y = builder.target(name, shape, dtype, range(4), lambda wanted: wanted.is_plain)
    else:
        layout, x = "NHWC", builder.pixels(value)
        y = builder.target(name, shape, dtype, channels_last(4), lies_in_pixels)
    epilogue = epilogue_of(node, builder, graph)
    if layout == "NHWC" and (parts := cheaper_parts(node, builder, graph)):
        for part in parts:
            emit_convolution(
                builder, part.of_input(x), weight, part.of_output(y), part.of_epilogue(epilogue),
                part.geometry, (weight,), [name],
            )  # fmt: skip
    else:
        geometry = geometry_of(node)
        emit_convolution(builder, x, weight, y, epilogue, geometry, (weight,), [name], layout)
    builder.deliver(name, y)


def cheaper_parts(node: Node, builder: Builder, graph: Graph) -> list[Part]:
    """Give the parts of a convolution with dilation, if they take less time than the whole."""
    x, weight, y = (graph.shapes[name] for name in (*node.inputs[:2], node.outputs[0]))
    parts = parts_of(x, y, weight, geometry_of(node))
    if not parts or node.inputs[1] not in graph.constants:
        return []
    whole = _cycles(node, builder, graph, x, geometry_of(node), "NHWC")
    return parts if _LEAST_GAIN * _cycles_of_parts(parts, node, builder, graph) < whole else []


def _cycles_of_parts(parts: list[Part], node: Node, builder: Builder, graph: Graph) -> float:
    x = graph.shapes[node.inputs[0]]
    return sum(
        _cycles(node, builder, graph, part.input_shape(x), part.geometry, "NHWC")
        for part in parts
    )  # fmt: skip


def _cycles(
    node: Node,
    builder: Builder,
    graph: Graph,
    x: Shape,
    geometry: dict[str, Any],
    layout: str,
    types: tuple[np.dtype[Any], np.dtype[Any]] | None = None,
) -> float:
    """Estimate the cycles of a node's weights, on images of any shape, in the stored types."""
    shape = graph.shapes[node.inputs[1]]
    names = node.inputs[0], node.outputs[0]
    dtype, result = types or (builder.stored(name, graph.dtypes[name]) for name in names)
    computed, sparsity = node.inputs[1] not in graph.constants, None
    if not computed:
        weight = graph.constants.origin(node.inputs[1])
        sparsity = builder.sparsity((weight,), weight, geometry["groups"])
    problem = problem_of(
        builder, x, shape, dtype, geometry, layout, sparsity, result=result, computed=computed
    )
    return builder.least_cycles(problem)


def weight_of(node: Node, builder: Builder, graph: Graph) -> Array | ScaledTensor | Value:
    """Give the weights of a node: a value if they are computed."""
    name = node.inputs[1]
    return graph.constants.origin(name) if name in graph.constants else builder.values[name]


def geometry_of(node: Node) -> dict[str, Any]:
    """Stride, padding, dilation and groups of a node, for `emit_convolution`."""
    top, left, bottom, right = explicit_pads(node)
    return {
        "stride": tuple(node.attributes.get("strides") or (1, 1)),
        "padding": ((top, bottom), (left, right)),
        "dilation": tuple(node.attributes.get("dilations") or (1, 1)),
        "groups": int(node.attributes.get("group", 1)),
    }


def prices(node: Node, builder: Builder, graph: Graph) -> tuple[float, float]:
    """Estimate the cycles of a convolution on one thread, in NHWC and in NCHW."""
    x, geometry = graph.shapes[node.inputs[0]], geometry_of(node)
    pixels, planes = (_cycles(node, builder, graph, x, geometry, way) for way in ("NHWC", "NCHW"))
    parts = cheaper_parts(node, builder, graph)
    if parts:
        pixels = _cycles_of_parts(parts, node, builder, graph)
    return pixels, planes


def prices_of_types(
    node: Node, builder: Builder, graph: Graph, narrow: np.dtype[Any]
) -> tuple[float, float, float]:
    """Estimate the cycles of a convolution in the cheaper layout: see `TypePrices`."""
    single = graph.dtypes[node.inputs[0]]
    x, geometry = graph.shapes[node.inputs[0]], geometry_of(node)
    found = [
        min(
            _cycles(node, builder, graph, x, geometry, layout, types) for layout in ("NHWC", "NCHW")
        )
        for types in ((single, single), (narrow, single), (single, narrow))
    ]
    return found[0], found[1], found[2]


def lies_in_pixels(value: Value) -> bool:
    """Whether images are NHWC: channels contiguous; images, rows and pixels in order."""
    _, c, h, w = value.shape
    _, sc, sh, sw = value.strides
    e = value.dtype.itemsize
    return (c == 1 or sc == e) and (w == 1 or sw >= c * e) and (h == 1 or sh >= w * c * e)


def serves_conv(node: Node, graph: Graph) -> bool:
    """Whether `lower_conv` can compute a node."""
    return (
        len(graph.shapes[node.inputs[0]]) == 4
        and all(math.prod(graph.shapes[name]) > 0 for name in (*node.inputs[:2], node.outputs[0]))
        and graph.dtypes[node.inputs[0]] in NATIVE
    )
