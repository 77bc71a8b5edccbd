"""pplconv itself: prepared in both layouts, and with the weights packed at each call."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.base import Array32, Availability, Engine, Prepared
from benchmarks.problems import Problem


def _geometry(problem: Problem) -> dict[str, Any]:
    return {
        "stride": (problem.sh, problem.sw),
        "padding": (problem.ph, problem.pw),
        "dilation": (problem.dh, problem.dw),
        "groups": problem.groups,
    }


class _Pplconv(Engine):
    ours = True

    def available(self) -> Availability:
        """Tell whether a built pplconv can be imported."""
        try:
            import pplconv
        except ImportError as error:
            return Availability(ok=False, reason=f"pplconv cannot be imported: {error}")
        if not hasattr(pplconv, "Conv2d"):
            return Availability(ok=False, reason="pplconv is a source tree that was not built")
        return Availability(ok=True, version=pplconv.__version__)


class PplconvNchw(_Pplconv):
    """`pplconv.Conv2d`, NCHW in and out."""

    name = "pplconv"
    note = "Conv2d, NCHW, out="

    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Pack the weights and plan for the shape of `x`; the output is written into one array."""
        import pplconv

        conv = pplconv.Conv2d(w, **_geometry(problem), input_shape=x.shape, threads=threads)
        out = np.empty(problem.output_shape, np.float32)
        return Prepared(partial(conv, x, out=out), np.asarray)


class PplconvNhwc(_Pplconv):
    """`pplconv.Conv2d`, NHWC in and out."""

    name = "pplconv_nhwc"
    note = "Conv2d, NHWC, out="

    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Do the same with (N, H, W, C) arrays."""
        import pplconv

        x_nhwc = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        conv = pplconv.Conv2d(
            w, **_geometry(problem), layout="NHWC", input_shape=x_nhwc.shape, threads=threads
        )
        out = np.empty((problem.mb, problem.oh, problem.ow, problem.oc), np.float32)
        return Prepared(partial(conv, x_nhwc, out=out), _nhwc_to_nchw)


class PplconvFunction(_Pplconv):
    """`pplconv.conv2d`: weights packed at each call, a new output each time."""

    name = "pplconv_conv2d"
    note = "conv2d, NCHW, weights packed at each call"

    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Bind the arguments only: every call packs the weights."""
        import pplconv

        call = partial(pplconv.conv2d, x, w, **_geometry(problem), threads=threads)
        return Prepared(call, np.asarray)


def _nhwc_to_nchw(y: NDArray[np.float32]) -> NDArray[np.generic]:
    nchw: NDArray[np.generic] = y.transpose(0, 3, 1, 2)
    return nchw
