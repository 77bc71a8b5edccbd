"""Modules with the weights of files: they compute what the files say.  Wants PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import pplconv
from benchmarks import torch_models
from benchmarks.networks.models import NETWORKS
from benchmarks.torch_networks import MODULES, with_weights_of
from tests.benchmarks.known_runs import FAST


@pytest.fixture(scope="module")
def files():
    return {name: NETWORKS[name].source.make() for name in MODULES}


@pytest.mark.parametrize("name", MODULES)
def test_modules_compute_what_their_files_say(files, name, tmp_path):
    module = with_weights_of(MODULES[name](), files[name])
    path = tmp_path / "model.onnx"
    path.write_bytes(files[name].SerializeToString())
    feed = NETWORKS[name].feed(1)
    (want,) = pplconv.InferenceSession(path).run(None, feed)
    (x,) = feed.values()
    with torch.inference_mode():
        y = module(torch.from_numpy(x)).numpy()
    assert y.shape == want.shape == (1, 1000)
    np.testing.assert_allclose(y, want, rtol=0, atol=1e-4 * want.max())


def test_files_of_other_networks_are_refused(files):
    with pytest.raises(ValueError, match=r"shape|layer"):
        with_weights_of(MODULES["mobilenet_v2"](), files["resnet_50"])
    with pytest.raises(ValueError, match="no layer"):
        with_weights_of(torch.nn.Sequential(), files["resnet_50"])


def test_what_is_wrong_or_fails_is_left_out_and_said():
    want = np.array([0.0, 1.0])

    def failing():
        raise RuntimeError("no compiler\nat all")

    calls = {
        "right": lambda: torch.tensor([0.0, 1.0]),
        "wrong": lambda: torch.tensor([0.5, 1.0]),
        "failing": failing,
    }
    right, notes = torch_models.checked(calls, want)
    assert list(right) == ["right"]
    assert "wrong is left out: it is 5.0e-01" in notes[0]
    assert notes[1] == "failing is left out: RuntimeError: no compiler"


@pytest.mark.slow
def test_a_run_times_every_variant(tmp_path, ran):
    chosen = ["--models", "mobilenet_v2", "--threads", "1", "--batch", "1", "--no-compile"]
    found = ran(torch_models.main, *chosen, *FAST, "--cache", str(tmp_path))
    (times,) = found.plain["seconds"].values()
    assert len(times) == 7 and "accelerate, fuse, channels_last" in times
    assert "left out" not in found.out
