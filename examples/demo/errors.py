"""The one exception of the demo."""

from __future__ import annotations

__all__ = ["DemoError"]


class DemoError(Exception):
    """A step failed; the message tells a user the whole reason."""
