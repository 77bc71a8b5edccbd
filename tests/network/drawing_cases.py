"""Single operators with inputs and attributes that are drawn.

Each drawer gives the inputs and attributes of one operator. Inputs in `Case.known` are constants
of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.network.models import model_of

INTEGERS = (np.int8, np.uint8, np.int32, np.int64)
Rng = np.random.Generator


@dataclass
class Case:
    """An operator with its inputs; None stands for one that is left out."""

    inputs: list[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    known: tuple[int, ...] = ()
    outputs: int = 1
    opset: int = 18
    domain: str = ""

    def feed(self) -> dict[str, np.ndarray]:
        """The inputs that are not known beforehand."""
        return {
            f"x{i}": x for i, x in enumerate(self.inputs) if x is not None and i not in self.known
        }

    def model(self, op: str) -> onnx.ModelProto:
        """The operator as a model."""
        names = ["" if x is None else f"x{i}" for i, x in enumerate(self.inputs)]
        outputs = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(op, names, outputs, domain=self.domain, **self.attributes)
        known = {f"x{i}": self.inputs[i] for i in self.known if self.inputs[i] is not None}
        model = model_of([node], self.feed(), known, dict.fromkeys(outputs), opset=self.opset)
        # onnxruntime wants the type of outputs, which inference tells.
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        del model.graph.output[:]
        model.graph.output.extend(inferred.graph.output)
        return model


def shape(rng: Rng, least: int = 1, most: int = 4, size: int = 5) -> tuple[int, ...]:
    """Some dimensions."""
    return tuple(int(n) for n in rng.integers(1, size, rng.integers(least, most + 1)))


def floats(rng: Rng, *sizes: int) -> np.ndarray:
    """Numbers around zero."""
    return rng.standard_normal(sizes).astype(np.float32)


def numbers(rng: Rng, *sizes: int, dtypes: tuple[Any, ...] = INTEGERS) -> np.ndarray:
    """Small numbers of a drawn type."""
    dtype = rng.choice(np.array(dtypes, object))
    low = 0 if np.dtype(dtype).kind == "u" else -9
    return rng.integers(low, 10, sizes).astype(dtype)


def either(rng: Rng, *sizes: int) -> np.ndarray:
    """Floats or integers."""
    if rng.random() < 0.5:
        return floats(rng, *sizes)
    return numbers(rng, *sizes, dtypes=(np.int32, np.int64))


def maybe(rng: Rng, **attributes: Any) -> dict[str, Any]:
    """Some of the attributes."""
    return {name: value for name, value in attributes.items() if rng.random() < 0.6}


def axis(rng: Rng, rank: int) -> int:
    """An axis, from either end."""
    return int(rng.integers(-rank, rank))


def pick(rng: Rng, *choices: Any) -> Any:
    """One of several."""
    return choices[rng.integers(len(choices))]


def broadcast(rng: Rng) -> tuple[tuple[int, ...], tuple[int, ...]]:
    sizes = shape(rng)
    other = tuple(1 if rng.random() < 0.3 else n for n in sizes[rng.integers(0, len(sizes)) :])
    return (sizes, other) if rng.random() < 0.5 else (other, sizes)
