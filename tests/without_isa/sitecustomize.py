"""What a Python does first that tests start under ``PPLCONV_TEST_WITHOUT_ISA``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
from tests import absent

sys.path.pop()
absent.install()
