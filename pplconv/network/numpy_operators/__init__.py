"""Operators in NumPy, where ONNX's reference errs or is missing.

=================  ==============================================================
``contractions``     Einsum
``elements``         element-wise operators of integers, casts, Hardmax
``fills``            ConstantOfShape, EyeLike, Range
``moves``            Compress, GatherElements, GatherND, OneHot, Pad, Slice, ScatterElements,
                     ScatterND, Tile, Trilu
``normalizations``   LRN, LpNormalization
``pools``            MaxPool, AveragePool, LpPool, GlobalLpPool, GlobalMaxPool
``reductions``       CumSum, ReduceL1, L2, LogSum, LogSumExp, Mean, Prod, Sum, SumSquare
``regions``          NonMaxSuppression, RoiAlign
``sampling``         GridSample
``searches``         ArgMax, ArgMin, NonZero, TopK, Unique
``sequence_values``  ConcatFromSequence, SplitToSequence, SequenceAt, SequenceInsert and their kin,
                     Optional, OptionalGetElement, OptionalHasElement
``text_values``      LabelEncoder, casts from and to texts
``transposed_sums``  Col2Im, ConvTranspose
``views``            Concat, Expand, Gather, Identity, Reshape, Squeeze, Transpose, Unsqueeze
=================  ==============================================================

Rows of `operators.table` name these functions. `tests/network/test_drawn_operators.py` compares all
operators in Python with onnxruntime.
"""
