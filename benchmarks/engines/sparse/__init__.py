"""Engines of sparse weights by precision, in the order of the tables: pplconv first, then peers.

Peers without sparse weights take part with the same weights as dense ones: a pruned model can be
run so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.engines import ENGINES as DENSE_ENGINES
from benchmarks.engines.base import Engine
from benchmarks.engines.quantized import ENGINES as QUANTIZED_ENGINES
from benchmarks.engines.sparse.base import block_in, block_of
from benchmarks.engines.sparse.mnn import MnnSparse
from benchmarks.engines.sparse.pplconv import PrunedNchw, PrunedNchwU8, PrunedNhwc, PrunedNhwcU8
from benchmarks.engines.sparse.products import ScipyBsr, ScipyCsr, TorchCsr

__all__ = ["ENGINES", "LEFT_OUT", "SLOW", "block_in", "block_of"]

_DENSE_PEERS = ("onednn", "openvino", "mnn", "litert")
_DENSE_INT8_PEERS = ("torch_onednn", "ort_u8s8_nhwc", "openvino_u8_nhwc")

ENGINES: Mapping[str, Sequence[Engine]] = {
    "fp32": (
        *(layout(block) for layout in (PrunedNchw, PrunedNhwc) for block in (1, 4, 8, 16)),
        *(layout(0) for layout in (PrunedNchw, PrunedNhwc)),
        *(layout(0, direct=True) for layout in (PrunedNchw, PrunedNhwc)),
        *(MnnSparse(block) for block in (1, 4, 8, 16)),
        TorchCsr(),
        ScipyCsr(),
        ScipyBsr(4),
        *(DENSE_ENGINES[name] for name in _DENSE_PEERS),
    ),
    "int8": (
        *(layout(block) for layout in (PrunedNhwcU8, PrunedNchwU8) for block in (1, 4, 8, 16)),
        *(layout(0) for layout in (PrunedNhwcU8, PrunedNchwU8)),
        *(engine for engine in QUANTIZED_ENGINES if engine.name in _DENSE_INT8_PEERS),
    ),
}

SLOW = ("scipy_bsr_b4",)
"""Engines that run only if they are named: many times slower than the slowest of the others."""

LEFT_OUT: Mapping[str, Mapping[str, str]] = {
    "fp32": {
        "scipy_bsr_b4": "runs only if it is named: ten times slower than scipy_csr",
        "litert with sparse weights": "XNNPACK's sparse 1x1 on x86 is SSE code, and it leaves that "
        "aside on a CPU with AVX (xnn_is_chw_compatible_config); a model of the form that it "
        "would take (DENSIFY, a 3x3/2 on 3 channels before, a mean behind) has the speed of its "
        "dense one",
        "torch.sparse with blocks": "its BSR product by MKL takes square blocks only",
        "oneDNN, OpenVINO, ONNX Runtime with sparse weights": "they have sparse matrix products at "
        "most, and no such convolution",
    },
    "int8": {
        "mnn with sparse weights": "it has sparse int8 where it packs four channels: on Arm, and "
        "on x86 without AVX2",
        "litert with sparse weights": "XNNPACK's sparse kernels are of float32 and float16",
        "torch.sparse, scipy.sparse": "no product of int8 that sums in int32 and is quantized",
    },
}
"""Engines that are not in the tables, by precision, and why."""
