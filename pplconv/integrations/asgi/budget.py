"""Memory that requests hold: bodies while they arrive, answers until they are sent."""

from __future__ import annotations

from .http_errors import Refused

__all__ = ["Budget", "Lease"]

_RETRY_AFTER = 1


class Budget:
    """Bytes that all requests together may hold; used by the thread of an event loop only.

    Parameters
    ----------
    most : int
        Largest number of bytes.

    Attributes
    ----------
    held : int
        Bytes that are held now.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0


class Lease:
    """Bytes that one request holds.

    Parameters
    ----------
    budget : Budget
        Budget shared with all other requests.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._held = 0

    def add(self, size: int) -> None:
        """Hold more bytes.

        Raises
        ------
        Refused
            503 if requests hold too many, 422 if this one alone needs more than all may hold.
        """
        budget = self._budget
        if self._held + size > budget.most:
            raise Refused(
                422, f"request and answer have more than max_held={budget.most} bytes: ask for less"
            )
        if budget.held + size > budget.most:
            raise Refused(503, "the memory for requests is full: try again", _RETRY_AFTER)
        budget.held += size
        self._held += size

    def give_back(self, size: int) -> None:
        """Hold `size` bytes less."""
        self._budget.held -= size
        self._held -= size

    def close(self) -> None:
        """Give all bytes back."""
        self.give_back(self._held)
