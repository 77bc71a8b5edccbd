"""Schedules carry out what they take and refuse what they could not, down to single bytes.

Each number of candidates of every algorithm is changed, and what the schedule then takes is run
between guard pages, in a process of its own: see ``mutant_probe.py``.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests import children
from tests.emulation import is_emulated
from tests.patience import PATIENCE

pytestmark = [
    pytest.mark.unsanitized("preloads allocations of its own, between guard pages"),
    pytest.mark.skipif(
        sys.maxsize < 1 << 32, reason="reserves more addresses than there are in 32 bits"
    ),
]

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    """Give a function that runs the probe with guarded allocations."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "the tests need a C compiler named cc or gcc"
    library = tmp_path_factory.mktemp("guard") / "guarded_allocations.so"
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    source = HERE / "native" / "guarded_allocations.c"
    subprocess.run([compiler, *flags, "-o", library, source, "-ldl"], check=True, timeout=PATIENCE)
    environment = children.environment(LD_PRELOAD=str(library), OPENBLAS_NUM_THREADS="1")
    return partial(children.python, str(HERE / "mutant_probe.py"), env=environment)


@pytest.mark.unemulated("starts processes, each half a minute of emulation")
@pytest.mark.parametrize("where", ["allocation", "input", "output"])
def test_guards_are_there(probe, where):
    done = probe(where)
    assert done.returncode in (-signal.SIGSEGV, -signal.SIGBUS), done.stderr


@pytest.mark.sampled(1)  # of one case: the fast tier has a part of its mutants
def test_what_is_taken_runs_inside_its_memory(probe, request):
    one_in = 20 if is_emulated() else 5 if request.config.option.tier == "fast" else 1
    done = probe(str(one_in))
    assert done.returncode == 0, f"died at {done.stderr[-2000:]}"
    found = json.loads(done.stdout)
    assert found["failures"] == []
    counts = found["counts"]
    for algorithm in ("depthwise", "pointwise", "winograd", "direct", "im2col", "sparse"):
        assert counts[algorithm] >= 4, algorithm
    # Some changes are harmless, such as more scratch than is needed: not quite one in five of all,
    # but perhaps more of a sample.
    assert counts["taken"] > 1000 / one_in
    assert counts["refused"] > (4 if one_in == 1 else 3) * counts["taken"]
