"""The header of intrinsics, parsed once for each set of flags instead of once for each kernel.

The header has 40,000 lines. They take a fifth of a second in each of 400 compilations, half the
time of most. If a compiler cannot make or read a precompiled header, each compilation reads the
header itself; the objects are the same either way.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from asm.kept import in_parallel, write

# Header of intrinsics by `platform.machine()`, whose names the build's plat_name uses too.
INTRINSICS = {
    "x86_64": "immintrin.h",
    "aarch64": "arm_neon.h",
    "arm64": "arm_neon.h",
}
# Least number of compilations with the same flags for which a precompiled header pays.
WORTH = 4


class Precompiled:
    """Headers in a folder, for the compilations of one build.

    They are 25 MB each, so nothing is kept of them from build to build.

    Parameters
    ----------
    folder : Path
        Where they go; nothing else is there.
    machine : str
        As ``platform.machine()`` gives it.
    """

    def __init__(self, folder: Path, machine: str) -> None:
        self._folder, self._header = folder, INTRINSICS.get(machine, "")
        self._made: dict[tuple[str, ...], Path] = {}

    def make(self, commands: Iterable[Sequence[str]], workers: int) -> None:
        """Make a header for each command that compiles many of the files.

        Parameters
        ----------
        commands : iterable of sequence of str
            Compiler and flags of each file, without its name.
        workers : int
            Number of headers that are made at a time.
        """
        if not self._header:
            return
        often = Counter(map(tuple, commands))
        self._folder.mkdir(parents=True, exist_ok=True)
        in_parallel(
            [self._maker(command) for command, count in often.items() if count >= WORTH], workers
        )

    def _maker(self, command: tuple[str, ...]) -> Callable[[], None]:
        def make() -> None:
            name = hashlib.sha256("\0".join(command).encode()).hexdigest()[:12]
            header = self._folder / f"intrinsics_{name}.h"
            write(header, f"#include <{self._header}>\n")
            empty = header.with_suffix(".c")
            write(empty, "")
            # A compiler may make such a header and still fail to read it, so try both.
            lines = (
                [*command, "-x", "c-header", str(header), "-o", f"{header}.gch"],
                [*command, "-include", str(header), "-fsyntax-only", str(empty)],
            )
            if all(
                subprocess.run(line, capture_output=True, check=False).returncode == 0
                for line in lines
            ):
                self._made[command] = header

        return make

    def options(self, command: Sequence[str]) -> list[str]:
        """Give the further options of a compilation by this command."""
        header = self._made.get(tuple(command))
        return ["-include", str(header)] if header else []

    def without(self, names: Iterable[Path]) -> list[Path]:
        """Leave these headers out of the files that a compilation has read."""
        return [name for name in names if name.parent != self._folder]

    def remove(self) -> None:
        """Remove all of them."""
        for path in self._folder.glob("intrinsics_*"):
            path.unlink()
