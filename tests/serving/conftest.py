"""The helpers of these tests are imported by name; see ``tests/conftest.py``.

All networks of these tests run on memory that is filled before (`poisoning`).
"""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = str(Path(__file__).resolve().parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

import poisoning  # noqa: E402

poisoning.install()
