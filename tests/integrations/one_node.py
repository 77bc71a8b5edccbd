"""Models of one ONNX node, inputs for them, their evaluation, and counted calls of pplconv."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import pplconv
from tests.network import models

Feed = dict[str, np.ndarray]


def model_of(op: str, feed: Feed, output: Any = None, opset: int = 17, **attributes: Any) -> Any:
    """Make a model of one node whose inputs have the names, types and sizes of `feed`."""
    node = helper.make_node(op, list(feed), ["y"], **attributes)
    return models.model_of([node], feed, outputs={"y": output}, opset=opset)


def drawn(
    rng: np.random.Generator,
    x: tuple[int, ...],
    w: tuple[int, ...],
    bias: int = 0,
    dtype: Any = "f",
) -> Feed:
    """Draw an input and weights of these shapes, and a bias of so many numbers, if any."""
    feed = {"x": rng.standard_normal(x), "w": rng.standard_normal(w)}
    if bias:
        feed["b"] = rng.standard_normal(bias)
    return {name: values.astype(dtype) for name, values in feed.items()}


def evaluated(model: onnx.ModelProto, feed: Feed, *operators: type) -> np.ndarray:
    """Run a model by onnx's evaluator, some of whose operators are replaced."""
    (y,) = ReferenceEvaluator(model, new_ops=list(operators)).run(None, feed)
    return np.asarray(y)


def counted(
    monkeypatch: pytest.MonkeyPatch, noted: Callable[[str, dict[str, Any]], Any], *names: str
) -> list[Any]:
    """Note calls of pplconv's functions by name and keywords, and let them through."""
    seen: list[Any] = []

    def spy(name: str) -> Callable[..., Any]:
        function = getattr(pplconv, name)

        def through(*arguments: Any, **keywords: Any) -> Any:
            seen.append(noted(name, keywords))
            return function(*arguments, **keywords)

        return through

    for name in names:
        monkeypatch.setattr(pplconv, name, spy(name))
    return seen
