"""``python -m benchmarks.serving``."""

from __future__ import annotations

import sys

from benchmarks.serving.run import main

sys.exit(main())
