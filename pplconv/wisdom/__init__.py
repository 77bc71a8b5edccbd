"""Wisdom: plans that a search measured, remembered in this process and in a file.

===================  ===========================================================================
``export``           what is known here, as a dict or into a file
``load``             take in what another process or machine found out
``clear``            forget
``WisdomWarning``    a file that could not be used, or not be written
===================  ===========================================================================

A search finds two things, and wisdom keeps them apart. The *choice* (algorithm and variant)
decides the bits of a result, so it is kept once for a problem, whatever the team. The *division*
of the work (block sizes) changes no bit, and is kept for each size of team.

A process sees the file as it was when the process first asked, and its own findings: what others
write later stays in the file and changes no plan here. The file is written at once,
whole or not at all, and merged with what others wrote. It is data that a stranger may have
damaged: every entry is checked when it is read, holds nothing but names, numbers and booleans, and
says only what to try first; the planner builds the plan anew, and checks that it can.

For the planner:

===================  ===========================================================================
``Key``              what an entry is found by, the team left out
``Entry``            a choice, and a `Division` for each size of team that was measured
``cpu_model``        the CPU as a key names it
``lookup``           what is known of a problem
``remember``         add what was found out
``describe``         where the file lies and what it holds
===================  ===========================================================================

===================  ===========================================================================
``entries.py``       keys and entries: their grammar, their bounds, how two of them merge
``document.py``      the text of a file, read without trust
``files.py``         reading, replacing and locking files
``store.py``         one file and the memory before it: threads, forks, other processes
``api.py``           the functions above, on the store that the environment names
===================  ===========================================================================

Importing this room loads none of them, which keeps the import of pplconv short; the first use does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .api import clear, describe, export, load, lookup, remember
    from .entries import Division, Entry, Key, cpu_model
    from .store import WisdomWarning

__all__ = [
    "Division",
    "Entry",
    "Key",
    "WisdomWarning",
    "clear",
    "cpu_model",
    "describe",
    "export",
    "load",
    "lookup",
    "remember",
]

_HOMES = {
    **dict.fromkeys(("clear", "describe", "export", "load", "lookup", "remember"), "api"),
    **dict.fromkeys(("Division", "Entry", "Key", "cpu_model"), "entries"),
    "WisdomWarning": "store",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
