"""What a Python does first that tests start under ``PPLCONV_TEST_WITHOUT_ISA``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import absent

sys.path.pop()
absent.install()
