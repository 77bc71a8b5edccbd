"""Types of the GEMM nest's loops."""

from .base import Schedule

class GemmSchedule(Schedule): ...
