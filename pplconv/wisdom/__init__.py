"""Wisdom: plans that a search measured, remembered in this process and in a file.

===================  ===========================================================================
``export``           this process's wisdom, as a dict or into a file
``load``             add the findings of another process or machine
``clear``            forget
``WisdomWarning``    a file that could not be used, or not be written
===================  ===========================================================================

A search finds two things, and wisdom keeps them apart. The *choice* (algorithm and variant)
decides the bits of a result, so it is kept once for a problem, for all teams. The *division*
of the work (block sizes) changes no bit, and is kept for each size of team.

A process uses the file's content at its first lookup, and its own findings: later writes of other
processes stay in the file and change no plan here. The file is written at once, in full or not at
all, and merged with the entries of others. It may be damaged or forged: every entry is checked when
it is read, holds only names, numbers and booleans, and only suggests what to try first. The planner
builds the plan itself, and checks that it can.

For the planner:

===================  ===========================================================================
``Key``              the key of an entry, without the team
``Entry``            a choice, and a `Division` for each size of team that was measured
``cpu_model``        the CPU as a key names it
``lookup``           the entry of a problem
``is_empty``         whether there is no entry of any problem
``remember``         add a finding
``describe``         path and content of the file
===================  ===========================================================================

===================  ===========================================================================
``entries.py``       keys and entries: their grammar, their bounds, how two of them merge
``document.py``      the text of a file, with checks of every entry
``wisdom_files.py``  reading, replacing and locking files
``store.py``         one file and the memory before it: threads, forks, other processes
``api.py``           the functions above, on the store that the environment names
===================  ===========================================================================

Importing this package loads none of these modules, to keep the import of pplconv short; the first
use does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import on_demand

if TYPE_CHECKING:
    from .api import clear, describe, export, is_empty, load, lookup, remember
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
    "is_empty",
    "load",
    "lookup",
    "remember",
]

_NAMES = {
    "api": "clear describe export is_empty load lookup remember",
    "entries": "Division Entry Key cpu_model",
    "store": "WisdomWarning",
}


if not TYPE_CHECKING:
    __getattr__ = on_demand(__name__, _NAMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
