"""Run a small Ray cluster, kill and redeploy its keepers and replicas, and report facts as JSON.

It runs in separate processes, because Ray leaves threads and handlers behind.
``deploy ADDRESS PORT SEED`` starts a driver, which deploys weights and ends.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import ray
from ray import serve

from pplconv.integrations import npy
from pplconv.integrations.ray_serve import deployment, keeper, release
from tests.clusters.ray_models import SHAPE, Model, answer
from tests.patience import PATIENCE, eventually

RNG = np.random.default_rng(0)
X = RNG.standard_normal(SHAPE).astype(np.float32)


def deploy(address: str, port: int, seed: int) -> None:
    """Keep the weights of one seed and deploy them; they replace weights deployed before."""
    ray.init(address=address, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    weights = keeper(f"seed-{seed}", functools.partial(Model, seed))
    quick = {"health_check_period_s": 1, "graceful_shutdown_wait_loop_s": 0.2}
    made = deployment(weights, num_replicas=2, num_cpus=1, max_body=1 << 20, **quick)
    serve.run(made, name="app")


def in_driver(address: str, port: int, seed: int) -> None:
    command = [sys.executable, __file__, "deploy", address, str(port), str(seed)]
    subprocess.run(command, check=True, timeout=PATIENCE)


def post(port: int, body: bytes) -> tuple[int, bytes]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", data=body, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def answered(port: int, seed: int) -> bool:
    """Return whether an answer has the bits of the model with this seed."""
    status, body = post(port, npy.write(X))
    return status == 200 and npy.read(body).tobytes() == answer(seed, X).tobytes()


def processes(root: str, kind: str) -> list[int]:
    """List the processes of this cluster (`root`) whose command contains `kind`."""
    found = []
    for process in psutil.process_iter():
        try:
            if kind in process.cmdline()[0] and process.environ().get("RAY_SCENARIO") == root:
                found.append(process.pid)
        except (psutil.Error, IndexError):
            pass
    return found


def killed_and_back(root: str, port: int, kinds: dict[str, int]) -> dict[str, Any]:
    """Kill all processes of some kinds; wait for as many replacements that answer as before."""
    victims = {kind: processes(root, kind) for kind in kinds}
    for pid in chain.from_iterable(victims.values()):
        os.kill(pid, signal.SIGKILL)
    eventually(
        lambda: all(
            len(set(processes(root, kind)) - set(victims[kind])) == count
            for kind, count in kinds.items()
        ),
        f"others in place of {victims}",
    )
    eventually(lambda: answered(port, 1), "an answer of theirs")
    return {"killed": sum(map(len, victims.values())), "back": True, "right": True}


def redeployed(address: str, port: int) -> dict[str, Any]:
    """Send requests during a redeployment; count the answers of each version."""
    versions = {answer(seed, X).tobytes(): f"version {seed}" for seed in (1, 2)}
    counts: Counter[str] = Counter()
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            status, body = post(port, npy.write(X))
            bits = npy.read(body).tobytes() if status == 200 else b""
            counts[versions.get(bits, f"status {status}")] += 1

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for thread in asking:
        thread.start()
    try:
        eventually(lambda: counts["version 1"], "an answer of the first version")
        in_driver(address, port, 2)
        after = answered(port, 2) and answered(port, 2)
        eventually(lambda: counts["version 2"], "an answer of the second version")
    finally:
        done.set()
        for thread in asking:
            thread.join()
    return {"counts": dict(counts), "after": after}


def error_of(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def refusals(port: int) -> dict[str, Any]:
    good = npy.write(X)
    return {
        "channels": post(port, npy.write(X[:, :3]))[0],
        "no array": post(port, b"hello")[0],
        "truncated": post(port, good[:-1])[0],
        "objects": post(port, npy.write(np.zeros(3))[:6] + b"\x01\x00")[0],
        "too large": post(port, bytes((1 << 20) + 1))[0],
        "still well": answered(port, 1),
    }


def fail() -> Any:
    raise ValueError("there are no weights here")


@ray.remote
def fetched(weights: Any) -> str:
    return error_of(lambda: weights.fetch(1).model())


def scenario(folder: Path) -> dict[str, Any]:
    """Run everything in order."""
    root = os.environ["RAY_SCENARIO"] = str(folder)
    context = ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 << 20,
        _temp_dir=str(folder),
        log_to_driver=False,
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = context.address_info["address"]
    facts: dict[str, Any] = {}
    try:
        in_driver(address, port, 1)
        facts["after the driver's end"] = answered(port, 1)
        handle = serve.get_app_handle("app")
        facts["by handle"] = bool((handle.remote(X).result() == answer(1, X)).all())
        facts["replica"] = handle.remote(X, ask=True).result()
        facts["refusals"] = refusals(port)
        facts["keeper killed"] = killed_and_back(root, port, {"WeightsKeeper": 1})
        everything = {"ServeReplica": 2, "WeightsKeeper": 1}
        facts["both killed"] = killed_and_back(root, port, everything)
        facts["redeployed"] = redeployed(address, port)
        facts["same name"] = error_of(lambda: keeper("seed-2", functools.partial(Model, 3)))
        facts["no weights"] = error_of(lambda: keeper("none", fail))
        facts["no pickle"] = error_of(lambda: keeper("none", lambda: lambda x: x))
        weights = keeper("seed-3", functools.partial(Model, 3))
        larger = weights.fetch(2).model()  # the keeper's own model is a mapped one by now
        facts["larger team"] = bool((larger(X) == answer(3, X)).all())
        other = fetched.options(
            num_cpus=0, runtime_env={"env_vars": {"PPLCONV_MAX_ISA": "portable"}}
        )
        facts["other instruction set"] = ray.get(other.remote(weights))
        weights.release()
        release("seed-1")
        eventually(lambda: len(processes(root, "WeightsKeeper")) == 1, "the keepers' end")
        facts["released"] = answered(port, 2)
        facts["name again"] = error_of(lambda: keeper("seed-3", functools.partial(Model, 3)))
    finally:
        serve.shutdown()
        ray.shutdown()
    return facts


if __name__ == "__main__":
    if sys.argv[1] == "deploy":
        deploy(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        Path(sys.argv[2]).write_text(json.dumps(scenario(Path(sys.argv[1]))))
