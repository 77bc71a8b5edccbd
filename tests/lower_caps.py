"""Print the caps that ask less of this machine than it has, lowest first: one share of CI each."""

from __future__ import annotations

import sys
from pathlib import Path

# Last: the installed package is the one that is asked, not its sources.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from levels import executable_isas

if __name__ == "__main__":
    print(*executable_isas()[:-1])
