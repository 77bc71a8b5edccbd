"""Teams: how many threads, and when not to start any.

===================  ===========================================================================
``threads.py``       `default_threads`: the team where a call names none, and why
``fork.py``          serial runs in children forked after OpenMP was used, where teams hang
``locks.py``         `ForkableLock`: found open by a child forked while another thread held it
``openmp.py``        `openmp_runtimes`: which OpenMP libraries this process has loaded
===================  ===========================================================================

This room only reads: it changes no setting of any other library, and pins nothing.
"""

from __future__ import annotations

from .fork import forked_after_openmp, note_openmp_used, safe_team
from .locks import ForkableLock
from .openmp import openmp_runtimes
from .threads import default_threads, explain_default_threads

__all__ = [
    "ForkableLock",
    "default_threads",
    "explain_default_threads",
    "forked_after_openmp",
    "note_openmp_used",
    "openmp_runtimes",
    "safe_team",
]
