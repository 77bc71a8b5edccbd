"""The reference of images lies beside their tests, and is imported by name."""

from __future__ import annotations

import sys
from pathlib import Path

_IMAGING = str(Path(__file__).resolve().parent.parent / "imaging")
if _IMAGING not in sys.path:
    sys.path.append(_IMAGING)
