"""Types of packing as a `Work`."""

from .base import Schedule
from .work import Work

class Pack(Work):
    def __new__(cls, schedule: Schedule) -> Pack: ...
