"""What Ray costs: a replica's memory and start, a request, an idle second; and what kills lose.

``python -m benchmarks.ray_replicas``, with the extra ``ray``, on a machine that does nothing else.
It starts a cluster of its own, with some hundred MB of object store. A model of four layers (512
channels, 3x3, on 28x28) comes to fresh processes in three ways: mapped from a keeper, as a plain
pickle from the object store, and made from a file of weights. Then a deployment of two replicas
is asked over HTTP by one client after another, left idle, and killed with requests in flight.
"""

from __future__ import annotations

import argparse
import functools
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import ray
from numpy.typing import NDArray
from ray import serve

import pplconv
from pplconv.integrations import npy
from pplconv.integrations.ray_serve import deployment, keeper

SHAPE = (1, 512, 28, 28)
SMALL = (1, 16, 16, 16)
PORT = 8765
MB = 1e6

Array = NDArray[np.float32]


class Stack:
    """Some layers, one after the other."""

    def __init__(self, path: str, shape: tuple[int, ...]) -> None:
        weights = np.load(path)
        self._layers = [
            pplconv.Conv2d(weights[name], padding=1, input_shape=shape) for name in weights.files
        ]

    def __call__(self, x: Array) -> Array:
        """Apply the layers one after the other."""
        for layer in self._layers:
            x = layer(x)
        return x


def write_weights(path: Path, channels: int, layers: int) -> str:
    """Put random weights into a file."""
    rng = np.random.default_rng(0)
    shape = (channels, channels, 3, 3)
    np.savez(path, *(rng.standard_normal(shape).astype(np.float32) for _ in range(layers)))
    return str(path)


class Probe:
    """A fresh process that gets a model."""

    def measure(self, how: str, source: Any) -> tuple[float, float]:
        """Give milliseconds to the first answer, and MB of memory that no other process has."""
        x = np.ones(SHAPE, np.float32)
        # The costs of a process's first call belong to no way: another model pays them.
        pplconv.Conv2d(np.ones((16, 512, 3, 3), np.float32), padding=1)(x)
        process = psutil.Process()
        before = process.memory_full_info().uss
        begin = time.perf_counter()
        if how == "keeper":
            model = source.fetch(1).model()
        elif how == "pickle":
            model = ray.get(source[0])
        else:
            model = source()
        model(x)
        took = time.perf_counter() - begin
        return 1e3 * took, (process.memory_full_info().uss - before) / MB


_ProbeActor = ray.remote(Probe)


def replicas(factory: Callable[[], Any], repeats: int) -> None:
    """Print time and memory of each way to a model, in turn."""
    model = factory()
    print(f"weights: {sum(layer.weight.nbytes for layer in model._layers) / MB:.0f} MB")
    begin = time.perf_counter()
    kept = keeper("bench-large", factory)
    print(f"the keeper starts in {1e3 * (time.perf_counter() - begin):.0f} ms")
    ways = {"keeper": kept, "pickle": [ray.put(model)], "made": factory}
    found: dict[str, list[tuple[float, float]]] = {how: [] for how in ways}
    for _ in range(repeats):
        for how, source in ways.items():
            probe = _ProbeActor.options(num_cpus=1).remote()
            found[how].append(ray.get(probe.measure.remote(how, source)))
            ray.kill(probe)
    for how, pairs in found.items():
        took, memory = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{how:<8} {took:7.0f} ms to the first answer {memory:7.0f} MB of its own")
    kept.release()


def family() -> list[psutil.Process]:
    """All processes of this cluster."""
    return psutil.Process().children(recursive=True)


def cpu_seconds() -> float:
    """CPU time of the cluster's processes so far."""
    total = 0.0
    for process in family():
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total


def post(body: bytes, expected: bytes) -> str:
    """Send a request; give its status, ``"wrong bytes"`` or the name of the error."""
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}/", data=body, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return str(reply.status) if reply.read() == expected else "wrong bytes"
    except urllib.error.HTTPError as error:
        return str(error.code)
    except OSError as error:
        return type(error).__name__


def requests(seconds: float, body: bytes, expected: bytes) -> None:
    """Print the cost of an idle second and of a request."""
    time.sleep(2)
    before = cpu_seconds()
    time.sleep(seconds)
    idle = (cpu_seconds() - before) / seconds
    print(f"idle: {1e3 * idle:.0f} CPU-ms a second")
    for _ in range(20):
        post(body, expected)
    before, begin, took = cpu_seconds(), time.perf_counter(), []
    while time.perf_counter() - begin < seconds:
        sent = time.perf_counter()
        post(body, expected)
        took.append(time.perf_counter() - sent)
    whole = time.perf_counter() - begin
    spent = cpu_seconds() - before - idle * whole
    print(
        f"requests, one at a time: p50 {1e3 * statistics.median(took):.1f} ms, "
        f"{1e3 * spent / len(took):.1f} CPU-ms each beside those of idling"
    )


def kills(count: int, body: bytes, expected: bytes) -> None:
    """Print what becomes of requests in flight while replicas are killed, one by one."""
    counts: Counter[str] = Counter()
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            counts[post(body, expected)] += 1

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for client in clients:
        client.start()
    killed = 0
    end = time.monotonic() + 10 * count
    while killed < count and time.monotonic() < end:
        victims = [p for p in family() if p.cmdline()[:1] and "ServeReplica" in p.cmdline()[0]]
        if len(victims) > 1:
            os.kill(victims[0].pid, signal.SIGKILL)
            killed += 1
        time.sleep(1)
    done.set()
    for client in clients:
        client.join()
    print(f"{killed} replicas killed: {dict(counts)}")


def main(argv: list[str] | None = None) -> int:
    """Measure everything."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ray_replicas", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="fresh processes for each way")
    parser.add_argument("--seconds", type=float, default=10, help="of idling, and of requests")
    parser.add_argument("--kills", type=int, default=20, help="replicas to be killed")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        large = write_weights(Path(folder) / "large.npz", SHAPE[1], 4)
        small = write_weights(Path(folder) / "small.npz", SMALL[1], 1)
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=700 << 20,
            _temp_dir=folder,
            log_to_driver=False,
        )
        try:
            replicas(functools.partial(Stack, large, SHAPE), options.repeats)
            serve.start(http_options={"host": "127.0.0.1", "port": PORT})
            factory = functools.partial(Stack, small, SMALL)
            kept = keeper("bench-small", factory)
            made = deployment(kept, num_replicas=2, health_check_period_s=1)
            serve.run(made, name="bench")
            x = np.ones(SMALL, np.float32)
            message = npy.write(x), npy.write(factory()(x))
            requests(options.seconds, *message)
            kills(options.kills, *message)
        finally:
            serve.shutdown()
            ray.shutdown()
    return 0


if __name__ == "__main__":
    # Replicas import the model from this module, whose name is another one here.
    from benchmarks.ray_replicas import main as measure

    sys.exit(measure())
