"""How a command ends: with a status, and where it fails with a line that says why."""

from __future__ import annotations

import sys
from collections.abc import Callable

from ..drawing.progress_bar import Progress

__all__ = ["carry_out", "complain"]


def carry_out(command: str, work: Callable[[Progress], None]) -> int:
    """Run a command, and print an error instead of raising it.

    Parameters
    ----------
    command : str
        Its name, for messages.
    work : callable
        Does the work, and shows its progress.

    Returns
    -------
    int
        Exit status: 0; 2 if an extra is not installed, a file cannot be read or written, an
        argument is at fault or memory is short; 130 if interrupted.
    """
    progress = Progress(sys.stderr)
    message: object
    try:
        work(progress)
        return 0
    except BrokenPipeError:
        raise  # no file is at fault
    except (ImportError, OSError, TypeError, ValueError) as error:
        message, status = error, 2
    except MemoryError as error:
        message, status = str(error) or "not enough memory", 2
    except KeyboardInterrupt:
        message, status = "interrupted", 130
    progress.clear()
    complain(command, message)
    return status


def complain(command: str, message: object) -> None:
    """Print a line on ``sys.stderr`` that begins with the command's name."""
    print(f"pplconv {command}: {message}", file=sys.stderr, flush=True)
