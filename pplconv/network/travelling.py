"""Pickles of version 0.2.0 look here for the parts of a session; see `session_pickles`."""

from .session_pickles import Sent

__all__ = ["Sent"]
