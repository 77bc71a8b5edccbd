"""Architectures become files: one input, all tensors as outputs, an open batch.  Wants PyTorch."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch

import pplconv
from benchmarks.networks import exported


class Small(torch.nn.Module):
    """Two results in a dictionary, one of them in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)

    def forward(self, x):
        """Compute them."""
        y = self.norm(self.conv(x))
        return {"sums": y, "more": [y.mean((2, 3))]}


@pytest.mark.parametrize("exporter", exported.EXPORTERS)
@pytest.mark.parametrize("open_batch", [False, True])
def test_export(monkeypatch, tmp_path, exporter, open_batch):
    kept = []
    monkeypatch.setitem(exported.MAKERS, "small", lambda _: kept.append(Small()) or kept[0])
    one = exported.Architecture(
        "small", "torch==0", "MIT", "small", "small", "x", (1, 3, 9, 8), exporter, 18, open_batch
    )
    path = tmp_path / one.file
    exported.export(one, path)
    assert [each.name for each in tmp_path.iterdir()] == [one.file]
    model = onnx.load(path)
    (given,) = model.graph.input
    assert given.name == "x"
    assert bool(given.type.tensor_type.shape.dim[0].dim_param) is open_batch
    assert model.opset_import[0].version == 18
    x = np.random.default_rng(1).random((3 if open_batch else 1, 3, 9, 8), np.float32)
    got = pplconv.InferenceSession(path).run(None, {"x": x})
    with torch.no_grad():
        want = kept[0](torch.from_numpy(x))
    # BatchNorm has the statistics of one batch, and not those that it is made with.
    assert kept[0].norm.running_var.max() < 0.9
    np.testing.assert_allclose(got[0], want["sums"].numpy(), atol=1e-5)
    np.testing.assert_allclose(got[1], want["more"][0].numpy(), atol=1e-5)
