"""The loops: a plan's work divided over a team, tiles packed, kernels called. No GIL.

=========================  =====================================================================
``base``                   `Schedule`: tasks, memory layout, types
``gemm_loops``             1x1 and tiled im2col through the GEMM microkernel
``direct_loops``           convolution without im2col, in place on NHWC and NCHWc
``plane_loops``            convolution of few channel planes, read in a padded slab
``sparse_loops``           sparse weights, packed as lists of terms
``winograd_loops``         pre-processing, products over all positions, post-processing
``depthwise_loops``        one input channel for each output channel; also of bytes, exact
``relayout``               NCHW to NCHWc and back
``team_loop``              the only parallel loop: phases of tasks, hooks of threads
``execute``                runs of a plan, for calls and trials: team, scratch, loops, time
``team``                   how many threads a call gets just now
=========================  =====================================================================

A plan's ``loops`` names the module that runs it. Only ``team_loop`` divides work over
threads, and no module of this folder computes with elements: kernels do that.

Importing this package loads none of these modules: `pplconv` itself imports ``team``, which loads
OpenMP's library, and nothing else of it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .._lazy import on_demand

if TYPE_CHECKING:
    from .attention_loops import Attention
    from .base import Schedule
    from .copy_loops import Copy
    from .depthwise_loops import DepthwiseBytesSchedule, DepthwiseSchedule
    from .direct_loops import DirectSchedule
    from .elementwise_loops import Elementwise
    from .gemm_loops import GemmSchedule
    from .index_loops import Indexed
    from .packing import Pack
    from .plane_loops import PlanesSchedule
    from .row_loops import Rows
    from .sparse_loops import SparseSchedule
    from .window_loops import Pool, PoolPlaces, Resample
    from .winograd_loops import WinogradSchedule
    from .zero_point_loops import ZeroPoint

__all__ = [
    "Attention",
    "Copy",
    "DepthwiseBytesSchedule",
    "DepthwiseSchedule",
    "DirectSchedule",
    "Elementwise",
    "GemmSchedule",
    "Indexed",
    "Pack",
    "PlanesSchedule",
    "Pool",
    "PoolPlaces",
    "Resample",
    "Rows",
    "Schedule",
    "SparseSchedule",
    "WinogradSchedule",
    "ZeroPoint",
    "compile_plan",
    "loops_named",
]

_LOOPS = {
    "depthwise": "DepthwiseSchedule",
    "depthwise_bytes": "DepthwiseBytesSchedule",
    "direct": "DirectSchedule",
    "gemm": "GemmSchedule",
    "planes": "PlanesSchedule",
    "sparse": "SparseSchedule",
    "winograd": "WinogradSchedule",
}
_NAMES = {
    "attention_loops": "Attention",
    "base": "Schedule",
    "copy_loops": "Copy",
    "depthwise_loops": "DepthwiseBytesSchedule DepthwiseSchedule",
    "direct_loops": "DirectSchedule",
    "elementwise_loops": "Elementwise",
    "gemm_loops": "GemmSchedule",
    "index_loops": "Indexed",
    "packing": "Pack",
    "plane_loops": "PlanesSchedule",
    "row_loops": "Rows",
    "sparse_loops": "SparseSchedule",
    "window_loops": "Pool PoolPlaces Resample",
    "winograd_loops": "WinogradSchedule",
    "zero_point_loops": "ZeroPoint",
}

if not TYPE_CHECKING:
    __getattr__ = on_demand(__name__, _NAMES)


def loops_named(name: str) -> type[Schedule]:
    """Give the loops that a plan names.

    Raises
    ------
    LookupError
        If there are none.
    """
    found: type[Schedule] = getattr(sys.modules[__name__], _LOOPS[name])
    return found


def compile_plan(fields: dict[str, Any], isa: str) -> Schedule:
    """Make the schedule that a candidate's fields describe.

    Raises
    ------
    ValueError
        If the loops could not carry it out inside its memory.
    LookupError
        If a kernel is missing.
    MemoryError
        If it is beyond what the loops can address.
    """
    return loops_named(fields["loops"])(fields, isa)
