"""Arrays of any size that take four bytes, where addresses have 64 bits."""

from __future__ import annotations

import sys

import numpy as np
import pytest

WIDE = sys.maxsize >= 1 << 32
# With addresses of 32 bits NumPy refuses such shapes, even if all elements share one address.
needs_huge_arrays = pytest.mark.skipif(not WIDE, reason="addresses of 32 bits: there are none")


def huge(*shape: int) -> np.ndarray:
    """Give an array of this shape; with addresses of 32 bits, one that no test may look at."""
    return np.broadcast_to(np.float32(1), shape if WIDE else (1,) * len(shape))
