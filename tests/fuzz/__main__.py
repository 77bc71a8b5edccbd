"""``python tests/fuzz --seeds A:B --seconds S --jobs J``, or ``--seed N`` for one call."""

from __future__ import annotations

import sys
from pathlib import Path

# The helpers of the tests are imported by name. Not the folder above: it holds the sources of
# the package, which may not be what is installed.
_TESTS = Path(__file__).resolve().parent.parent
sys.path[0] = str(_TESTS)
sys.path += [str(_TESTS / "api"), str(_TESTS / "imaging")]

from fuzz.command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
