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

from __future__ import annotations

from typing import TYPE_CHECKING

from .numbers import dequantize, quantize, signal_to_noise
from .observing import observe
from .weights import quantize_weights

if TYPE_CHECKING:
    from ..network.calibration import quantize_model

__all__ = [
    "dequantize",
    "observe",
    "quantize",
    "quantize_model",
    "quantize_weights",
    "signal_to_noise",
]

if not TYPE_CHECKING:  # with it, checkers would accept any name

    def __getattr__(name: str) -> object:
        # Networks need ONNX, and are made of all that is here.
        if name != "quantize_model":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return import_module("..network.calibration", __name__).quantize_model
