"""Scales and zero points of arrays, and numbers as integers of eight bits.

A number q of a quantized array stands for ``scale * (q - zero_point)``.

====================  ============================================================================
``quantize_weights``  weights as integers, with a scale for each channel or for all
``observe``           scale and zero point for activations, from samples of them
``quantize``          numbers as integers; ``dequantize`` goes back
``quantize_model``    an ONNX network of float32 as one of integers (extra ``onnx``)
``signal_to_noise``   how near an approximation is, in dB
====================  ============================================================================

`pplconv.Conv2d.quantize` uses all of them; docs/quantization.md has examples.
"""

from collections.abc import Callable
from typing import Any

from .numbers import dequantize, quantize, signal_to_noise
from .observing import observe
from .weights import quantize_weights

__all__ = ["dequantize", "observe", "quantize", "quantize_weights", "signal_to_noise"]

_PROVIDED: dict[str, Callable[[], Any]] = {}


def _provide(name: str, load: Callable[[], Any]) -> None:
    """Take a name that a room above has, which is loaded when it is asked for first."""
    _PROVIDED[name] = load


def __getattr__(name: str) -> Any:
    if name not in _PROVIDED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _PROVIDED[name]()
    return value
