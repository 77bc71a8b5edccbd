"""Scales and zero points of arrays, and numbers as integers of eight bits.

A number q of a quantized array stands for ``scale * (q - zero_point)``.

====================  ============================================================================
``quantize_weights``  weights as integers, with a scale for each channel or for all
``observe``           scale and zero point for activations, from samples of them
``quantize``          numbers as integers; ``dequantize`` goes back
``signal_to_noise``   how near an approximation is, in dB
====================  ============================================================================

`pplconv.Conv2d.quantize` uses all of them; docs/quantization.md has examples.
"""

from .numbers import dequantize, quantize, signal_to_noise
from .observing import observe
from .weights import quantize_weights

__all__ = ["dequantize", "observe", "quantize", "quantize_weights", "signal_to_noise"]
