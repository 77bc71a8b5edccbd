"""Teams: how many threads, and when not to start any.

===================  ===========================================================================
``threads.py``       `default_threads`: the team where a call names none, and why
``scope.py``         `team`: another default for a block of code
``fork.py``          serial runs in children forked after OpenMP was used, where teams hang
``openmp.py``        `openmp_runtimes`: which OpenMP libraries this process has loaded
===================  ===========================================================================

This room only reads: it changes no setting of any other library, and pins nothing.
"""

from __future__ import annotations

from .fork import forked_after_openmp, note_openmp_used, safe_team
from .openmp import openmp_runtimes
from .scope import scoped_team, team
from .threads import default_threads, explain_default_threads

__all__ = [
    "default_threads",
    "explain_default_threads",
    "forked_after_openmp",
    "note_openmp_used",
    "openmp_runtimes",
    "safe_team",
    "scoped_team",
    "team",
]
