"""Processes, some at a time, each with seeds of one instruction set."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.fuzz.tally import Tally
from tests.fuzz.worker import instruction_sets

BLOCK = 12_000
"""Seeds that a process of each instruction set goes through: starting one takes a second."""


class Jobs:
    """The processes of one run of the command.

    Parameters
    ----------
    seeds : range
        What to run.
    seconds : float
        When to stop.
    count : int
        Processes at a time.
    tally : Tally
        Where figures go.
    block : int
        Seeds of which each instruction set has a process.
    """

    def __init__(self, seeds: range, seconds: float, count: int, tally: Tally, block: int) -> None:
        self.stopped = threading.Event()
        self._end = time.monotonic() + seconds
        self._count = count
        self._tally = tally
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self._trouble: list[BaseException] = []
        self._pieces = self._cut(seeds, block)

    def _cut(self, seeds: range, block: int) -> Iterator[tuple[int, int, str]]:
        for first in range(seeds.start, seeds.stop, block):
            last = min(first + block, seeds.stop)
            pieces = [(first, last, isa) for isa in dict.fromkeys(instruction_sets())]
            self._tally.begun(pieces)
            yield from pieces

    def run(self) -> None:
        """Run all pieces, or those for which there is time."""
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(self._count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():  # so that an interrupt is seen
                thread.join(0.2)
        self.stopped.set()
        if self._trouble:
            raise self._trouble[0]

    def stop(self) -> None:
        """Interrupt the processes and wait for their last figures."""
        self.stopped.set()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with self._lock:
                running = list(self._processes)
            if not running:
                return
            for process in running:
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGINT)
            time.sleep(0.3)
        for process in running:
            process.kill()

    def _work(self) -> None:
        try:
            while not self.stopped.is_set() and time.monotonic() < self._end:
                with self._lock:
                    piece = next(self._pieces, None)
                    if piece is None:
                        return
                first: int | None = piece[0]
                while first is not None and not self.stopped.is_set():
                    first = self._process(piece, first)
        except BaseException as trouble:
            self._trouble.append(trouble)
            self.stopped.set()

    def _process(self, piece: tuple[int, int, str], first: int) -> int | None:
        """Run a piece from a seed on; gives the seed after one at which the process died."""
        environment = {
            **os.environ,
            "PPLCONV_MAX_ISA": piece[2],
            # The cores are shared: idle threads should not spin, nor the reference take them all.
            "OMP_WAIT_POLICY": "passive",
            "OPENBLAS_NUM_THREADS": "1",
        }
        # Written and not mapped: what was written last is there, whatever ends the process.
        with tempfile.NamedTemporaryFile(suffix=".seed") as mark:
            process = subprocess.Popen(
                [
                    sys.executable, str(Path(__file__).parent), "--worker", "1", "--isa", piece[2],
                    "--seeds", f"{first}:{piece[1]}", "--mark", mark.name,
                    "--seconds", str(max(self._end - time.monotonic(), 0.0)),
                ],
                stdout=subprocess.PIPE, text=True, env=environment,
            )  # fmt: skip
            with self._lock:
                self._processes.add(process)
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    self._tally.take(piece, json.loads(line))
                status = process.wait()
            finally:
                with self._lock:
                    self._processes.discard(process)
            if status in (0, 130) or self.stopped.is_set():
                return None
            if status > 0:
                raise RuntimeError(f"a process of the fuzzer itself failed, status {status}")
            seed = struct.unpack("<q", Path(mark.name).read_bytes())[0]
        self._tally.died(piece, seed, f"signal {-status}")
        return seed + 1 if seed + 1 < piece[1] else None
