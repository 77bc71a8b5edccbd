"""Entry of ``python -m benchmarks.quantized``."""

from __future__ import annotations

import sys

from benchmarks.quantized.run import main

if __name__ == "__main__":
    sys.exit(main())
