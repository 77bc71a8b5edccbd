"""Mutants of model files in other processes: none may end one, or take what it should not.

``make fuzz-models ARGS="--seeds 0:10000 --jobs 2"`` runs as many as one likes, ``make asan-fuzz``
does so under sanitizers; the suite runs some.
A mutant that ends its process is left in a file, and the next process goes on behind it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# The helpers of the tests lie below the root, which goes last: the installed package is what runs.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests import children

HERE = Path(__file__).resolve().parent
SECONDS = 20.0
"""Of CPU that one mutant may take: most take some milliseconds."""
BYTES = 3 << 30
"""Of address space that a process may take for its mutants."""
PIECE = 1000
"""Mutants of one process."""
SANITIZED = "ASAN_OPTIONS" in os.environ
"""Whether this runs under a sanitizer of addresses, which reserves terabytes of address space."""
ENOUGH = 10
"""Deaths after which a piece is given up: more of the same help nobody."""


@dataclass
class Tally:
    """What became of mutants.

    Parameters
    ----------
    outcomes : Counter
        How many went how far.
    findings : list of str
        What is wrong, with the seed.
    slowest : tuple
        Seconds of CPU, and the seed.
    peak : int
        Most bytes that a process held.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    slowest: tuple[float, int] = (0.0, -1)
    peak: int = 0

    def take(self, told: dict[str, Any]) -> None:
        """Add what a process said."""
        self.outcomes.update(told["outcomes"])
        self.findings += [
            f"seed {f['seed']} ({f['text']}): {f['error']}\n{f['trace']}" for f in told["findings"]
        ]
        self.slowest = max(self.slowest, tuple(told["slowest"]))
        self.peak = max(self.peak, told["peak"])

    def summary(self) -> str:
        """Say all of it."""
        total = sum(self.outcomes.values())
        lines = [f"{total} mutants"]
        lines += [f"  {count} {outcome}" for outcome, count in self.outcomes.most_common()]
        lines.append(f"slowest: seed {self.slowest[1]}, {self.slowest[0]:.2f} s of CPU")
        lines.append(f"most memory of a process: {self.peak >> 20} MiB")
        lines.append(f"{len(self.findings)} findings")
        return "\n".join([*lines, *self.findings])


def fuzz(seeds: range, kept: Path, *, limit: bool = True, plant: tuple[str, int] | None = None,
         seconds: float = SECONDS, compiled: bool = False) -> Tally:  # fmt: skip
    """Open and run the mutants of some seeds.

    Parameters
    ----------
    seeds : range
        Which.
    kept : Path
        Folder in which mutants that end a process are left.
    limit : bool, optional
        Whether the address space is limited, which sanitizers cannot stand.
    plant : (str, int), optional
        Something wrong to do, and at which seed; see `model_mutant_probe.plant`.
    seconds : float, optional
        Of CPU for one mutant.
    compiled : bool, optional
        Whether the mutants are those of compiled networks.

    Returns
    -------
    Tally
    """
    tally = Tally()
    first, deaths = seeds.start, 0
    while first < seeds.stop and deaths < ENOUGH:
        died = _piece(range(first, seeds.stop), tally, limit, plant, seconds, compiled)
        if died is None:
            break
        seed, status, said = died
        made = _mutant(seed, compiled)
        file = kept / _name(seed, compiled)
        file.write_bytes(made.content)
        reason = signal.Signals(-status).name if status < 0 else f"status {status}"
        tally.outcomes["ended the process"] += 1
        tally.findings.append(f"seed {seed} ({made.text}): {reason}, kept in {file}\n{said}")
        # Outcomes of the seeds before it are lost with the process, so these seeds run again.
        if seed > first:
            again = _piece(range(first, seed), tally, limit, plant, seconds, compiled)
            if again is not None:
                tally.findings.append(f"seeds {first} to {seed} end the process now and then")
        first, deaths = seed + 1, deaths + 1
    return tally


def _mutant(seed: int, compiled: bool) -> Any:
    if compiled:
        from tests.network.kept_mutants import mutant as of_compiled

        return of_compiled(seed)
    from tests.network.model_mutants import mutant

    return mutant(seed)


def _name(seed: int, compiled: bool) -> str:
    return f"mutant-{seed}.{'pplconv' if compiled else 'onnx'}"


def _piece(
    seeds: range, tally: Tally, limit: bool, plant: tuple[str, int] | None, seconds: float,
    compiled: bool,
) -> tuple[int, int, str] | None:  # fmt: skip
    """Run one process; give the seed at which it ended too early, how, and its last words."""
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder) / "mark"
        room = Path(folder) / "room"
        room.mkdir()
        command = [
            sys.executable, "-X", "faulthandler", "-W", "ignore",
            str(HERE / "model_mutant_probe.py"), "--seeds", f"{seeds.start}:{seeds.stop}",
            "--mark", str(mark), "--folder", str(room), "--seconds", str(seconds),
            "--bytes", str(BYTES if limit else 0),
        ]  # fmt: skip
        if compiled:
            command.append("--kept")
        if plant is not None:
            command += ["--plant", plant[0], str(plant[1])]
        done = subprocess.run(
            command,
            env=children.environment(
                OPENBLAS_NUM_THREADS="1", OMP_WAIT_POLICY="passive", PPLCONV_WISDOM="off",
                PPLCONV_CACHE="off",
            ),
            capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
        if done.returncode == 0:
            tally.take(json.loads(done.stdout.splitlines()[-1]))
            return None
        if not mark.exists():
            raise RuntimeError(f"the fuzzer itself failed, status {done.returncode}: {done.stderr}")
        (seed,) = struct.unpack("<q", mark.read_bytes())
        return seed, done.returncode, done.stderr[-2500:]


def main() -> int:
    """Run the command; its status is 1 if there are findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:10000", help="A:B (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (default 1)")
    parser.add_argument("--kept", type=Path, default=Path(), help="where bad files are left")
    parser.add_argument("--seed", type=int, help="write the mutant of this seed to --kept, no more")
    parser.add_argument(
        "--compiled", action="store_true", help="mutants of compiled networks, not of models"
    )
    options = parser.parse_args()
    if options.seed is not None:
        made = _mutant(options.seed, options.compiled)
        file = options.kept / _name(options.seed, options.compiled)
        file.write_bytes(made.content)
        print(f"{file}: {made.text}")
        return 0
    first, last = map(int, options.seeds.split(":"))
    pieces = [range(i, min(i + PIECE, last)) for i in range(first, last, PIECE)]
    whole = Tally()

    def of_piece(piece: range) -> Tally:
        return fuzz(piece, options.kept, limit=not SANITIZED, compiled=options.compiled)

    with ThreadPoolExecutor(options.jobs) as pool:
        for piece, tally in zip(pieces, pool.map(of_piece, pieces), strict=True):
            whole.outcomes += tally.outcomes
            whole.findings += tally.findings
            whole.slowest = max(whole.slowest, tally.slowest)
            whole.peak = max(whole.peak, tally.peak)
            for said in (*tally.findings, f"seeds to {piece.stop}: {len(whole.findings)} findings"):
                print(said, file=sys.stderr, flush=True)
    print(whole.summary())
    return bool(whole.findings)


if __name__ == "__main__":
    sys.exit(main())
