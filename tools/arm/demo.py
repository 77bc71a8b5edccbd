"""The demo under emulation, compared with the host's results.

Both run the detector of ``examples/demo`` on one small picture with the same model; the network's
output is compared, and the regions that it leads to.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.arm.emulated import environment
from tools.arm.host import SetUpError
from tools.arm.kept import say
from tools.arm.targets import ROOT, Target

# Largest difference of probabilities, as in the demo itself.
LIMIT = 1e-3
# Pixels of the picture's shorter side; the network takes 32 or more.
SIDE = 96

# Runs in both Pythons, and prints the results to compare.
_PROGRAM = """
import json, platform, sys
from pathlib import Path
import numpy as np

cache, side, result, root = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
# At the end: the installed package comes before the sources in the root.
sys.path.append(root)
from examples.demo.measure import load_model, plan_of, run_network
from examples.demo.picture import load, network_input
from examples.demo.regions import find_regions
from examples.models.ppocr import ensure_models
from examples.models.progress import Progress
from pplconv.integrations.onnx_reference import make_conv

image = load(None)
model = load_model(ensure_models(cache, Progress(sys.stderr))[0])
run = run_network(model, make_conv(), network_input(image, side), lambda done: None)
np.save(result, run.output)
plans = [plan_of(call, None) for call in run.calls]
regions = find_regions(run.output[0, 0], image.size)
print(json.dumps({
    "machine": platform.machine(),
    "isas": sorted({plan.isa for plan in plans}),
    "convolutions": len(run.calls),
    "regions": [region.corners.tolist() for region in regions],
}))
"""
_COMPARE = """
import sys
import numpy as np
a, b = np.load(sys.argv[1]), np.load(sys.argv[2])
assert a.shape == b.shape, (a.shape, b.shape)
print(float(np.max(np.abs(a - b))), float(np.max(a)))
"""


def run_demo(target: Target, side: int = SIDE) -> int:
    """Run the demo on host and emulated machine, and compare.

    Parameters
    ----------
    target : Target
        The emulated machine.
    side : int, optional
        Pixels of the picture's shorter side.

    Returns
    -------
    int
        Exit status: 0 if the outputs are within `LIMIT` and mark as many regions.

    Raises
    ------
    SetUpError
        If either fails.
    """
    folder = target.build / "demo"
    folder.mkdir(parents=True, exist_ok=True)
    # The host first: its pip downloads the model, and the emulated Python has no pip.
    host = dict(os.environ)
    ours = _one([sys.executable, "-I"], host, folder, "host", side)
    theirs = _one([str(target.python), "-I"], environment(target), folder, "emulated", side)
    files = [str(folder / f"{name}.npy") for name in ("host", "emulated")]
    compared = subprocess.run(
        [sys.executable, "-I", "-c", _COMPARE, *files], capture_output=True, text=True, check=False
    )
    if compared.returncode:
        raise SetUpError(compared.stderr)
    difference, largest = (float(word) for word in compared.stdout.split())
    for run in (ours, theirs):
        print(
            f"{run['machine']}: {run['convolutions']} convolutions by {' '.join(run['isas'])}, "
            f"{len(run['regions'])} text regions"
        )
    print(f"largest difference {difference:.2e} (limit {LIMIT:.0e}), largest output {largest:.3f}")
    # An empty output, or NaN, would agree with anything.
    fine = difference <= LIMIT and largest > 0.3 and len(ours["regions"]) > 0
    fine = fine and len(ours["regions"]) == len(theirs["regions"])
    if not fine:
        print("the two differ")
    return 0 if fine else 1


def _one(
    python: list[str], env: dict[str, str], folder: Path, name: str, side: int
) -> dict[str, Any]:
    say(f"the demo's network on the {name} CPU")
    arguments = [str(folder), str(side), str(folder / f"{name}.npy"), str(ROOT)]
    done = subprocess.run(
        [*python, "-c", _PROGRAM, *arguments],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SetUpError(f"the demo fails on the {name} CPU (exit status {done.returncode})")
    found = json.loads(done.stdout.splitlines()[-1])
    return dict(found)
