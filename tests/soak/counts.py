"""Resources of a process and its children: memory, file descriptors, threads, shared memory."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Counts:
    """The sums over a process and its children; `memory` in bytes, private to them."""

    memory: int
    descriptors: int
    threads: int
    segments: int
    children: int

    def text(self) -> str:
        """Give them in one line."""
        return (
            f"{self.memory / 2**20:.1f} MiB, {self.descriptors} file descriptors, "
            f"{self.threads} threads, {self.segments} shared-memory segments, "
            f"{self.children} child processes"
        )


def segments() -> int:
    """Count the named segments of the system and the mappings of unnamed or unlinked ones."""
    named = sum(1 for entry in SHARED_MEMORY.iterdir()) if SHARED_MEMORY.is_dir() else 0
    mapped = {
        fields[4]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if len(fields := line.split(maxsplit=5)) == 6
        and fields[5].startswith(("/dev/shm/", "/memfd:"))
        and fields[5].endswith("(deleted)")
    }
    return named + len(mapped)


def count() -> Counts:
    """Count now."""
    gc.collect()
    this = psutil.Process()
    memory = descriptors = threads = children = 0
    for process in (this, *this.children(recursive=True)):
        try:
            with process.oneshot():
                memory += process.memory_full_info().uss
                descriptors += process.num_fds()
                threads += process.num_threads()
        except psutil.NoSuchProcess:
            continue
        children += process != this
    return Counts(memory, descriptors, threads, segments(), children)


def settled(expected: Counts | None = None, seconds: float = 10.0) -> Counts:
    """Count until only memory differs from the expected counts, or until time is up.

    Threads and processes that have ended are gone a moment after they were joined, not at once.
    """
    until = time.monotonic() + seconds
    while True:
        now = count()
        if expected is None or not differences(expected, now, margin=1 << 62):
            return now
        if time.monotonic() > until:
            return now
        time.sleep(0.1)


def differences(before: Counts, after: Counts, margin: int) -> list[str]:
    """Describe counts that differ, and memory that grew by more than `margin` bytes."""
    found = [
        f"{name}: {getattr(before, name)} before, {getattr(after, name)} after"
        for name in ("descriptors", "threads", "segments", "children")
        if getattr(before, name) != getattr(after, name)
    ]
    if after.memory - before.memory > margin:
        found.append(
            f"memory grew by {(after.memory - before.memory) / 2**20:.1f} MiB, "
            f"more than {margin / 2**20:.0f}"
        )
    return found
