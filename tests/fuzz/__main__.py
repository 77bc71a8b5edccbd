"""``python tests/fuzz --seeds A:B --seconds S --jobs J``, or ``--seed N`` for one call."""

from __future__ import annotations

import sys
from pathlib import Path

# Not this folder, whose modules are those of a package; and the root goes last, as it has the
# sources of pplconv, which may not be what is installed.
sys.path.pop(0)
sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.fuzz.command import main

if __name__ == "__main__":
    sys.exit(main())
