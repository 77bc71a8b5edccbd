"""What a client has done wrong, or has to wait for."""

from __future__ import annotations

__all__ = ["Refused"]


class Refused(Exception):
    """A request that is answered with an error.

    Parameters
    ----------
    status : int
        HTTP status.
    message : str
        For the client; it names the argument at fault.
    retry_after : int, optional
        Seconds after which the client may try again.
    """

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
