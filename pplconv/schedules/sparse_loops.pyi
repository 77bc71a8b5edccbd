"""Types of the loops over sparse weights."""

from .base import Schedule

class SparseSchedule(Schedule): ...
