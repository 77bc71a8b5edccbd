"""The one exception of the demo."""

from __future__ import annotations

__all__ = ["DemoError"]


class DemoError(Exception):
    """A step failed for a reason that its message tells a user in full."""
