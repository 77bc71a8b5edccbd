"""`padding_mode` and `conv1d` beside PyTorch, where `make test-peers` has installed it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pplconv

MODES = ("zeros", "reflect", "replicate", "circular")


@pytest.fixture
def torch():
    try:
        import torch
    except ImportError as error:
        pytest.skip(f"PyTorch NOT RUN HERE: {error}")
    return torch


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning")
@pytest.mark.parametrize("mode", MODES)
def test_conv2d(mode, torch, rng):
    """Values of every padding that both take, and the same refusals of too much of it."""
    refused = 0
    for size, kernel, padding, stride, dilation, groups in itertools.product(
        ((9, 12), (2, 5), (70, 80)), (1, 3, 4), (0, 1, (2, 3), "same"), (1, (2, 1)), (1, 2), (1, 2)
    ):
        if padding == "same" and stride != 1:
            continue
        x = rng.standard_normal((2, 4, *size)).astype(np.float32)
        layer = torch.nn.Conv2d(
            4, 6, kernel, stride, padding, dilation, groups, padding_mode=mode
        ).requires_grad_(False)  # fmt: skip
        conv = pplconv.Conv2d(
            layer.weight.numpy(), layer.bias.numpy(), stride, padding, dilation, groups,
            padding_mode=mode, tolerance=0,
        )  # fmt: skip
        try:
            expected = layer(torch.from_numpy(x)).numpy()
        except RuntimeError:
            refused += 1
            with pytest.raises(ValueError, match=r"padding|kernel spans"):
                conv(x)
            continue
        np.testing.assert_allclose(conv(x), expected, atol=1e-5)
    assert refused > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning")
@pytest.mark.parametrize("mode", MODES)
def test_conv1d(mode, torch, rng):
    x = rng.standard_normal((2, 4, 30)).astype(np.float32)
    for kernel, padding, stride, dilation, groups in itertools.product(
        (1, 4, 5), (0, 2, (3,), "same"), (1, 3), (1, 2), (1, 2)
    ):
        if padding == "same" and stride != 1:
            continue
        layer = torch.nn.Conv1d(
            4, 6, kernel, stride, padding, dilation, groups, padding_mode=mode
        ).requires_grad_(False)  # fmt: skip
        found = pplconv.conv1d(
            x, layer.weight.numpy(), layer.bias.numpy(), stride, padding, dilation, groups,
            padding_mode=mode, tolerance=0,
        )  # fmt: skip
        np.testing.assert_allclose(found, layer(torch.from_numpy(x)).numpy(), atol=1e-5)
