"""Show the sanitizers' reports in a folder, and count the processes that wrote some; 1 if any."""

from __future__ import annotations

import sys
from pathlib import Path

# Characters of a report that are shown: its reason and the first stacks.
SHOWN = 6000


def main() -> int:
    """Print every report of the folder named on the command line."""
    (folder,) = map(Path, sys.argv[1:])
    texts = {path: path.read_text(errors="replace") for path in sorted(folder.iterdir())}
    # A refused allocation is only a warning: tests ask for too much memory on purpose.
    found = {path: text for path, text in texts.items() if "ERROR: " in text}
    for path, text in found.items():
        print(f"--- {path}\n{text[:SHOWN]}")
    print(f"sanitizers: {len(found)} processes reported something")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
