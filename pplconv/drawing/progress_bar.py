"""How far long work is: a bar on a terminal; elsewhere plain lines of commands, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

__all__ = ["Progress", "Wanted", "check_wanted", "late_bar"]

Tell = Callable[[float, str], None]
Wanted = Tell | bool | None

_CELLS = 20
_REDRAW_SECONDS = 0.1
_PATIENT_SECONDS = 2.0


class Progress:
    """Show the progress of a command.

    A terminal has one line, which is drawn anew; elsewhere that would leave a log full of
    control characters, so there each step is a line of its own.

    Parameters
    ----------
    stream : file object
        Where to write, usually ``sys.stderr``.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._drawn = 0.0
        self._open = False

    def step(self, share: float, text: str) -> None:
        """Begin a step.

        Parameters
        ----------
        share : float
            Share of the work that is done, 0 to 1.
        text : str
            Description of the step.
        """
        if self._terminal:
            self._draw(share, text)
        else:
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def update(self, share: float, text: str) -> None:
        """Show the progress of the present step; nothing is written to a log."""
        if self._terminal and time.monotonic() - self._drawn >= _REDRAW_SECONDS:
            self._draw(share, text)

    def clear(self) -> None:
        """Make room for other output."""
        if self._open:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._open = False

    def _draw(self, share: float, text: str) -> None:
        full = round(_CELLS * min(max(share, 0.0), 1.0))
        line = f"[{'#' * full}{'.' * (_CELLS - full)}] {text}"
        import shutil  # rarely needed, and slow to import

        # A line that wraps could not be drawn over.
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r\x1b[K{line[:width]}")
        self._stream.flush()
        self._open = True
        self._drawn = time.monotonic()


@contextmanager
def late_bar(wanted: Wanted) -> Iterator[Tell | None]:
    """Give the callable to which work reports the share done and a text; None: to nobody.

    If it is not `wanted` itself, it draws on ``sys.stderr``: on a terminal, after two seconds.
    """
    stream = sys.stderr
    if callable(wanted) or wanted is False or stream is None or not stream.isatty():
        yield wanted if callable(wanted) else None
        return
    bar, begin = Progress(stream), time.monotonic()

    def tell(share: float, text: str) -> None:
        if time.monotonic() - begin >= _PATIENT_SECONDS:
            bar.update(share, text)

    try:
        yield tell
    finally:
        bar.clear()


def check_wanted(wanted: object) -> None:
    """Refuse what `late_bar` does not take."""
    if not (wanted is None or isinstance(wanted, bool) or callable(wanted)):
        raise TypeError(f"progress must be callable, a bool or None, got {type(wanted).__name__}")
