"""How long a process takes from its start to a network's first answer, and in how much memory.

``python -m benchmarks.starts --help``. Each measurement is a process of its own: engines in turn,
round by round. pplconv opens the ONNX file without a cache, then with one that knows it, then a
file of `InferenceSession.save`. Answers are compared with those of onnxruntime.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import options
from benchmarks.tables import NONE, Table
from benchmarks.tool import Run, command, new_parser
from pplconv.commands.shape_texts import shapes_of

ENGINES = ("onnxruntime", "openvino", "model", "cache", "file")
# Of the largest number of an answer.
_TOLERANCE = 1e-3

# NumPy is imported first: every engine needs it.
_PROGRAM = r"""
import json, resource, sys, time
begin = time.perf_counter()
import numpy as np
marks = [time.perf_counter()]
engine, path, threads, place = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
feed = dict(np.load(place + "/feed.npz"))
if engine == "onnxruntime":
    import onnxruntime
    marks.append(time.perf_counter())
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    run = lambda: session.run(None, feed)
elif engine == "openvino":
    import openvino
    marks.append(time.perf_counter())
    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    model = core.read_model(path)
    model.reshape({name: x.shape for name, x in feed.items()})
    compiled = core.compile_model(model, "CPU", settings)
    run = lambda: [np.array(y) for y in compiled(feed).values()]
else:
    import pplconv
    marks.append(time.perf_counter())
    session = pplconv.InferenceSession(path, threads=threads, fallback="silent")
    run = lambda: session.run(None, feed)
marks.append(time.perf_counter())
answers = run()
marks.append(time.perf_counter())
np.savez(f"{place}/{engine}.npz", *answers)
# `getrusage` would begin with the memory of the parent.
with open("/proc/self/status") as file:
    (peak,) = (int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
steps = [after - before for before, after in zip([begin, *marks], marks)]
print(json.dumps({"seconds": steps, "peak": peak << 10}))
"""

Found = dict[str, list[dict[str, Any]]]


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.starts", __doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx:x=1x3x224x224", help="and shapes")
    parser.add_argument(
        "--engines", type=options.some_of(ENGINES), default=list(ENGINES),
        help=f"some of {','.join(ENGINES)}",
    )  # fmt: skip
    parser.add_argument("--threads", type=int, default=1, help="of each engine (default 1)")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each (default 5)")
    options.add_output(parser)
    return parser


def start(engine: str, path: str, threads: int, place: Path, cache: str) -> dict[str, Any]:
    """Run a process from its start to the answer.

    Raises
    ------
    RuntimeError
        If it fails; the message has its last line.
    """
    # Installed packages have bytecode; a source tree gets it in its first process.
    usual = {name: os.environ[name] for name in os.environ if name != "PYTHONDONTWRITEBYTECODE"}
    # A folder of its own: in a source tree Python would find the package that is not compiled.
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, engine, os.path.abspath(path), str(threads), str(place)],
        env={**usual, "PPLCONV_CACHE": cache}, cwd=place,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{engine}: {(done.stderr.splitlines() or ['no answer'])[-1]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(
    path: str, shapes: Mapping[str, Sequence[int]], engines: Sequence[str], threads: int,
    rounds: int,
) -> tuple[Found, list[str]]:  # fmt: skip
    """Measure a model's starts; give them by engine, and notes on what failed or was wrong."""
    import pplconv

    found: Found = {engine: [] for engine in engines}
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        place, cache, kept = Path(folder), f"{folder}/cache", f"{folder}/kept.pplconv"
        rng = np.random.default_rng(0)
        feed = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
        np.savez(place / "feed.npz", **feed)  # type: ignore[arg-type]
        session = pplconv.InferenceSession(path, threads=threads, fallback="silent")
        session.save(kept, [shapes])
        if "cache" in engines:
            start("cache", path, threads, place, cache)
        for _ in range(rounds):
            for engine in list(found):
                source = kept if engine == "file" else path
                try:
                    one = start(
                        engine, source, threads, place, cache if engine == "cache" else "off"
                    )
                except RuntimeError as error:
                    notes.append(f"{Path(path).name}: {error}")
                    del found[engine]
                    continue
                found[engine].append(one)
        notes += wrong_answers(place, list(found), Path(path).name)
    return found, notes


def wrong_answers(place: Path, engines: Sequence[str], name: str) -> list[str]:
    """Name the engines whose answers are not those of onnxruntime."""
    notes = []
    if "onnxruntime" not in engines:
        return [f"{name}: no answers of onnxruntime to compare with"]
    expected = [*np.load(place / "onnxruntime.npz").values()]
    for engine in engines:
        for x, y in zip(np.load(place / f"{engine}.npz").values(), expected, strict=True):
            allowed = _TOLERANCE * max(float(abs(y).max(initial=0)), 1e-6)
            if x.shape != y.shape or not (abs(x - y) <= allowed).all():
                notes.append(f"{name}: {engine} gives other numbers than onnxruntime")
                break
    return notes


def best(starts: Sequence[Mapping[str, Any]]) -> tuple[list[float], int]:
    """Give the fastest start, as seconds of its steps, and the least peak of memory."""
    steps = min((list(one["seconds"]) for one in starts), key=sum)
    return steps, min(int(one["peak"]) for one in starts)


def table(found: Mapping[str, Found], threads: int) -> Table:
    """Make the table: milliseconds of each step, and the peak of memory."""
    made = Table(
        f"From a process's start to the first answer, {threads} thread(s): ms, and MB at most",
        [
            "model",
            "engine",
            "NumPy",
            "import",
            "make",
            "first run",
            "in all",
            "peak",
            "of onnxruntime",
        ],
    )
    for name, engines in found.items():
        peer = sum(best(engines["onnxruntime"])[0]) if engines.get("onnxruntime") else None
        for engine, starts in engines.items():
            steps, peak = best(starts)
            ratio = NONE if peer is None else f"{sum(steps) / peer:.2f}"
            figures = [f"{1e3 * seconds:.0f}" for seconds in (*steps, sum(steps))]
            made.add([name, engine, *figures, f"{peak / 1e6:.0f}", ratio])
    return made


@command(_parser)
def main(run: Run) -> int:
    """Measure, and give the exit status."""
    chosen = run.chosen
    found: dict[str, Found] = {}
    with run.steps(len(chosen.models)) as progress:
        for given in chosen.models:
            path, _, text = given.rpartition(":")
            name = Path(path).stem
            progress.begin(name)
            with run.refusing():
                shapes = shapes_of(text)
            found[name], notes = measure(
                path, shapes, chosen.engines, chosen.threads, chosen.rounds
            )
            run.notes += notes
    top = run.head(
        f"a process an engine, in turn, {chosen.rounds} rounds; the fastest counts, and the least "
        "peak; model, cache and file are pplconv's",
        notes=run.notes,
    )
    status = run.publish(top, [table(found, chosen.threads)], {"starts": found})
    return status or int(bool(run.notes))


if __name__ == "__main__":
    sys.exit(main())
