"""Operators for the NumPy evaluator of the ONNX project, computed by pplconv.

The evaluator takes replacements for its operators as classes::

    from onnx.reference import ReferenceEvaluator
    from pplconv.integrations.onnx_reference import operators

    evaluator = ReferenceEvaluator(model, new_ops=operators())

=================  ===============================================  ============================
class              cases that pplconv computes                      function
=================  ===============================================  ============================
`Conv`             two dimensions; float16, float32, float64        `pplconv.conv2d`
`ConvTranspose`    the same                                         `pplconv.conv_transpose2d`
`ConvInteger`      two dimensions; uint8, int8                      `pplconv.conv2d_integer`
`QLinearConv`      the same                                         `pplconv.qconv2d`
`MatMul`           float16, float32, float64                        `pplconv.matmul`
`Gemm`             the same                                         `pplconv.matmul`
`MatMulInteger`    uint8, int8                                      `pplconv.matmul_integer`
`QLinearMatMul`    the same                                         `pplconv.qmatmul`
=================  ===============================================  ============================

Other cases of these operators (other ranks, other types) are left to the evaluator's own operators.
A whole model is faster as a `pplconv.InferenceSession`.

Four facts about the evaluator itself:

- Its own ``ConvTranspose`` gives wrong results for groups (onnx 1.23). The one here does not.
- In models below opset 14 it computes ``BatchNormalization`` in its training form. Convert such
  models with `onnx.version_converter` first.
- Before onnx 1.23, its own ``Conv`` gives wrong shapes for kernels of even size. The one here does
  not.
- Its own ``QLinearConv`` and ``QLinearMatMul`` add the zero point before they round. If it is odd,
  ties go to the other side. ONNX's formula, onnxruntime and the operators here round first.
"""

from __future__ import annotations

from typing import Any

from pplconv.integrations import told
from pplconv.integrations.onnx_reference.operator_settings import with_settings

with told("onnx_reference", "pplconv[onnx]"):
    from pplconv.integrations.onnx_reference.convolutions import (
        Conv,
        ConvTranspose,
        conv2d_keywords,
        conv_transpose2d_keywords,
        make_conv,
        make_conv_transpose,
    )
    from pplconv.integrations.onnx_reference.integer_operators import (
        ConvInteger,
        MatMulInteger,
        QLinearConv,
        QLinearMatMul,
    )
    from pplconv.integrations.onnx_reference.matrix_operators import Gemm, MatMul

__all__ = [
    "Conv",
    "ConvInteger",
    "ConvTranspose",
    "Gemm",
    "MatMul",
    "MatMulInteger",
    "QLinearConv",
    "QLinearMatMul",
    "conv2d_keywords",
    "conv_transpose2d_keywords",
    "make_conv",
    "make_conv_transpose",
    "operators",
]


def operators(
    *, threads: int | None = None, algorithm: str = "auto", tolerance: float | None = None
) -> list[type[Any]]:
    """Give all replacements, for ``ReferenceEvaluator(model, new_ops=operators())``.

    Parameters
    ----------
    threads : int, optional
        Team size; by default what `pplconv.conv2d` takes by default.
    algorithm : str, optional
        Of convolutions; by default the planner chooses.
    tolerance : float, optional
        Accuracy that the planner may spend on convolutions of floating-point numbers, relative to
        the output's largest magnitude; by default what `pplconv.conv2d` takes by default.

    Returns
    -------
    list of type
        Subclasses of the classes of this module. The settings are checked when the model runs.
    """
    settings = {"threads": threads, "algorithm": algorithm, "tolerance": tolerance}
    return [
        with_settings(each, **{name: settings[name] for name in each.settings})
        for each in (
            Conv,
            ConvTranspose,
            ConvInteger,
            QLinearConv,
            MatMul,
            Gemm,
            MatMulInteger,
            QLinearMatMul,
        )
    ]
