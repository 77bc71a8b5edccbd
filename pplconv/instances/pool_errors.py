"""Exceptions that come from another process."""

from __future__ import annotations

import pickle

from .child import Failure

__all__ = ["RemoteTraceback", "raised"]


class RemoteTraceback(Exception):
    """The cause of an exception from a worker process: where it was raised there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._text = text

    def __str__(self) -> str:
        return f'\n"""\n{self._text}"""'


def raised(failure: Failure) -> Exception:
    """The exception of a worker, or a RuntimeError that describes it.

    Parameters
    ----------
    failure : Failure
        As the worker sent it.

    Returns
    -------
    Exception
        To be raised; its cause is a `RemoteTraceback`.
    """
    found: object = None
    if failure.exception is not None:
        try:
            found = pickle.loads(failure.exception)
        except Exception:
            found = None
    error = found if isinstance(found, Exception) else RuntimeError(failure.summary)
    error.__cause__ = RemoteTraceback(failure.text)
    return error
