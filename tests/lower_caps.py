"""Print the caps that ask less of this machine than it has, lowest first: one share of CI each.

With ``narrow``, those that only narrow types tell from another cap or from none: theirs are the
tests marked ``narrow``, and all others would run as they do there.
"""

from __future__ import annotations

import sys
from pathlib import Path

# Last: the installed package is the one that is asked, not its sources.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from levels import executable_isas, narrow_isas

if __name__ == "__main__":
    isas = executable_isas()
    whole = [isa for isa in isas if isa not in narrow_isas()][:-1]
    # What is left but for the highest, which runs without a cap have.
    narrow = [isa for isa in isas[:-1] if isa not in whole]
    print(*(narrow if sys.argv[1:] == ["narrow"] else whole))
