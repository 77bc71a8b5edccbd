"""Replicas on a keeper's weights: after the deploying driver's end, kills and a redeploy."""

from __future__ import annotations

import functools
import json
import os
import platform
import re
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest

from pplconv import config, machine
from tests import children
from tests.patience import PATIENCE
from tests.programs import ran

# The same condition as in the extra `ray`: elsewhere Ray has no wheels.
if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
    pytest.skip(
        f"NOT RUN HERE: Ray has no wheels for {sys.platform} on {platform.machine()}, and the "
        "extra ray installs none",
        allow_module_level=True,
    )

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Ray's own, about other packages
    from pplconv.integrations.ray_serve import Keeper, deployment, keeper

SCENARIO = Path(__file__).with_name("ray_scenario.py")


@pytest.mark.slow
@pytest.mark.unsanitized("starts a cluster, in which the sanitizer's library is not preloaded")
def test_replicas_live_on_their_keepers():
    folder = Path(tempfile.mkdtemp(prefix="ray-"))  # short: sockets lie in it
    environment = {
        **children.environment(),
        "HOME": str(folder),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    for name in ("OMP_NUM_THREADS", "PPLCONV_NUM_THREADS", "RAY_ADDRESS"):
        environment.pop(name, None)
    try:
        written = folder / "facts.json"
        done = ran(SCENARIO, folder, written, env=environment, cwd=folder, timeout=3 * PATIENCE)
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
        facts = json.loads(written.read_text())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert facts["after the driver's end"] is True
    assert facts["by handle"] is True
    # One thread for the replica's one CPU, bound to no CPU, on read-only memory.
    assert facts["replica"]["omp"] == "1"
    assert facts["replica"]["cpus"] == len(os.sched_getaffinity(0))
    assert facts["replica"]["writeable"] is False
    assert facts["refusals"] == {
        "channels": 422,
        "no array": 422,
        "truncated": 422,
        "objects": 422,
        "too large": 413,
        "still well": True,
    }
    assert facts["keeper killed"] == {"killed": 1, "back": True, "right": True}
    assert facts["both killed"] == {"killed": 3, "back": True, "right": True}
    # Each answer has the bits of one version or of the other, and none is missing.
    counts = facts["redeployed"]["counts"]
    assert set(counts) == {"version 1", "version 2"}, counts
    assert facts["redeployed"]["after"] is True
    assert re.match("ValueError: name is 'seed-2', of which there is", facts["same name"])
    assert "there are no weights here" in facts["no weights"]
    assert "the model, a function, cannot be pickled" in facts["no pickle"]
    assert facts["larger team"] is True
    best = machine.current().usable_isas(config.current().max_isa)[-1]
    wanted = "none" if best == "portable" else f"OtherPacking: .* {best} .* portable"
    assert re.match(wanted, facts["other instruction set"])
    assert facts["released"] is True
    assert facts["name again"] == "none"


LARGE, KEPT = functools.partial(dict, a=bytes(100_000)), Keeper("a", b"")


@pytest.mark.parametrize(
    ("function", "first", "more", "kind", "text"),
    [
        (keeper, "", {"make_model": dict}, ValueError, "name is ''"),
        (keeper, "a:b", {"make_model": dict}, ValueError, "name is 'a:b'"),
        (keeper, 3, {"make_model": dict}, ValueError, "name is 3"),
        (keeper, "a", {"make_model": 3}, TypeError, "make_model must be callable"),
        (keeper, "a", {"make_model": LARGE}, ValueError, "make_model is 1000.. bytes"),
        (keeper, "a", {"make_model": dict}, RuntimeError, "Ray has not been started"),
        (deployment, np.zeros(3), {}, TypeError, "weights must be what keeper"),
        (deployment, KEPT, {"num_cpus": 0}, ValueError, "num_cpus is 0"),
        (deployment, KEPT, {"num_cpus": True}, ValueError, "num_cpus is True"),
        (deployment, KEPT, {"max_body": 0}, ValueError, "max_body is 0"),
        (deployment, KEPT, {"max_body": "1 MB"}, ValueError, "max_body is '1 MB'"),
    ],
)
def test_wrong_arguments_are_named(function, first, more, kind, text):
    with pytest.raises(kind, match=text):
        function(first, **more)
