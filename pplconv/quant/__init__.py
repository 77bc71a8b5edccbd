"""Scales and zero points of arrays, and conversion to and from eight-bit integers.

A number q of a quantized array stands for ``scale * (q - zero_point)``.

====================  ============================================================================
``quantize_weights``  weights as integers, with a scale for each channel or for all
``observe``           scale and zero point for activations, from samples of them
``quantize``          numbers as integers; ``dequantize`` goes back
``quantize_model``    an ONNX network of integers from one of float32 (extra ``onnx``)
``signal_to_noise``   closeness of an approximation, in dB
====================  ============================================================================

`pplconv.Conv2d.quantize` does all this for one convolution; docs/quantization.md has examples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._lazy import on_demand

if TYPE_CHECKING:
    from .numbers import dequantize, quantize, signal_to_noise
    from .observing import observe
    from .weights import quantize_weights

__all__ = ["dequantize", "observe", "quantize", "quantize_weights", "signal_to_noise"]

_imported = on_demand(
    __name__,
    {
        "numbers": "dequantize quantize signal_to_noise",
        "observing": "observe",
        "weights": "quantize_weights",
    },
)
_PROVIDED: dict[str, Callable[[], Any]] = {}


def _provide(name: str, load: Callable[[], Any]) -> None:
    """Add a function of a package above this one; it is loaded at its first use."""
    _PROVIDED[name] = load


def __getattr__(name: str) -> Any:
    if name not in _PROVIDED:
        return _imported(name)
    value = globals()[name] = _PROVIDED[name]()
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
