"""Operators in NumPy, where ONNX's reference errs or is missing.

=================  ==============================================================
``arithmetic``       Abs, Add, Div, Max, Min, Mul, Neg, Sub, Sum
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
``views``            Concat, Expand, Gather, Identity, Reshape, Squeeze, Transpose, Unsqueeze
=================  ==============================================================

Rows of `operators.table` name these functions. `tests/network/test_drawn_operators.py` compares all
operators in Python with onnxruntime.
"""
