"""Run a network in the ONNX project's NumPy evaluator, and time its convolutions alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import version_converter
from onnx.reference import ReferenceEvaluator

import pplconv
from pplconv.integrations.onnx_reference import conv2d_keywords

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun

__all__ = [
    "OPSET",
    "ROUNDS",
    "Call",
    "Run",
    "count_convolutions",
    "load_model",
    "plan_of",
    "run_network",
]

OPSET = 17
"""Opset that the model is converted to.

Below 14 `onnx.reference` computes ``BatchNormalization`` in its training form: with the statistics
of the picture instead of the learned ones.
"""

ROUNDS = 3
"""How often each convolution is timed."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One convolution of a run.

    Parameters
    ----------
    weight, bias : ndarray or None
        Constants of the network's node.
    input_shape : tuple of int
        Shape N, C, H, W of the input.
    attributes : dict
        Attributes of the node, as ONNX names them.
    seconds : float
        Best time of several computations.
    """

    weight: np.ndarray
    bias: np.ndarray | None
    input_shape: tuple[int, ...]
    attributes: dict[str, Any]
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A run of the network.

    Parameters
    ----------
    output : ndarray
        First output of the network.
    calls : list of Call
        Its convolutions, in the order in which they ran.
    """

    output: np.ndarray
    calls: list[Call]

    @property
    def seconds(self) -> float:
        """Time in convolutions, in seconds."""
        return sum(call.seconds for call in self.calls)


def load_model(path: Path) -> onnx.ModelProto:
    """Load a model in an opset that the evaluator computes correctly.

    Parameters
    ----------
    path : Path
        An ONNX file.

    Returns
    -------
    onnx.ModelProto
        The model at opset `OPSET`.
    """
    return version_converter.convert_version(onnx.load(str(path)), OPSET)


def count_convolutions(model: onnx.ModelProto) -> int:
    """Count the ``Conv`` nodes of a model.

    Parameters
    ----------
    model : onnx.ModelProto
        Any model.

    Returns
    -------
    int
    """
    return sum(node.op_type == "Conv" for node in model.graph.node)


def run_network(
    model: onnx.ModelProto, conv: type[OpRun], x: np.ndarray, tick: Callable[[int], None]
) -> Run:
    """Run a network with a ``Conv`` of choice.

    Each convolution is computed once to warm up and then `ROUNDS` times, of which the best counts:
    so neither engine pays for first-time work (pages, plans, sleeping threads) or for what else
    the machine was doing, and nothing but ``Conv`` is in the figure.

    Parameters
    ----------
    model : onnx.ModelProto
        A model with one input.
    conv : type
        Operator for ``Conv``, a class of that name.
    x : ndarray
        The input.
    tick : callable
        Called with the number of convolutions that are done, after each of them.

    Returns
    -------
    Run
    """
    calls: list[Call] = []
    evaluator = ReferenceEvaluator(model, new_ops=[_timed(conv, calls, tick)])
    # The evaluator's Sigmoid computes both of its branches everywhere, overflows in the one that it
    # then does not use, and would warn of it.
    with np.errstate(over="ignore", invalid="ignore"):
        outputs: Any = evaluator.run(None, {model.graph.input[0].name: x})
    return Run(np.asarray(outputs[0]), calls)


def _timed(conv: type[OpRun], calls: list[Call], tick: Callable[[int], None]) -> type[OpRun]:
    compute: Any = conv._run

    def _run(self: OpRun, *inputs: np.ndarray, **attributes: Any) -> Any:
        compute(self, *inputs, **attributes)
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            result = compute(self, *inputs, **attributes)
            times.append(time.perf_counter() - start)
        x, weight, *bias = inputs
        calls.append(Call(weight, bias[0] if bias else None, x.shape, attributes, min(times)))
        tick(len(calls))
        return result

    return type("Conv", (conv,), {"_run": _run})


def plan_of(call: Call, threads: int | None) -> pplconv.Plan:
    """Ask pplconv how it computes a convolution.

    Parameters
    ----------
    call : Call
        The convolution.
    threads : int or None
        Team size that was asked for.

    Returns
    -------
    pplconv.Plan
    """
    names = ("auto_pad", "dilations", "group", "pads", "strides")
    keywords = conv2d_keywords(**{name: call.attributes.get(name) for name in names})
    conv = pplconv.Conv2d(call.weight, call.bias, **keywords, threads=threads)
    return conv.plan_for(call.input_shape)
