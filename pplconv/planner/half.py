"""Whether half precision can be computed in, or only stored."""

from __future__ import annotations

from functools import lru_cache

from .. import _kernels, config
from .target import here

# What has kernels in half precision, where anything has, and which those are.
HALF_ALGORITHMS = ("pointwise", "direct", "im2col")
HALF_OPERATIONS = frozenset(
    ("gemm", "pack_pixels", "pack_rows", "pack_channels", "pack_weights", "store_transposed",
     "zero_lanes", "activate")
)  # fmt: skip


@lru_cache(maxsize=1)
def _able() -> frozenset[str]:
    """Instruction sets that have all of these kernels."""
    rows = [row for row in _kernels.rows() if row["dtype"] == "f16"]
    return frozenset(
        isa
        for isa in {row["isa"] for row in rows}
        if {row["op"] for row in rows if row["isa"] == isa} >= HALF_OPERATIONS
    )


def half_arithmetic(algorithm: str, depthwise: bool) -> bool:
    """Whether kernels that compute in half precision can serve a convolution.

    Parameters
    ----------
    algorithm : str
        As in `Request`.
    depthwise : bool
        Whether groups have one input channel.
    """
    if depthwise or algorithm not in ("auto", *HALF_ALGORITHMS):
        return False
    return not _able().isdisjoint(here().machine.usable_isas(config.current().max_isa))
