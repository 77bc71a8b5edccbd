"""What a server has done, as Prometheus reads it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_BOUNDS = (
    0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15,
    0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0,
)  # fmt: skip


class Metrics:
    """Counts of one server; used by the thread of its event loop only.

    Attributes
    ----------
    in_flight : int
        Requests for inference that are being read, wait, or run.
    reloads : Counter
        Number of reloads: ``ok`` and ``failed``.
    """

    def __init__(self) -> None:
        self.in_flight = 0
        self.reloads = Counter({"ok": 0, "failed": 0})
        self._codes: Counter[int] = Counter()
        self._buckets = [0] * (len(_BOUNDS) + 1)
        self._seconds = 0.0
        self._bytes = Counter({"in": 0, "out": 0})

    def add(self, code: int, seconds: float, received: int, sent: int) -> None:
        """Count an answered request.

        Parameters
        ----------
        code : int
            Status of the answer.
        seconds : float
            From the head of the request to the answer's body.
        received, sent : int
            Bytes of the bodies.
        """
        self._codes[code] += 1
        self._bytes["in"] += received
        self._bytes["out"] += sent
        if code == 200:
            self._buckets[bisect_left(_BOUNDS, seconds)] += 1
            self._seconds += seconds

    def text(self, ready: bool, statistics: Iterable[Any]) -> str:
        """Write all metrics.

        Parameters
        ----------
        ready : bool
            Whether requests are taken.
        statistics : iterable of InstanceStatistics
            Of the pool.
        """
        return "".join(f"{line}\n" for line in self._lines(ready, list(statistics)))

    def _lines(self, ready: bool, instances: list[Any]) -> Iterator[str]:
        name = "pplconv_requests_total"
        yield from _head(name, "counter", "Requests for inference, by status.")
        for code, count in sorted(self._codes.items()):
            yield f'{name}{{code="{code}"}} {count}'
        name = "pplconv_request_seconds"
        yield from _head(name, "histogram", "From the head of a request to its answer (200).")
        total = 0
        for bound, count in zip((*map(str, _BOUNDS), "+Inf"), self._buckets, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self._seconds!r}"
        yield f"{name}_count {total}"
        for way in ("in", "out"):
            name = f"pplconv_bytes_{way}_total"
            yield from _head(name, "counter", f"Bytes of bodies, {way}.")
            yield f"{name} {self._bytes[way]}"
        yield from _head("pplconv_in_flight", "gauge", "Requests that are read, wait or run.")
        yield f"pplconv_in_flight {self.in_flight}"
        yield from _head("pplconv_ready", "gauge", "Whether requests are taken.")
        yield f"pplconv_ready {int(ready)}"
        name = "pplconv_reloads_total"
        yield from _head(name, "counter", "How often the model was made anew, by result.")
        for result, count in self.reloads.items():
            yield f'{name}{{result="{result}"}} {count}'
        for field, text in (
            ("served", "Requests that an instance answered."),
            ("errors", "Requests that an instance answered with an exception."),
            ("replaced", "Workers of an instance that died and were replaced."),
            ("retried", "Requests run again since their worker had died."),
        ):
            name = f"pplconv_instance_{field}_total"
            yield from _head(name, "counter", text)
            for instance in instances:
                yield f'{name}{{instance="{instance.index}"}} {getattr(instance, field)}'


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
