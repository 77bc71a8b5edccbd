"""Arrays of any size that take four bytes, where addresses have 64 bits."""

from __future__ import annotations

import sys

import numpy as np
import pytest

WIDE = sys.maxsize >= 1 << 32
# NumPy refuses an array there whose elements would have no addresses, even if they are all one.
needs_huge_arrays = pytest.mark.skipif(not WIDE, reason="addresses of 32 bits: there are none")


def huge(*shape: int) -> np.ndarray:
    """Give an array of this shape; where there is none, another that no test is to look at."""
    return np.broadcast_to(np.float32(1), shape if WIDE else (1,) * len(shape))
