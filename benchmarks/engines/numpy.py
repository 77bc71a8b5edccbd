"""im2col by NumPy, as its users write it: the whole matrix, then one product."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from benchmarks import machine
from benchmarks.engines.base import Array32, Availability, Engine, Prepared
from benchmarks.problems import Problem


class Numpy(Engine):
    """``sliding_window_view`` and ``matmul``."""

    name = "numpy"
    modules = ("numpy", "threadpoolctl")
    distribution = "numpy"
    note = "sliding_window_view + matmul"

    def available(self) -> Availability:
        """Tell whether NumPy's BLAS can be held to a number of threads."""
        found = super().available()
        if found.ok:
            return Availability(ok=True, version=f"{found.version} ({machine.blas()})")
        return found

    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Hold the BLAS to `threads`, and reshape the weights."""
        import threadpoolctl

        threadpoolctl.threadpool_limits(threads, user_api="blas")
        p = problem
        weight = w.reshape(p.groups, p.oc // p.groups, p.reduction)
        padding = ((0, 0), (0, 0), (p.ph, p.ph), (p.pw, p.pw))
        window = (p.kh + (p.kh - 1) * (p.dh - 1), p.kw + (p.kw - 1) * (p.dw - 1))

        def call() -> NDArray[np.float32]:
            padded = np.pad(x, padding) if p.ph or p.pw else x
            taps = sliding_window_view(padded, window, axis=(2, 3))
            taps = taps[:, :, :: p.sh, :: p.sw, :: p.dh, :: p.dw].transpose(0, 1, 4, 5, 2, 3)
            matrix = taps.reshape(p.mb, p.groups, p.reduction, p.oh * p.ow)
            y: NDArray[np.float32] = np.matmul(weight, matrix).reshape(p.output_shape)
            return y

        return Prepared(call, np.asarray)
