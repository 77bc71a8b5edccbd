"""Instances without a server: their latency and rate, to compare with."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import Any

import pplconv

__all__ = ["pool_latency", "pool_rate"]


def pool_latency(pool: pplconv.InstancePool[Any], feed: dict[str, Any], count: int) -> float:
    """Median of the seconds of one request after the other."""
    taken = []
    for _ in range(count):
        begin = time.perf_counter()
        pool.submit(feed).result()
        taken.append(time.perf_counter() - begin)
    return sorted(taken)[count // 2]


def pool_rate(pool: pplconv.InstancePool[Any], feed: dict[str, Any], seconds: float) -> float:
    """Requests a second while some always wait: each answer submits the next."""
    ended = threading.Event()
    left = threading.Semaphore(0)
    done = 0

    def answered(future: Future[Any]) -> None:
        nonlocal done
        future.result()
        if ended.is_set():
            left.release()
            return
        done += 1  # callbacks of several instances: an answer may go uncounted, in a million
        submit()

    def submit() -> None:
        pool.submit(feed).add_done_callback(answered)

    begin = time.perf_counter()
    waiting = 2 * len(pool) + 2
    for _ in range(waiting):
        submit()
    time.sleep(seconds)
    rate = done / (time.perf_counter() - begin)
    ended.set()
    for _ in range(waiting):
        left.acquire()
    return rate
