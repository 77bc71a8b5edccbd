"""``python examples/demo`` from a clone, with the installed pplconv."""

from __future__ import annotations

import sys
from pathlib import Path

# At the end: an installed pplconv comes before the sources that lie beside this folder.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from examples.demo import main

sys.exit(main(sys.argv[1:]))
