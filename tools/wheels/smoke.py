"""Test of an installed wheel, in an environment with its requirements only.

``python smoke.py VERSION`` compares filters, layers and networks' products with NumPy, and checks
the package's metadata.
"""

from __future__ import annotations

import sys
import sysconfig

import numpy as np

import pplconv
from pplconv import imaging

rng = np.random.default_rng(20)
assert pplconv.__version__ == sys.argv[1], pplconv.__version__

x = rng.standard_normal((2, 5, 12, 13)).astype(np.float32)
w = rng.standard_normal((7, 5, 3, 3)).astype(np.float32)
windows = np.lib.stride_tricks.sliding_window_view(x.astype(float), (3, 3), axis=(2, 3))
expected = np.einsum("nchwij,ocij->nohw", windows, w.astype(float))
for threads in (1, 2):
    assert np.allclose(pplconv.conv2d(x, w, threads=threads), expected, atol=1e-4)
    assert np.allclose(pplconv.Conv2d(w, threads=threads)(x), expected, atol=1e-4)

a, b = (rng.standard_normal((9, 9)).astype(np.float32) for _ in range(2))
assert np.allclose(pplconv.matmul(a, b), a.astype(float) @ b.astype(float), atol=1e-4)

image = rng.integers(0, 256, (23, 31, 3)).astype(np.uint8)
kernel = np.full((3, 3), 1 / 8)
padded = np.pad(image.astype(float), ((1, 1), (1, 1), (0, 0)), mode="reflect")
seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))
# numpy.rint rounds halves to even, as the filter does; eighths are exact.
wanted = np.clip(np.rint(np.einsum("hwcij,ij->hwc", seen, kernel)), 0, 255)
assert np.array_equal(imaging.filter2d(image, kernel), wanted)

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    # A module that does not declare support for running without the GIL would have enabled it.
    assert not vars(sys)["_is_gil_enabled"](), "the GIL is on"

pplconv.show_config()
print(f"smoke: Python {sys.version.split()[0]}, pplconv {pplconv.__version__}: all as expected")
