"""Types of the loops of depthwise convolution of bytes."""

from .base import Schedule

class DepthwiseBytesSchedule(Schedule): ...
