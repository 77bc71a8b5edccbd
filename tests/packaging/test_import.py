"""``import pplconv`` stays cheap: few modules, nothing loaded that a call may never need."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.patience import PATIENCE

# Modules allowed of the package and of others; each takes a quarter of a millisecond or more.
OWN, OTHERS = 185, 30

LOADED = """
import json, sys
import numpy
before = set(sys.modules)
import pplconv
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded_by_import(folder) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return json.loads(done.stdout)


def test_import_loads_few_modules_beyond_numpy(tmp_path):
    names = loaded_by_import(tmp_path)
    own = [name for name in names if name.partition(".")[0] == "pplconv"]
    assert len(own) <= OWN, own
    assert len(names) - len(own) <= OTHERS, sorted(set(names) - set(own))


def test_import_loads_no_helper_package(tmp_path):
    """psutil, threadpoolctl and all that integrations need are imported on demand."""
    loaded = {name.partition(".")[0] for name in loaded_by_import(tmp_path)}
    assert "pplconv" in loaded
    extras = {"dask", "onnx", "onnx_ir", "onnxscript", "PIL", "ray", "scipy", "skimage"}
    assert not loaded & {"psutil", "threadpoolctl", "pytest", *extras}


def test_import_prints_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import pplconv"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")
