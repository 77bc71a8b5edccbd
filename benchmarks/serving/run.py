"""The measurements of a server, in their order, and their table."""

from __future__ import annotations

import argparse
import asyncio
import gc
import io
import json
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import pplconv
from benchmarks.serving.client import Client, Outcome, closed, open_loop
from benchmarks.serving.pool import pool_latency, pool_rate
from benchmarks.serving.process import Served
from benchmarks.serving.weights import Weights
from benchmarks.tables import Table
from benchmarks.tool import new_parser

_NPY = {"Content-Type": "application/x-npy"}
_ROUNDS = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print a table.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; those of this process by default.

    Returns
    -------
    int
        0; 1 if an answer was wrong or lost.
    """
    options = _parser().parse_args(argv)
    name, shape = _shape(options.shape)
    session = pplconv.InferenceSession(options.model)
    x = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    output = session.get_outputs()[0].name
    report: dict[str, Any] = {"model": Path(options.model).name, "shape": options.shape}
    gc.freeze()  # to collect garbage among all that was imported takes 50 ms
    report["pool"] = _pools(session, {name: x}, options)
    stream = io.BytesIO()
    np.save(stream, x)
    path = f"/v2/models/served/infer?output={output}"
    with TemporaryDirectory() as folder:
        weights = Weights(Path(options.model), Path(folder))
        expected = tuple(
            pplconv.InferenceSession(content).run([output], {name: x})[0].tobytes()
            for content in weights.contents
        )
        with Served(str(weights.path), [
            "--name", "served", "--instances", str(options.instances), "--threads", "1", "--mode",
            options.mode, "--shape", options.shape, "--retries", "5",
            "--queue-size", str(options.queue_size),
        ]) as served:  # fmt: skip
            client = Client(served.port, path, stream.getvalue(), _NPY, expected)
            report["server"] = asyncio.run(_loads(client, served, weights, options))
    _print(report)
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1), encoding="utf-8")
    return int(any(row.get("lost") for row in report["server"]["loads"].values()))


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.serving", __doc__)
    parser.add_argument("model", metavar="MODEL", help="an ONNX file with one input")
    parser.add_argument("--shape", required=True, metavar="NAME=1x3x48x192", help="of its input")
    parser.add_argument("--instances", type=int, default=2)
    parser.add_argument("--mode", choices=("thread", "process"), default="thread")
    parser.add_argument("--queue-size", type=int, default=64, help="of the server")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load")
    parser.add_argument(
        "--loads", type=_percents, default=(50, 80), metavar="50,80", help="per cent of capacity"
    )
    parser.add_argument("--kills", type=int, default=0, help="workers to kill (mode process)")
    parser.add_argument("--reloads", type=int, default=0, help="with other weights, under load")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    return parser


def _percents(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, sizes = text.rpartition("=")
    return name, tuple(int(n) for n in re.split("[x,]", sizes))


def _pools(session: Any, feed: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Rates of one instance and of all, and the latency of a request, without a server."""
    rounds: dict[int, list[float]] = {}
    with ExitStack() as opened:
        pools = {
            instances: opened.enter_context(
                pplconv.InstancePool(
                    lambda: session, instances=instances, threads=1, mode=options.mode
                )
            )
            for instances in sorted({1, options.instances})
        }
        for pool in pools.values():
            pool_latency(pool, feed, 20)
        for _ in range(_ROUNDS):  # in turns: other load on the machine meets all of them
            for instances, pool in pools.items():
                rate = pool_rate(pool, feed, min(2.0, options.seconds))
                rounds.setdefault(instances, []).append(rate)
        latency = pool_latency(pools[options.instances], feed, 200)
    rates = {instances: max(found) for instances, found in rounds.items()}
    return {"rates": rates, "rounds": rounds, "p50_ms": latency * 1e3}


async def _loads(
    client: Client, served: Served, weights: Weights, options: argparse.Namespace
) -> dict[str, Any]:
    for _ in range(20):
        await client.ask()
    alone = await closed(client.ask, 1, min(3.0, options.seconds))
    full = await closed(client.ask, 2 * options.instances, min(10.0, options.seconds))
    found: dict[str, Any] = {
        "p50_ms": alone.percentile(50) * 1e3, "capacity": full.rate, "loads": {},
    }  # fmt: skip
    for share in options.loads:
        rate = full.rate * share / 100
        found["loads"][f"{share} %"] = await _watched(
            served, open_loop(client.ask, rate, options.seconds, share)
        )
    if options.kills:
        load = open_loop(client.ask, full.rate / 2, options.seconds, 1)
        kills = asyncio.create_task(_kill(served, options.kills, options.seconds))
        found["loads"]["50 %, kills"] = await _watched(served, load)
        found["killed"] = await kills
    if options.reloads:
        load = open_loop(client.ask, full.rate / 2, options.seconds, 2)
        reloads = asyncio.create_task(_reload(served, weights, options.reloads, options.seconds))
        found["loads"]["50 %, reloads"] = await _watched(served, load)
        await reloads
        found["reloads"] = served.reloads()
    await client.close()
    return found


async def _watched(served: Served, load: Any) -> dict[str, Any]:
    before = served.cpu_seconds()
    outcome: Outcome = await load
    cpu = served.cpu_seconds() - before
    memory = served.memory_mib()
    return {
        "requests": sum(outcome.counts.values()), "rate": outcome.rate,
        "p50_ms": outcome.percentile(50) * 1e3, "p99_ms": outcome.percentile(99) * 1e3,
        "usual_p99_ms": outcome.usual_percentile(99) * 1e3,
        "cpu_ms": cpu * 1e3 / max(1, sum(outcome.counts.values())),
        "memory_mib": sum(memory), "processes": len(memory), "lost": outcome.lost(),
    }  # fmt: skip


async def _kill(served: Served, kills: int, seconds: float) -> int:
    """Kill workers, spread over a load; how many were killed."""
    killed: set[int] = set()
    end = time.perf_counter() + seconds
    for left in range(kills, 0, -1):
        await asyncio.sleep(max(0.0, end - time.perf_counter()) / (left + 1))
        workers = [pid for pid in served.workers() if pid not in killed]
        if workers:
            killed.add(workers[0])
            with suppress(ProcessLookupError):
                os.kill(workers[0], signal.SIGKILL)
    return len(killed)


async def _reload(served: Served, weights: Weights, reloads: int, seconds: float) -> None:
    """Serve other weights, and the first again, spread over a load."""
    for _ in range(reloads):
        await asyncio.sleep(seconds / (reloads + 1))
        weights.change()
        served.reload()


def _print(report: dict[str, Any]) -> None:
    pool, server = report["pool"], report["server"]
    print(f"{report['model']}, {report['shape']}")
    rates = ", ".join(f"{count}: {rate:.0f}/s" for count, rate in pool["rates"].items())
    first, *_, last = pool["rates"].values()
    print(f"pool alone, instances: {rates} ({last / first:.2f}x); p50 {pool['p50_ms']:.2f} ms")
    for count, found in pool["rounds"].items():
        print(f"rounds of {count}: {', '.join(f'{rate:.0f}' for rate in found)}")
    print(
        f"server: {server['capacity']:.0f}/s; p50 {server['p50_ms']:.2f} ms, "
        f"{server['p50_ms'] - pool['p50_ms']:+.2f} ms"
    )
    print(_table(server["loads"]).markdown())
    if "killed" in server:
        print(f"workers killed: {server['killed']}", file=sys.stdout)
    if "reloads" in server:
        print(f"reloads: {server['reloads']}")


def _table(loads: dict[str, dict[str, Any]]) -> Table:
    made = Table(
        "The server under load",
        ["load", "requests", "rate", "p50 ms", "p99 ms", "of 5 s", "of 5 s/p50", "CPU-ms", "MiB",
         "lost"],
    )  # fmt: skip
    for load, row in loads.items():
        usual = row["usual_p99_ms"]
        lost = ", ".join(f"{count} {what}" for what, count in row["lost"].items()) or "none"
        made.add([
            load, f"{row['requests']}", f"{row['rate']:.1f}", f"{row['p50_ms']:.2f}",
            f"{row['p99_ms']:.2f}", f"{usual:.2f}", f"{usual / row['p50_ms']:.1f}",
            f"{row['cpu_ms']:.2f}", f"{row['memory_mib']:.0f}", lost,
        ])  # fmt: skip
    return made
