"""Types of Winograd's loops."""

from .base import Schedule

class WinogradSchedule(Schedule): ...
