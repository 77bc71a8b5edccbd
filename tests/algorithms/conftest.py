"""Puts the source tree last on the path, so that ``benchmarks`` is found from any directory."""

from __future__ import annotations

import sys
from pathlib import Path

# Before ``benchmarks``, which moves the source tree on the path: what is tested is what the
# other tests test.
import pplconv  # noqa: F401

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)
