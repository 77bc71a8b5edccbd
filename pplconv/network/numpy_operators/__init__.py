"""Operators in NumPy, where ONNX's reference errs or is missing.

=================  ==============================================================
``windows``        MaxPool, AveragePool, LpPool, GlobalLpPool, GlobalMaxPool
``normalization``  LRN, LpNormalization
``reductions``     CumSum, ReduceL1, L2, LogSum, LogSumExp, Mean, Prod, Sum, SumSquare
``sampling``       GridSample
``moves``          GatherElements, OneHot, Pad, Slice
``transposed``     ConvTranspose
=================  ==============================================================

To add an operator, write a function of its attributes and operands, and name it in `COMPUTED`.
`tests/network/test_drawn_operators.py` compares all that runs in Python with onnxruntime.
"""

from __future__ import annotations

from . import moves, normalization, reductions, sampling, transposed, windows
from .types import Compute

__all__ = ["COMPUTED", "IN_PIECES"]

COMPUTED: dict[str, Compute] = {
    "AveragePool": windows.average_pool,
    "ConvTranspose": transposed.conv_transpose,
    "CumSum": reductions.cumulative_sum,
    "GatherElements": moves.gather_elements,
    "GlobalLpPool": windows.global_lp_pool,
    "GlobalMaxPool": windows.global_max_pool,
    "GridSample": sampling.grid_sample,
    "LRN": normalization.local_response,
    "LpNormalization": normalization.by_length,
    "LpPool": windows.lp_pool,
    "MaxPool": windows.max_pool,
    "OneHot": moves.one_hot,
    "Pad": moves.pad,
    "ReduceLogSum": reductions.log_sum,
    "ReduceLogSumExp": reductions.log_sum_exp,
    "Slice": moves.slices,
    **reductions.REDUCTIONS,
}
"""Operators of `OPSET`, by name."""

IN_PIECES = [transposed.ConvTranspose]
"""Those that are pieces of fused nodes, as a `ReferenceEvaluator` takes them: ``new_ops``."""
