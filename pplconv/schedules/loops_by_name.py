"""The loops of each name that plans have."""

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
