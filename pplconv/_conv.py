"""Pickles of version 0.1.0 look here for the functions that rebuild them; see `pplconv.api`."""

from .api.conv import Conv2d, _unpickle

__all__ = ["Conv2d", "_unpickle"]
