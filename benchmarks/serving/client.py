"""An HTTP client that costs little, and loads made of it.

Two loads: *closed*, where each of some clients sends as soon as it has its answer, which finds the
capacity; and *open*, where requests are due at times drawn beforehand, whatever has been answered,
and a latency is counted from the time when the request was due. A closed load hides waiting: it
sends less when answers are late.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

__all__ = ["Client", "Outcome", "closed", "open_loop"]

_TIMEOUT = 30.0
_WINDOW = 5.0


@dataclass
class Outcome:
    """The outcome of the requests of a load.

    Attributes
    ----------
    latencies : list of float
        Seconds of those that were answered rightly.
    dues : list of float
        When each of them was due, in seconds from the first.
    counts : Counter
        ``ok``, ``wrong bytes``, ``reset`` (no whole answer), ``timeout``, and statuses but 200.
    seconds : float
        From the first request to the last answer.
    """

    latencies: list[float] = field(default_factory=list)
    dues: list[float] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Right answers a second."""
        return self.counts["ok"] / self.seconds if self.seconds else 0.0

    def percentile(self, percent: float) -> float:
        """The smallest latency that so many of 100 do not exceed, in seconds; NaN of none."""
        return _percentile(self.latencies, percent)

    def usual_percentile(self, percent: float) -> float:
        """The median of the percentiles of all windows of some seconds.

        A moment of other load on the machine changes the percentile of all requests, but not this.
        """
        windows: dict[int, list[float]] = {}
        for due, latency in zip(self.dues, self.latencies, strict=True):
            windows.setdefault(int(due / _WINDOW), []).append(latency)
        return _percentile([_percentile(window, percent) for window in windows.values()], 50)

    def lost(self) -> dict[str, int]:
        """All that was not answered rightly."""
        return {what: count for what, count in sorted(self.counts.items()) if what != "ok"}


def _percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    if not ordered:
        return float("nan")
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


class Client:
    """Sends one request again and again over connections that are kept.

    Parameters
    ----------
    port : int
        Of the server on this machine.
    path : str
        Where to post.
    body : bytes
        The content to post.
    headers : dict
        Beside the length.
    expected : tuple of bytes
        Possible endings of a right answer.
    """

    def __init__(
        self,
        port: int,
        path: str,
        body: bytes,
        headers: dict[str, str],
        expected: tuple[bytes, ...],
    ) -> None:
        self._port = port
        lines = {**headers, "Host": "127.0.0.1", "Content-Length": str(len(body))}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._request = f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body
        self._expected = expected
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self) -> str:
        """Send the request once; give its outcome, a key of `Outcome.counts`."""
        try:
            return await asyncio.wait_for(self._ask(), _TIMEOUT)
        except (OSError, EOFError, ValueError):
            return "reset"
        except asyncio.TimeoutError:
            return "timeout"

    async def _ask(self) -> str:
        while self._free:
            reader, writer = self._free.pop()
            if not reader.at_eof():
                break
            writer.close()  # the server closes those that were idle for some seconds
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(self._request)
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
            status = head[9:12].decode()
            length = next(
                int(line[15:]) for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length:")
            )  # fmt: skip
            body = await reader.readexactly(length)
        except BaseException:
            writer.close()
            raise
        if b"connection: close" in head.lower():
            writer.close()
        else:
            self._free.append((reader, writer))
        if status != "200":
            return status
        return "ok" if body.endswith(self._expected) else "wrong bytes"

    async def close(self) -> None:
        """Close all connections."""
        for _, writer in self._free:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        self._free.clear()


async def closed(ask: Callable[[], Awaitable[str]], clients: int, seconds: float) -> Outcome:
    """Have clients send as soon as they are answered.

    Parameters
    ----------
    ask : callable
        Sends a request, and says what became of it.
    clients : int
        How many.
    seconds : float
        How long.
    """
    outcome = Outcome()
    begin = time.perf_counter()

    async def one() -> None:
        while (sent := time.perf_counter()) - begin < seconds:
            what = await ask()
            outcome.counts[what] += 1
            if what == "ok":
                outcome.latencies.append(time.perf_counter() - sent)
                outcome.dues.append(sent - begin)

    await asyncio.gather(*(one() for _ in range(clients)))
    outcome.seconds = time.perf_counter() - begin
    return outcome


async def open_loop(
    ask: Callable[[], Awaitable[str]], rate: float, seconds: float, seed: int = 0
) -> Outcome:
    """Send requests when they are due, whatever has been answered.

    Parameters
    ----------
    ask : callable
        Sends a request, and says what became of it.
    rate : float
        Requests a second on average; times between them are exponentially distributed.
    seconds : float
        How long requests are due.
    seed : int, optional
        Of the times.
    """
    draw = random.Random(seed)
    outcome = Outcome()
    tasks: set[asyncio.Task[None]] = set()

    async def one(due: float) -> None:
        what = await ask()
        outcome.counts[what] += 1
        if what == "ok":
            outcome.latencies.append(time.perf_counter() - due)
            outcome.dues.append(due - begin)

    begin = due = time.perf_counter()
    while (due := due + draw.expovariate(rate)) < begin + seconds:
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        task = asyncio.create_task(one(due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    outcome.seconds = time.perf_counter() - begin
    return outcome
