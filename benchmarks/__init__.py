"""Measures pplconv against its peers; see ``README.md`` beside this file.

The *installed* pplconv is measured. As ``python -m benchmarks.run``, Python puts the
working directory first on the path, where the source tree (with no compiled modules, unless it was
built in place) would hide the installed package. So the tree's entry is moved to the end.

A peer is measured at its best: settings by which OpenBLAS takes kernels of another CPU, or blocks
for another cache, are taken out of the environment before NumPy loads it.
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


# OpenBLAS reads them once, when it is loaded; processes that a benchmark starts inherit the rest.
SLOWER = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")

for _name in SLOWER:
    os.environ.pop(_name, None)
_prefer_installed()
