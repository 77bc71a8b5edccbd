"""What ``precision="low"`` would gain a network on this CPU, and which networks cannot have it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import onnx_ir as ir

from .. import planner
from ..arguments.checks import PRECISIONS
from ..matrix_problem import MatrixProblem
from ..numerics import BRAIN_KINDS, TYPES, numerics_of
from ..ops.prepared import PackedWeights, Prepared
from ..problem import ConvProblem, Problem
from .compiled import Compiled
from .cut_program import CutProgram
from .formats import half_level
from .operators.table import row_of
from .plan_settings import Settings
from .programs import Program
from .subgraphs import all_nodes
from .texts import printable
from .values import constant

__all__ = ["advice", "check_demand", "narrow_types"]

# Operators whose sums are of integers, by their definition.
_OF_INTEGERS = frozenset(("ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"))
_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
# Less is within the error of the estimate.
_LEAST_GAIN = 1.02


def narrow_types() -> list[str]:
    """Name the narrower types in which this CPU multiplies float32 arrays, bfloat16 first."""
    levels = {planner.best_isa(numerics_of("f32", kind)) for kind in BRAIN_KINDS}
    found = ["bfloat16"] if levels - {None, "portable"} else []
    return [*found, "float16"] if half_level() is not None else found


def check_demand(graph: ir.Graph, precision: str) -> None:
    """Refuse to demand bfloat16 of a network that has no node to compute in it.

    Parameters
    ----------
    graph : ir.Graph
        A prepared graph.
    precision : str
        The session's.

    Raises
    ------
    ValueError
        Naming a node, and why it cannot.
    """
    if precision == "low_bf16" and (why := _unfit(graph)):
        raise ValueError(
            f'precision="low_bf16" demands products of bfloat16, which no node of the model can '
            f"have: {why}"
        )


def advice(graph: ir.Graph, program: Program, settings: Settings) -> str:
    """Say in a line what another precision would gain, or why the given one changes nothing.

    Parameters
    ----------
    graph : ir.Graph
        The prepared graph.
    program : Program
        A program of it, whose convolutions and products are counted; of one that is cut, those of
        the parts that were made until now.
    settings : Settings
        The session's.

    Returns
    -------
    str
        Empty if there is nothing to say: if this CPU has no products of bfloat16, no step could
        have them, or the session's precision permits them.
    """
    types, word = narrow_types(), settings.precision
    if word not in ("auto", "fp32"):
        why = _unfit(graph)
        if not why and not types:
            why = "this CPU multiplies in no type that is narrower than float32"
        return f'precision="{word}" changes nothing: {why}' if why else ""
    if "bfloat16" not in types:
        return ""
    gain = _gain(_compiled(program), settings)
    if gain is None:
        return ""
    if gain < _LEAST_GAIN:
        return 'precision="low" would gain next to nothing here, by the estimate'
    return (
        f'precision="low" would take {100 / gain:.0f} % of the time of convolutions and products, '
        f"by the estimate; their operands are rounded to {' or '.join(types)}, by up to "
        f"{100 * TYPES['bf16'].roundoff:.1f} %: see session.compare(feed)"
    )


def _compiled(program: Program) -> Iterator[Compiled]:
    if isinstance(program, Compiled):
        yield program
    elif isinstance(program, CutProgram):
        for part in program.parts():
            yield from _compiled(part)


def _gain(programs: Iterable[Compiled], settings: Settings) -> float | None:
    """Estimated cycles of all convolutions and products, as a multiple of those with ``"low"``.

    None if no product may be narrower.
    """
    before = after = 0.0
    may = False
    for compiled in programs:
        for step in compiled.steps:
            if not isinstance(step.work, Prepared):
                continue
            problem = step.work.problem
            known = isinstance(step.places.get("weights"), PackedWeights)
            low: Problem = problem
            if known and isinstance(problem, ConvProblem) and problem.dtype == "f32":
                low, may = replace(problem, permitted=PRECISIONS["low"]["f32"]), True
            elif isinstance(problem, MatrixProblem) and problem.dtype == "f32":
                kinds = PRECISIONS["low"]["bf16"]
                low, may = replace(problem, dtype="bf16", permitted=kinds, destination="f32"), True
            runs = compiled.times * step.turns
            cycles = [
                planner.least_cycles(each, settings.tolerance, settings.max_workspace)
                for each in (problem, low)
            ]
            if all(map(math.isfinite, cycles)):
                before += runs * cycles[0]
                after += runs * min(cycles)
    return before / after if may and after else None


def _unfit(graph: ir.Graph) -> str:
    """Say why a convolution or product cannot be narrower; empty if one can, or there is none."""
    first = ""
    for node in all_nodes(graph):
        name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        if not row_of(name).planned and name not in _OF_INTEGERS:
            continue
        why = _obstacle(node)
        if not why:
            return ""
        output = node.outputs[0].name or node.name or "?"
        first = first or f"{printable(node.op_type)} of {printable(output)!r} {why}"
    return first


def _obstacle(node: ir.Node) -> str:
    x, weight = node.inputs[0], node.inputs[1]
    if node.op_type in _OF_INTEGERS:
        return "multiplies integers"
    if weight is None or x is None:
        return ""
    makers = [value.producer() for value in (x, weight)]
    if all(maker is not None and maker.op_type == "DequantizeLinear" for maker in makers):
        return "multiplies quantized numbers"
    dtype = weight.dtype or x.dtype
    if dtype is not None and dtype not in _FLOATS:
        return f"is of {dtype.numpy().name}"
    quantized = makers[1] is not None and makers[1].op_type == "DequantizeLinear"
    if constant(weight) is None and not quantized and node.op_type != "MatMul":
        return "multiplies by computed weights"
    return ""
