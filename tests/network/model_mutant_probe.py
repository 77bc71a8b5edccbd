"""Open and run mutants of model files in this process, which must survive it.

Not a test module: ``model_fuzz.py`` runs it as a script. The seed at hand is in a file, should the
process die. Prints a line of JSON.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import resource
import signal
import struct
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from pplconv.network.session import InferenceSession
from tests.network import kept_mutants, model_mutants

# Errors that may refuse a file that is no network; `OSError` is for weights in other files. A
# model that needs more memory than there is may say so when it runs.
REFUSALS = (ValueError, TypeError, OSError)
# Of the arrays that a mutant is run with.
MOST_ELEMENTS = 1 << 16


def folder_of(root: Path) -> Path:
    """Make the folder that mutants lie in, and what they must not reach beside it."""
    folder = root / "models"
    folder.mkdir()
    numbers = np.arange(64, dtype=np.float32).tobytes()
    for path in (folder / "w.bin", root / "secret.bin"):
        path.write_bytes(numbers)
    (folder / "folder").mkdir()
    (folder / "link.bin").symlink_to(root / "secret.bin")
    (folder / "up").symlink_to(root)
    os.mkfifo(folder / "fifo")
    return folder


def feed_of(session: InferenceSession, seed: int) -> dict[str, Any] | None:
    """Inputs of a session, unless they are large; now and then initializers are overridden."""
    rng = np.random.default_rng(seed)
    sizes: dict[Any, int] = {}
    feed: dict[str, Any] = {}
    more = session.get_overridable_initializers() if seed % 5 == 0 else []
    for value in (*session.get_inputs(), *more):
        shape = []
        for dim in value.shape:
            size = sizes.setdefault(dim, int(rng.integers(0, 9)))
            shape.append(dim if isinstance(dim, int) else size)
        # A Scan takes as many turns as an empty array has rows.
        if min(shape, default=1) < 0 or math.prod(max(n, 1) for n in shape) > MOST_ELEMENTS:
            return None
        kind = value.type
        if kind.startswith("optional(") and rng.integers(2):
            feed[value.name] = None
            continue
        kind = kind.removeprefix("optional(")
        if kind.startswith("seq("):
            count = int(rng.integers(0, 4))
            feed[value.name] = [array_of(kind.removeprefix("seq("), shape, rng)] * count
        else:
            feed[value.name] = array_of(kind, shape, rng)
    return feed


def array_of(kind: str, shape: list[int], rng: np.random.Generator) -> np.ndarray:
    """An array of a type as sessions name it: they refuse others."""
    kind = kind.removeprefix("tensor(").rstrip(")")
    kind = {"float": "float32", "double": "float64"}.get(kind, kind)
    numbers = rng.integers(-2, 3, shape)
    if kind == "string":
        return numbers.astype(str).astype(object)
    try:
        return numbers.astype(np.dtype(kind))
    except TypeError:
        return numbers


def attempt(content: bytes, seed: int, folder: Path) -> str:
    """Open a file as a model and run it; say how far that came."""
    source: Any = content
    if seed % 4 == 0:
        source = folder / "m.onnx"
        source.write_bytes(content)
    stage = "opened"
    try:
        session = InferenceSession(source, threads=1 + seed % 2, fallback=seed % 3 == 0)
        stage = "run"
        feed = feed_of(session, seed)
        if feed is None:
            return "opened, too large to run"
        session.run(None, feed)
    except (*REFUSALS, MemoryError) as error:
        if stage == "opened" and isinstance(error, MemoryError):
            raise
        assert str(error), f"{type(error).__name__} without a word"
        kind = ValueError if isinstance(error, ValueError) else type(error)
        return f"not {stage}: {kind.__name__}"
    return "run"


def plant(what: str) -> None:
    """Do what a mutant must not, to show that it is seen."""
    if what == "crash":
        ctypes.string_at(8)
    elif what == "error":
        raise KeyError("planted")
    elif what == "time":
        while True:
            pass
    elif what == "memory":
        np.ones(1 << 32, np.uint8)


def peak_bytes() -> int:
    """Most memory of this program; ``getrusage`` would begin with the memory of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (found,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(found) << 10


def main() -> None:
    """Go through seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", required=True, help="A:B")
    parser.add_argument("--mark", required=True, help="file that holds the seed at hand")
    parser.add_argument("--folder", required=True, type=Path, help="an empty one")
    parser.add_argument("--seconds", type=float, required=True, help="of CPU for one mutant")
    parser.add_argument("--bytes", type=int, required=True, help="of memory for all; 0: any")
    parser.add_argument("--kept", action="store_true", help="mutants of compiled networks")
    parser.add_argument("--plant", nargs=2, default=("", "-1"), help="what, at which seed")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split(":"))
    folder = folder_of(options.folder)
    mark = os.open(options.mark, os.O_WRONLY | os.O_CREAT, 0o600)
    # Memory that every session needs is taken first, and not counted as a mutant's.
    InferenceSession(model_mutants.originals()["classifier"], threads=2)
    mutant = kept_mutants.mutant if options.kept else model_mutants.mutant
    mutant(first)
    if options.bytes:
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + options.bytes, resource.RLIM_INFINITY))
    outcomes: Counter[str] = Counter()
    findings = []
    slowest = (0.0, -1)
    what, where = options.plant
    for seed in range(first, last):
        os.pwrite(mark, struct.pack("<q", seed), 0)
        # Of the process's own time, as others may stop it for long; its end is this signal.
        signal.setitimer(signal.ITIMER_PROF, options.seconds)
        begin = time.process_time()
        made = mutant(seed)
        try:
            if seed == int(where):
                plant(what)
            outcomes[attempt(made.content, seed, folder)] += 1
        except Exception as error:
            outcomes["finding"] += 1
            findings.append({
                "seed": seed, "text": made.text, "error": f"{type(error).__name__}: {error}"[:500],
                "trace": "".join(traceback.format_exception(error)[-3:]),
            })  # fmt: skip
        slowest = max(slowest, (time.process_time() - begin, seed))
    signal.setitimer(signal.ITIMER_PROF, 0)
    told = {"outcomes": outcomes, "findings": findings, "slowest": slowest, "peak": peak_bytes()}
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
