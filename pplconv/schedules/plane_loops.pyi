"""Types of the loops on few channel planes."""

from .base import Schedule

class PlanesSchedule(Schedule): ...
