"""Types of packing as a `Work`."""

from .gemm_loops import GemmSchedule
from .work import Work

class Pack(Work):
    def __new__(cls, schedule: GemmSchedule) -> Pack: ...
