"""Files that one build makes and the next build keeps, if everything they depend on is the same.

Times of files say little: a clone, a copy or an unpacked archive has new ones. So a record beside
each file tells the command and the contents of every file that the compiler read. The record goes
before the file is made and is written when the file is whole, so that what an interrupted build
leaves behind is never taken for finished. Names in a record are relative to the project's folder:
what a copied or moved tree holds stays built.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[1])


def write(path: Path, text: str) -> None:
    """Write `text` unless the file holds it already; never a part of it."""
    if path.exists() and path.read_text() == text:
        return
    temporary = path.with_suffix(path.suffix + ".tmp")
    temporary.write_text(text)
    os.replace(temporary, path)


@cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _digests(paths: Iterable[Path]) -> dict[str, str]:
    # Beneath the project's folder; a compiler's or Python's headers keep their whole names.
    return {
        os.path.relpath(path, ROOT) if path.is_relative_to(ROOT) else str(path): _digest(path)
        for path in paths
    }


class Kept:
    """A file that a build makes.

    Parameters
    ----------
    target : Path
        The file.
    record : Path
        Record of the command and of the files that the target was made from.
    command : sequence of str
        Everything else that decides the file's contents: compiler, flags, versions.
    """

    def __init__(self, target: Path, record: Path, command: Sequence[str]) -> None:
        self.target, self.record = target, record
        relative = "\0".join(command).replace(ROOT, ".")
        self._command = hashlib.sha256(relative.encode()).hexdigest()

    def is_current(self) -> bool:
        """Tell whether the file is whole, and everything it was made from is unchanged."""
        try:
            found = json.loads(self.record.read_text())
            # An absolute name stays so.
            made_from = [Path(ROOT, name) for name in found["files"]]
            return (
                self.target.exists()
                and found["command"] == self._command
                and _digests(made_from) == found["files"]
            )
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def make(self, action: Callable[[], object], made_from: Callable[[], Iterable[Path]]) -> None:
        """Call `action`, which makes the file.

        Parameters
        ----------
        action : callable
            Makes the file or raises.
        made_from : callable
            Gives the files that it was made of, once it is there.
        """
        self.record.unlink(missing_ok=True)
        self.target.parent.mkdir(parents=True, exist_ok=True)
        action()
        found = {"command": self._command, "files": _digests(made_from())}
        self.record.parent.mkdir(parents=True, exist_ok=True)
        write(self.record, json.dumps(found, indent=0))


def dependencies(path: Path) -> list[Path]:
    """Read the names from a rule of make, as compilers write them (``gcc -MMD``)."""
    names = path.read_text().partition(": ")[2].replace("\\\n", " ")
    return [
        Path(re.sub(r"\\([ #])", r"\1", name).replace("$$", "$"))
        for name in re.findall(r"(?:\\[ #]|\S)+", names)
    ]


def in_parallel(actions: Iterable[Callable[[], object]], workers: int) -> None:
    """Run `actions` in `workers` threads, in their order; start no more of them after an error."""
    failed = threading.Event()

    def run(action: Callable[[], object]) -> None:
        if failed.is_set():
            return
        try:
            action()
        except BaseException:
            failed.set()
            raise

    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(run, action) for action in actions]
        try:
            for future in as_completed(futures):
                future.result()
        finally:
            # Ctrl-C comes to this thread alone.
            failed.set()
