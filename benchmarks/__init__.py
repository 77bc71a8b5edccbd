"""Measures pplconv against its peers; see ``README.md`` beside this file.

The *installed* pplconv is what is measured. As ``python -m benchmarks.run``, Python puts the
working directory first on the path, where the source tree (with no compiled modules, unless it was
built in place) would hide the installed package. So the tree's entry is moved to the end.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def _prefer_installed() -> None:
    root = Path(__file__).resolve().parent.parent
    ours = [entry for entry in sys.path if Path(entry or os.curdir).resolve() == root]
    if ours:
        sys.path[:] = [entry for entry in sys.path if entry not in ours] + [str(root)]


_prefer_installed()
