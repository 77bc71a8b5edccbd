"""Types of direct convolution's loops."""

from .base import Schedule

class DirectSchedule(Schedule): ...
