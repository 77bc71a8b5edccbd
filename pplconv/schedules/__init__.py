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
"""

from __future__ import annotations

from typing import Any

from .base import Schedule
from .depthwise_loops import DepthwiseBytesSchedule, DepthwiseSchedule
from .direct_loops import DirectSchedule
from .gemm_loops import GemmSchedule
from .plane_loops import PlanesSchedule
from .sparse_loops import SparseSchedule
from .winograd_loops import WinogradSchedule

SCHEDULES: dict[str, type[Schedule]] = {
    "depthwise": DepthwiseSchedule,
    "depthwise_bytes": DepthwiseBytesSchedule,
    "direct": DirectSchedule,
    "gemm": GemmSchedule,
    "planes": PlanesSchedule,
    "sparse": SparseSchedule,
    "winograd": WinogradSchedule,
}


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
    return SCHEDULES[fields["loops"]](fields, isa)


__all__ = ["SCHEDULES", "Schedule", "compile_plan"]
