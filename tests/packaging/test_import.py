"""``import pplconv`` stays cheap: little time, nothing loaded that a call may never need."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

import pytest

LIMIT_SECONDS = 0.15

TIMED = """
import json, sys, time
import numpy
before = set(sys.modules)
begin = time.process_time()
import pplconv
seconds = time.process_time() - begin
print(json.dumps({"seconds": seconds, "loaded": sorted(set(sys.modules) - before)}))
"""


def import_once(folder) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", TIMED],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.unsanitized("measures time, of which a sanitizer takes its share")
def test_import_takes_little_beyond_numpy(tmp_path):
    """CPU time, as other processes may be busy; the median of fresh interpreters."""
    seconds = [import_once(tmp_path)["seconds"] for _ in range(7)]
    assert statistics.median(seconds) < LIMIT_SECONDS, seconds


def test_import_loads_no_helper_package(tmp_path):
    """psutil, threadpoolctl and all that demo and integrations need are imported on demand."""
    loaded = {name.partition(".")[0] for name in import_once(tmp_path)["loaded"]}
    assert "pplconv" in loaded
    extras = {"dask", "onnx", "onnx_ir", "onnxscript", "PIL", "ray", "scipy", "skimage"}
    assert not loaded & {"psutil", "threadpoolctl", "pytest", *extras}


def test_import_prints_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import pplconv"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")
