"""Entry of ``python -m benchmarks.sparse``."""

from __future__ import annotations

import sys

from benchmarks.sparse.run import main

if __name__ == "__main__":
    sys.exit(main())
