"""`zero_lanes` sets some elements of each pixel to zero, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import every_row, lanes_of, symbol
from tests.kernels.packing_case import PackingCall


@pytest.mark.parametrize("row", every_row("zero_lanes"), ids=symbol)
def test_every_number_of_lanes(checker, row, rng):
    """Gaps between pixels, and no gaps."""
    most = lanes_of(row)
    for lanes in (*range(1, most + 2), 2 * most, 2 * most + 1):
        for pixels in (1, 2, int(rng.integers(3, 30))):
            for gap in (0, int(rng.integers(1, 20))):
                call = PackingCall(checker, row, rng)
                size = call.dtype.itemsize
                dst_ps = (lanes + gap) * size
                call.place_output("dst", (pixels, lanes), (dst_ps, size))
                call.values |= {"dst_ps": dst_ps, "pixels": pixels, "lanes": lanes}
                expected = np.zeros((pixels, lanes), call.dtype)
                call.same_bits(call.run(call.values), expected, call.values)
