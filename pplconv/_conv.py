"""Where pickles of version 0.1.0 find what rebuilds them; everything else is in `pplconv.api`."""

from .api.conv import Conv2d, _unpickle

__all__ = ["Conv2d", "_unpickle"]
