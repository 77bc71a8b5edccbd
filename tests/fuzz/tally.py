"""What was tried, in numbers."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from threading import Lock
from typing import Any

_PIECE = tuple[int, int, str]


class Tally:
    """Counts of all processes, and which seeds were run.

    Parameters
    ----------
    start : int
        The first seed.
    """

    def __init__(self, start: int) -> None:
        self.findings: list[str] = []
        self._start = start
        self._begin = time.monotonic()
        self._lock = Lock()
        self._counts: Counter[str] = Counter()
        self._next: dict[_PIECE, int] = {}  # of the pieces that are not done
        self._handed_out = start

    def begun(self, pieces: list[_PIECE]) -> None:
        """Take note of pieces (first seed, end, instruction set) of the same seeds, to be run."""
        with self._lock:
            for piece in pieces:
                self._next[piece] = piece[0]
                self._handed_out = max(self._handed_out, piece[1])

    def take(self, piece: _PIECE, message: dict[str, Any]) -> None:
        """Take in a line of a worker."""
        with self._lock:
            if "finding" in message:
                self._add(message["finding"], message)
                return
            self._counts.update(message["counts"])
            self._next[piece] = message["next"]
            if message["next"] >= piece[1]:
                del self._next[piece]

    def died(self, piece: _PIECE, seed: int, how: str) -> None:
        """Take note of a process that ended at `seed`, which is a finding."""
        with self._lock:
            self._counts["problems"] += 1
            self._next[piece] = seed + 1
            if seed + 1 >= piece[1]:
                del self._next[piece]
            self._add(seed, {"isa": piece[2], "text": f"the process died: {how}", "call": ""})

    def _add(self, seed: int, message: dict[str, Any]) -> None:
        text = f"FINDING seed {seed}, {message['isa']}: {message['text']}\n{message['call']}"
        if message.get("smaller"):
            text += f"\nsmaller: {message['smaller']}"
        text += f"\nagain: --seed {seed}"
        self.findings.append(text)
        print(f"\n{text}", flush=True)

    def complete(self) -> int:
        """The seed before which every one was run."""
        with self._lock:
            return min([self._handed_out, *self._next.values()])

    def line(self) -> str:
        """Progress in one line."""
        seconds = time.monotonic() - self._begin
        count = self._counts["problems"]
        return (
            f"{count} problems, {count / max(seconds, 1e-9):.0f}/s, seeds {self._start}:"
            f"{self.complete()} done, {len(self.findings)} findings"
        )

    def summary(self) -> str:
        """Everything, under headings."""
        headings: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for name, count in self._counts.items():
            heading, colon, item = name.partition(": ")
            if colon:
                headings[heading].append((count, item))
        lines = [self.line()]
        for heading in sorted(headings):
            lines.append(f"by {heading}:" if heading != "refused" else "refused as documented:")
            for count, item in sorted(headings[heading], key=lambda pair: -pair[0]):
                lines.append(f"{count:>10}  {item}")
        if self.findings:
            lines.append(f"{len(self.findings)} findings:")
            lines += [f"  {text.splitlines()[0]}" for text in self.findings]
        return "\n".join(lines)
