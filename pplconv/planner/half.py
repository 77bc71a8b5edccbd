"""Whether half precision can be computed in, or only stored."""

from __future__ import annotations

from functools import lru_cache

from .. import _kernels, config
from ..algorithms.error_bounds import HALF_CHAIN
from .target import here

# What has kernels in half precision, where anything has, and which those are.
HALF_ALGORITHMS = ("pointwise", "direct", "im2col", "depthwise")
HALF_OPERATIONS = frozenset(
    ("convert_in", "convert_out", "gemm", "pack_pixels", "pack_rows", "pack_channels",
     "pack_weights", "store_transposed", "zero_lanes", "activate", "depthwise_pixels",
     "depthwise_channels", "pack_depthwise")
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


def half_arithmetic(algorithm: str, filters: tuple[int, int, int, int]) -> bool:
    """Whether kernels that compute in half precision can serve a convolution.

    Parameters
    ----------
    algorithm : str
        As in `Request`.
    filters : tuple of int
        Shape of the weights: output channels, input channels of a group, rows, columns.
    """
    if algorithm not in ("auto", *HALF_ALGORITHMS):
        return False
    _, channels, kh, kw = filters
    # Depthwise kernels add up a whole sum in one chain; another algorithm only if it is named.
    if algorithm in ("auto", "depthwise") and channels == 1 and kh * kw > HALF_CHAIN:
        return False
    return not _able().isdisjoint(here().machine.usable_isas(config.current().max_isa))
