"""Progress of long steps, one line each."""

from __future__ import annotations

import time
from typing import TextIO

__all__ = ["Progress"]

_QUIET_SECONDS = 5.0


class Progress:
    """Show the present step, on a terminal or in a log.

    On a terminal a step has one line, which is rewritten as it goes on.  Elsewhere that would leave
    a log full of control characters, so there a step adds a line at its start, at its end, and now
    and then between.

    Parameters
    ----------
    stream : file
        Where to write, usually ``sys.stderr``.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._written = 0.0
        self._open = False

    def step(self, text: str) -> None:
        """Begin a step.

        Parameters
        ----------
        text : str
            The step.
        """
        self.close()
        self._write(text)

    def update(self, text: str, *, last: bool = False) -> None:
        """Say how far the present step is.

        Parameters
        ----------
        text : str
            The step, and how much of it is done.
        last : bool, optional
            Whether nothing more will be said of this step, so that a log should have it.
        """
        if self._terminal or last or time.monotonic() - self._written >= _QUIET_SECONDS:
            self._write(text)

    def close(self) -> None:
        """End the line of the present step, if one is open."""
        if self._open:
            self._stream.write("\n")
            self._stream.flush()
            self._open = False

    def _write(self, text: str) -> None:
        if self._terminal:
            self._stream.write(f"\r\x1b[K{text}")
            self._open = True
        else:
            self._stream.write(f"{text}\n")
        self._stream.flush()
        self._written = time.monotonic()
