"""Types of depthwise convolution's loops."""

from .base import Schedule

class DepthwiseSchedule(Schedule): ...
