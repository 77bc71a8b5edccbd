"""Work for instances: requests from several threads to pools of threads and of processes.

Workers in processes are killed at random moments. Every request must be answered, once: by the
right bytes, or, where two workers died of it, by an error that says so.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

import psutil

import pplconv
from tests.soak.load import LAYERS, Layer, Work

# Seconds for what takes milliseconds, on a machine that does other things too.
PATIENCE = 120.0


class Model:
    """The model of an instance: all layers, called by number."""

    def __init__(self) -> None:
        self.layers = [Layer(number) for number in range(len(LAYERS))]
        for layer in self.layers:
            layer.conv(layer.x)

    def __call__(self, number: int, x: Any) -> Any:
        """Compute one layer."""
        return self.layers[number].conv(x)


def available() -> bool:
    """Whether the package has instances."""
    return hasattr(pplconv, "InstancePool")


class Instances(Work):
    """Pools under load; `tried` counts attempts, `wrong` lists faults."""

    def run(self, mode: str, seconds: float, callers: int = 3) -> None:
        """Open a pool, load it for some seconds, close it."""
        self.turn += 1
        until = time.monotonic() + seconds
        with pplconv.InstancePool(Model, instances=2, threads=1, mode=mode, pin=False) as pool:
            others = [
                threading.Thread(target=self._call, args=(pool, mode, until, number))
                for number in range(callers)
            ]
            if mode == "process":
                others.append(threading.Thread(target=self._kill, args=(until,)))
            for thread in others:
                thread.start()
            for thread in others:
                thread.join()
            replaced = sum(each.replaced for each in pool.statistics())
            self.note(f"{mode} workers replaced", count=replaced)

    def _call(self, pool: Any, mode: str, until: float, caller: int) -> None:
        chance = random.Random(f"{self.seed} {self.turn} {mode} {caller}")
        while time.monotonic() < until:
            answers: Counter[Future[Any]] = Counter()
            sent: list[tuple[int, Future[Any]]] = []
            for _ in range(chance.randint(1, 12)):
                number = chance.randrange(len(self.layers))
                future = pool.submit(number, self.layers[number].x)
                future.add_done_callback(partial(self._answered, answers))
                sent.append((number, future))
            for number, future in sent:
                self._check(f"{mode} requests", future, self.layers[number].expected)
            with self._lock:
                twice = [future for _, future in sent if answers[future] > 1]
            if twice:
                self.note(f"{mode} requests", f"{len(twice)} answered twice", 0)

    def _answered(self, answers: Counter[Future[Any]], future: Future[Any]) -> None:
        with self._lock:
            answers[future] += 1

    def _check(self, what: str, future: Future[Any], expected: bytes) -> None:
        try:
            result = future.result(timeout=PATIENCE)
        except TimeoutError:
            self.note(what, fault=f"no answer within {PATIENCE:.0f} s")
        except Exception as error:
            died = type(error).__name__ == "WorkerDied" and what.startswith("process")
            self.note(what, fault="" if died else repr(error))
            self.note("requests of which two workers died", count=int(died))
        else:
            self.note(what, fault="" if result.tobytes() == expected else "other bytes")

    def _kill(self, until: float) -> None:
        chance = random.Random(f"{self.seed} {self.turn} killer")
        while time.monotonic() < until:
            time.sleep(chance.uniform(0.2, 2.0))
            processes = psutil.Process().children(recursive=True)
            workers = [process for process in processes if _is_worker(process)]
            if workers:
                with suppress(psutil.NoSuchProcess):
                    chance.choice(workers).send_signal(signal.SIGKILL)
                    self.note("kills")


def _is_worker(process: psutil.Process) -> bool:
    # Spawned by multiprocessing, or forked from such a process, unlike the tracker of resources.
    try:
        return any("spawn_main" in word for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False
