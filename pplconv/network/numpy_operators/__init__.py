"""Operators in NumPy, where ONNX's reference errs or is missing.

=================  ==============================================================
``pools``            MaxPool, AveragePool, LpPool, GlobalLpPool, GlobalMaxPool
``normalizations`` LRN, LpNormalization
``reductions``     CumSum, ReduceL1, L2, LogSum, LogSumExp, Mean, Prod, Sum, SumSquare
``sampling``       GridSample
``contractions``   Einsum
``fills``          ConstantOfShape, EyeLike, Range
``moves``          Compress, GatherElements, GatherND, OneHot, Pad, Slice, ScatterElements,
                   ScatterND, Tile, Trilu
``regions``        NonMaxSuppression, RoiAlign
``searches``       ArgMax, ArgMin, NonZero, TopK, Unique
``transposed_sums``  Col2Im, ConvTranspose
=================  ==============================================================

Rows of `operators.table` name these functions. `tests/network/test_drawn_operators.py` compares all
operators in Python with onnxruntime.
"""
