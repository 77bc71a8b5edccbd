"""Drawn operators as models of old opsets have them: attributes in the place of inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from tests.network.drawing_cases import Case, Rng, axis, floats, maybe, pick, shape
from tests.network.drawn_images import average_pool as any_average_pool
from tests.network.drawn_operators import DRAWERS
from tests.network.old_graphs import as_attributes

OPSETS = range(7, 18)


def aged(case: Case, op: str, opset: int) -> Case | None:
    """Give a case as an old opset has it, without what that does not know; None if it has none."""
    try:
        schema = onnx.defs.get_schema(op, opset)
    except onnx.defs.SchemaError:
        return None
    if schema.deprecated:
        return None
    attributes = {name: v for name, v in case.attributes.items() if name in schema.attributes}
    moved = as_attributes(op, opset, {at: x for at, x in enumerate(case.inputs) if x is not None})
    inputs = case.inputs[: schema.max_input if moved is None else 1]
    attributes |= moved or {}
    known = tuple(at for at in case.known if at < len(inputs))
    outputs = min(case.outputs, schema.max_output)
    return replace(
        case, inputs=inputs, attributes=attributes, known=known, outputs=outputs, opset=opset
    )


def _some_axes(rng: Rng, rank: int) -> np.ndarray:
    return np.sort(rng.permutation(rank)[: rng.integers(1, rank + 1)])


def squeeze(rng: Rng) -> Case:
    """Some of the axes that are one, or all."""
    sizes = np.array(shape(rng, 1, 5))
    axes = _some_axes(rng, len(sizes))
    sizes[axes] = 1
    return Case([floats(rng, *sizes), *([axes] if rng.random() < 0.7 else [])], {}, (1,))


def unsqueeze(rng: Rng) -> Case:
    """Several new axes."""
    sizes = shape(rng)
    return Case([floats(rng, *sizes), _some_axes(rng, len(sizes) + 1)], {}, (1,))


def split(rng: Rng) -> Case:
    """Parts of several sizes, or of one."""
    sizes = list(shape(rng))
    at = axis(rng, len(sizes))
    parts = rng.integers(1, 4, rng.integers(1, 4))
    if rng.random() < 0.4:
        sizes[at] = 2 * len(parts)
        return Case([floats(rng, *sizes)], {"axis": at}, outputs=len(parts))
    sizes[at] = int(parts.sum())
    return Case([floats(rng, *sizes), parts], {"axis": at}, (1,), outputs=len(parts))


def flatten(rng: Rng) -> Case:
    """From any axis."""
    sizes = shape(rng)
    return Case([floats(rng, *sizes)], maybe(rng, axis=int(rng.integers(0, len(sizes) + 1))))


def dropout(rng: Rng) -> Case:
    """Of inference: nothing is left out, whatever share is named."""
    ratio = np.float32(rng.random()).reshape(())
    return Case([floats(rng, *shape(rng)), ratio], {}, (1,), outputs=int(rng.integers(1, 3)))


def average_pool(rng: Rng) -> Case:
    """Windows no larger than the image, beyond which onnxruntime counts what is not there."""
    case = any_average_pool(rng)
    while any(np.array(case.attributes["kernel_shape"]) > case.inputs[0].shape[2:]):
        case = any_average_pool(rng)
    return case


def upsample(rng: Rng) -> Case:
    """Images, by factors that are whole or have ties."""
    mode = pick(rng, "nearest", "linear")
    factors = rng.choice([1, 1.25, 1.5, 1.7, 2, 2.5, 3, 4], 2)
    scales = np.array([1, 1, *factors], np.float32)
    return Case([floats(rng, 1, 2, *rng.integers(1, 9, 2)), scales], {"mode": mode}, (1,))


def resize(rng: Rng) -> Case:
    """By scales alone, between sizes whose pixels' centres lie half way between others."""
    inputs, outputs = rng.choice([1, 2, 4, 6, 7, 8, 14, 16], (2, 2))
    x = floats(rng, 1, 2, *inputs)
    return Case([x, np.array([1, 1, *outputs / inputs], np.float32)], {}, (1,))


def resize_at_ties(rng: Rng) -> Case:
    """The same as opsets from 11 on have it, by sizes or scales."""
    case = resize(rng)
    x, scales = case.inputs
    given: dict[str, Any] = {
        "mode": pick(rng, "nearest", "nearest", "linear", "cubic"),
        "coordinate_transformation_mode": pick(
            rng, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"
        ),
        "nearest_mode": pick(rng, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    }
    region = np.zeros(0, np.float32)
    if rng.random() < 0.5:
        return Case([x, region, scales], given, (1, 2))
    sizes = np.rint(scales * x.shape).astype(np.int64)
    return Case([x, region, region, sizes], given, (1, 2, 3))


_OLD: dict[str, Callable[[Rng], Case]] = {
    "AveragePool": average_pool,
    "Dropout": dropout,
    "Flatten": flatten,
    "Split": split,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Upsample": upsample,
}


def _is_known(op: str) -> bool:
    return bool(op == "Upsample" or onnx.defs.has(op, OPSETS[-1]))


OPERATORS = sorted(op for op in DRAWERS.keys() | _OLD.keys() if _is_known(op))


def draw_old(op: str, opset: int, rng: Rng) -> Case | None:
    """Draw a case of an operator of an opset; None if that has no such operator."""
    if op == "Resize":
        draw = resize if opset == 10 else resize_at_ties
    else:
        draw = _OLD.get(op) or DRAWERS[op]
    return aged(draw(rng), op, opset)
