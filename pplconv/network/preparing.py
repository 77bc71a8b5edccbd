"""`prepare` rewrites a model once, `specialize` once for each set of input shapes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from typing import Any

import numpy.typing as npt
import onnx_ir as ir

from .._records import NamedTuple, record
from .brain_floats import compute_in_float32
from .cutting import Cut, cut
from .folding import fold
from .if_conversion import convert_branches
from .invariants import hoist
from .model_passes import add_defaults, remove_unused
from .opsets import convert_opset
from .padding import resolve_padding
from .quantized_values import check_quantization, dequantize_constants, quantize_constants
from .rules import (
    ASSIGNING_RULES,
    FUSING_RULES,
    PIECES_RULES,
    QUANTIZING_RULES,
    SIMPLIFYING_RULES,
    VOLUME_RULES,
)
from .rules.driver import apply_rules
from .shapes import check_static, forget_shapes, make_constant, set_input_shapes
from .size_names import keep_names
from .tensors import (
    check_files,
    lift_constants,
    own_tensors,
    release_files,
    texts_as_tensors,
)

__all__ = ["Prepared", "Specialized", "prepare", "simplify", "specialize"]


@record(frozen=True)
class Prepared:
    """A rewritten model, and the rules that fired.

    Parameters
    ----------
    model : ir.Model
        The model.
    fired : dict
        For each rule that fired, the names of the outputs that it fired for, in order.
    """

    model: ir.Model
    fired: dict[str, list[str]] = field(default_factory=dict)


class Specialized(NamedTuple):
    """A model for inputs of fixed shapes.

    Parameters
    ----------
    model : ir.Model or None
        The model; its first part if it is cut, which may be empty.
    fired : dict
        As in `Prepared`.
    cut : Cut or None
        Its parts, where sizes or branches depend on data.
    """

    model: ir.Model | None
    fired: dict[str, list[str]]
    cut: Cut | None


def prepare(model: ir.Model, overridden: Collection[str] = (), *, copy: bool = True) -> Prepared:
    """Rewrite a model as far as input shapes do not matter.

    Parameters
    ----------
    model : ir.Model
        A model as `loading.load` gives it.
    overridden : collection of str, optional
        Initializers that become inputs, as which the model lists them, too.
    copy : bool
        Whether `model` stays as it is; else it is changed, and invalid afterwards.

    Returns
    -------
    Prepared
        A model of opset `opsets.OPSET` or newer, in ONNX's own operators, without constants
        computed at run time.  Weights that did not change are shared.

    Raises
    ------
    ValueError
        If the model cannot be converted, a constant result cannot be computed, or a scale or a zero
        point is invalid or not constant.
    """
    if copy:
        model = model.clone()
    for name in overridden:
        model.graph.initializers.pop(name).const_value = None
    for value in model.graph.outputs:
        keep_names(value)
        value.shape = None
    forget_shapes(model.graph, inputs=True)
    texts_as_tensors(model)
    lift_constants(model.graph)
    own_tensors(model)
    converted = convert_opset(model)
    _make_initializers_constant(converted.graph)
    if converted is not model:
        model = converted
        lift_constants(model.graph)
        own_tensors(model)
    compute_in_float32(model)
    add_defaults(model)
    forget_shapes(model.graph, inputs=False)
    return simplify(model)


def simplify(model: ir.Model) -> Prepared:
    """Rewrite a model of the newest opset, or of a subgraph, as far as shapes do not matter.

    Parameters
    ----------
    model : ir.Model
        Changed in place.

    Raises
    ------
    ValueError
        As from `prepare`.
    """
    fold(model)
    hoist(model.graph)
    fired: dict[str, list[str]] = {}
    check_quantization(model.graph)
    apply_rules(model, PIECES_RULES, fired)
    if fired:
        fold(model)
    quantize_constants(model.graph)
    apply_rules(model, SIMPLIFYING_RULES, fired)
    remove_unused(model)
    release_files(model)
    return Prepared(model, fired)


def specialize(
    model: ir.Model,
    shapes: Mapping[str, tuple[int, ...]],
    constants: Mapping[str, npt.NDArray[Any]] | None = None,
    *,
    repeats: bool = False,
) -> Specialized:
    """Rewrite a prepared model for inputs of fixed shapes.

    Parameters
    ----------
    model : ir.Model
        A model that `prepare` gave; left as it is.
    shapes : mapping
        A shape for each input; those of inputs with a fixed shape may be left out.
    constants : mapping, optional
        Values of inputs that are shapes, axes or the like.  The result has no such inputs; its
        shapes may depend on their values.
    repeats : bool
        Whether the model is the body of a loop.

    Returns
    -------
    Specialized
        A model in which each value has a fixed shape and a type, with fused nodes of the domain
        ``pplconv`` (see `fused_nodes`).  Weights that did not change are shared. Where sizes or
        branches depend on data, the model ends.

    Raises
    ------
    ValueError
        If `shapes` or `constants` do not fit the model, or shapes contradict at a node.
    RuntimeError
        If a file that weights lie in was written to.
    """
    check_files(model)
    model = model.clone()
    for name, array in (constants or {}).items():
        make_constant(model.graph, name, array)
    set_input_shapes(model.graph, shapes)
    forget_shapes(model.graph, inputs=False)
    fired: dict[str, list[str]] = {}
    branches = any(node.op_type == "If" for node in model.graph)
    fold(model)
    if branches:
        check_quantization(model.graph)
        apply_rules(model, PIECES_RULES, fired)
        fold(model)
    _keep_sizes(model, fired)
    parts = cut(model, repeats=repeats)
    if parts is not None:
        if parts.first is None:
            return Specialized(None, fired, parts)
        model = parts.first
        remove_unused(model)
    resolve_padding(model.graph)
    check_static(model)
    # Some are constant only now: shapes, and former inputs.
    quantize_constants(model.graph)
    apply_rules(model, SIMPLIFYING_RULES, fired)
    volumes: dict[str, list[str]] = {}
    if any(len(value.shape or ()) == 5 for value in _results(model.graph)):
        _infer_new(model)
    apply_rules(model, VOLUME_RULES, volumes)
    if volumes:
        fired |= volumes
        # Volumes that were made of images, and that nobody reads: further readers of the images.
        remove_unused(model)
        apply_rules(model, SIMPLIFYING_RULES, fired)
    _infer_new(model)
    _quantize(model, fired)
    apply_rules(model, FUSING_RULES, fired)
    remove_unused(model)
    release_files(model)
    return Specialized(model, fired, parts)


def _keep_sizes(model: ir.Model, fired: dict[str, list[str]]) -> None:
    """Rewrite nodes that would cut the model, though no result's shape follows from data."""
    kept: dict[str, list[str]] = {}
    apply_rules(model, ASSIGNING_RULES, kept)
    for rule, outputs in kept.items():
        fired[rule] = [*fired.get(rule, []), *outputs]
    if convert_branches(model) or kept:
        fold(model)


def _results(graph: ir.Graph) -> Iterator[ir.Value]:
    return (value for node in graph for value in node.outputs)


def _infer_new(model: ir.Model) -> None:
    """Infer shapes where a rule has put several nodes in the place of one."""
    if any(value.shape is None for value in _results(model.graph)):
        fold(model)


def _quantize(model: ir.Model, fired: dict[str, list[str]]) -> None:
    """Make nodes of integers; other quantized constants become floating-point numbers."""
    apply_rules(model, QUANTIZING_RULES, fired)
    remove_unused(model)
    if dequantize_constants(model.graph):
        apply_rules(model, SIMPLIFYING_RULES, fired)


def _make_initializers_constant(graph: ir.Graph) -> None:
    """Take weights off the list of inputs, where old files have them."""
    inputs = [value for value in graph.inputs if value.name not in graph.initializers]
    graph.inputs.clear()
    graph.inputs.extend(inputs)
