"""Which peers are installed, and why others are not, without a package index."""

from __future__ import annotations

import json
import subprocess
import time

import pytest

from tests.patience import PATIENCE
from tools.peers import install, oldest

METADATA = [
    "numpy>=1.25",
    'pplconv[bench]; extra == "peers"',
    'ncnn>=1.0.20261020; extra == "peers"',
    "torch>=2.13.0; extra == 'peers'",
    'openvino>=2026.4; extra == "peers"',
    'ruff>=0.17; extra == "dev"',
]


class Pip:
    """Stands in for pip: `names` are installed by a dry run, `statuses` end the calls."""

    def __init__(self, names=(), statuses=(0, 0), error=None):
        self.names, self.statuses, self.error = names, list(statuses), error
        self.commands = []

    def __call__(self, command, seconds):
        assert seconds > 0
        self.commands.append(command)
        if self.error:
            raise self.error
        report = json.dumps({"install": [{"metadata": {"name": name}} for name in self.names]})
        text = "WARNING: old\nERROR: no matching distribution\n"
        return subprocess.CompletedProcess(command, self.statuses.pop(0), report, text)


@pytest.fixture
def until():
    return time.monotonic() + PATIENCE


def test_the_oldest_versions_that_are_allowed():
    assert oldest(METADATA) == ["ncnn==1.0.20261020", "torch==2.13.0", "openvino==2026.4.*"]


def test_what_can_be_had_is_installed(until):
    pip = Pip(["ncnn", "numpy"])
    assert install("venv/python", "ncnn==1", until, pip) == ""
    assert ["--dry-run" in command for command in pip.commands] == [True, False]
    assert all(command[-1] == "ncnn==1" and "venv/python" in command for command in pip.commands)


@pytest.mark.parametrize("name", ["nvidia-cublas-cu12", "triton", "cuda-bindings"])
def test_what_only_a_gpu_needs_is_not_installed(until, name):
    pip = Pip(["torch", name])
    assert install("python", "torch==2", until, pip) == (
        f"it would bring {name}, which only a GPU needs"
    )
    assert len(pip.commands) == 1


def test_why_it_is_not_there_is_said(until):
    assert install("python", "mnn==3", until, Pip(statuses=[1])) == (
        "it cannot be had: ERROR: no matching distribution"
    )
    assert install("python", "mnn==3", until, Pip(["mnn"], statuses=[0, 1])) == (
        "it does not install: ERROR: no matching distribution"
    )
    slow = Pip(error=subprocess.TimeoutExpired([], 1))
    assert install("python", "mnn==3", until, slow) == "it took too long"
