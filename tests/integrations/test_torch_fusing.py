"""``accelerate(fuse=True)``: normalizations and activations in the layers before them."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from pplconv.integrations.torch import accelerate, report, restore
from pplconv.integrations.torch.module_fusing import _ACTIVATIONS

MAKE = {
    nn.ReLU: lambda: nn.ReLU(inplace=True),
    nn.ReLU6: nn.ReLU6,
    nn.Hardtanh: lambda: nn.Hardtanh(-0.5, 0.75),
    nn.LeakyReLU: lambda: nn.LeakyReLU(0.2),
    nn.Hardswish: nn.Hardswish,
    nn.Sigmoid: nn.Sigmoid,
    nn.SiLU: nn.SiLU,
    nn.Softplus: nn.Softplus,
    nn.Mish: nn.Mish,
    nn.GELU: nn.GELU,
}


@pytest.fixture(autouse=True)
def seeded(rng):
    torch.manual_seed(int(rng.integers(1 << 31)))


def lived(module):
    """Give each normalization numbers of its own, as training would."""
    for each in module.modules():
        if isinstance(each, nn.BatchNorm2d):
            each.running_mean.normal_()
            each.running_var.uniform_(0.5, 2)
            if each.affine:
                nn.init.normal_(each.weight)
                nn.init.normal_(each.bias)
    return module.eval()


def expected(module, x):
    with torch.no_grad():
        return module(x)


def assert_near(got, want):
    assert got.shape == want.shape and got.dtype == want.dtype
    assert torch.allclose(got, want, rtol=0, atol=3e-5 * max(want.abs().max().item(), 1))


def fused(module):
    return {each.name: each.fused for each in report(module) if each.replaced}


def both(module, x):
    """Compare a module before and after `accelerate`; return its output."""
    want = expected(module, x)
    got = expected(accelerate(module, fuse=True), x)
    assert_near(got, want)
    return want


def test_all_activations_are_tried():
    assert set(MAKE) == set(_ACTIVATIONS)


@pytest.mark.parametrize("kind", MAKE, ids=lambda kind: kind.__name__)
def test_activations(kind):
    module = lived(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), MAKE[kind]()))
    both(module, torch.randn(2, 3, 9, 9))
    assert fused(module) == {"0": ("BatchNorm2d", kind.__name__)}
    alone = nn.Sequential(nn.Conv2d(3, 8, 3), MAKE[kind]()).eval()
    both(alone, torch.randn(2, 3, 9, 9))
    assert fused(alone) == {"0": (kind.__name__,)}
    line = nn.Sequential(nn.Linear(9, 5), MAKE[kind]()).eval()
    both(line, torch.randn(2, 9))
    assert fused(line) == {"0": (kind.__name__,)}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("kind", [nn.Conv2d, nn.ConvTranspose2d])
def test_normalizations(kind, affine, bias):
    norm = nn.BatchNorm2d(8, affine=affine, eps=0.1)
    module = lived(nn.Sequential(kind(6, 8, 3, bias=bias), norm, nn.Identity()))
    both(module, torch.randn(2, 6, 9, 9))
    assert fused(module) == {"0": ("BatchNorm2d",)}
    module.double()
    x = torch.randn(2, 6, 9, 9).double()
    want = expected(restore(copy.deepcopy(module)), x)
    assert torch.allclose(expected(module, x), want, rtol=0, atol=1e-12 * want.abs().max().item())


class Residual(nn.Module):
    """One activation in two places, as torchvision's residual blocks have it."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm1, self.norm2 = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
        self.relu = nn.SiLU()

    def forward(self, x):
        y = self.relu(self.norm1(self.first(x)))
        y = self.norm2(self.second(y))
        y += x
        return self.relu(y)


@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last], ids=str)
def test_one_activation_in_two_places(format):
    module, x = lived(Residual()), torch.randn(2, 8, 9, 9).contiguous(memory_format=format)
    want = both(module, x)
    assert fused(module) == {"first": ("BatchNorm2d", "SiLU"), "second": ("BatchNorm2d",)}
    with torch.inference_mode():
        assert_near(module(x), want)


class Used(nn.Module):
    """Convolutions whose results go elsewhere too, or which are called twice."""

    def __init__(self):
        super().__init__()
        self.twice, self.read = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.other = nn.BatchNorm2d(8), nn.BatchNorm2d(8)

    def forward(self, x):
        y = self.twice(self.norm(self.twice(x)))
        z = self.read(y)
        return self.other(z) + z


def test_what_others_see_is_not_fused():
    module = lived(Used())
    both(module, torch.randn(1, 8, 9, 9))
    assert fused(module) == {"twice": (), "read": ()}


class Untraceable(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.bare, self.norm = nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8)

    def forward(self, x):
        y = self.body(x)
        return self.norm(self.bare(y)) if y.sum() > 0 else y


def test_parts_of_what_cannot_be_traced():
    module = lived(Untraceable())
    both(module, torch.randn(1, 3, 9, 9))
    assert fused(module) == {"body.0": ("BatchNorm2d", "ReLU"), "bare": ()}


def test_what_cannot_be_folded_stays():
    half = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).eval().half()
    batch = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, track_running_stats=False)).eval()
    groups = nn.Sequential(nn.ConvTranspose2d(6, 8, 3, groups=2), nn.BatchNorm2d(8)).eval()
    live = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).eval()
    live[1].train()
    for module in (half, batch, groups, live):
        accelerate(module, fuse=True)
        assert fused(module) == {"0": ()}
        assert type(module[1]) is nn.BatchNorm2d


def test_training_is_pytorchs():
    module, x = lived(Residual()), torch.randn(2, 8, 9, 9)
    other = copy.deepcopy(module)
    accelerate(module, fuse=True)
    for each in (module, other):
        each.train()
        each(x).sum().backward()
    for (name, ours), theirs in zip(module.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad), name
    assert torch.equal(module.norm1.running_mean, other.norm1.running_mean)
    with torch.no_grad():  # computed by pplconv, in training mode
        assert_near(module(x), other(x))
    assert_near(module.norm2.running_var, other.norm2.running_var)
    assert_near(expected(module.eval(), x), expected(other.eval(), x))


def test_numbers_that_change_are_noticed():
    module, x = lived(Residual()), torch.randn(1, 8, 9, 9)
    accelerate(module, fuse=True)
    before = expected(module, x)
    with torch.no_grad():
        module.norm1.running_mean.add_(1)
        module.norm2.weight.mul_(3)
    want = expected(restore(copy.deepcopy(module)), x)
    assert not torch.allclose(before, want, atol=1e-2)
    assert_near(expected(module, x), want)


@pytest.mark.parametrize("name", ["first", "norm1", "relu"])
def test_hooks_see_what_they_saw(name):
    module, x = lived(Residual()), torch.randn(1, 8, 9, 9)
    seen = []
    accelerate(module, fuse=True)
    expected(module, x)
    hook = lambda _, inputs, y: seen.append((inputs[0].clone(), y.clone()))  # noqa: E731
    getattr(module, name).register_forward_hook(hook)
    expected(module, x)
    expected(restore(module), x)
    half = len(seen) // 2
    assert half == (2 if name == "relu" else 1)
    for ours, theirs in zip(seen[:half], seen[half:], strict=True):
        for got, want in zip(ours, theirs, strict=True):
            assert_near(got, want)


def test_copies_fuse_their_own():
    module, x = lived(Residual()), torch.randn(1, 8, 9, 9)
    want = both(module, x)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert_near(expected(other, x), want)
        assert fused(other) == fused(module)
        with torch.no_grad():
            other.norm2.weight.zero_()
            other.norm2.bias.zero_()
        assert_near(expected(other, x), nn.functional.silu(x))
    assert_near(expected(module, x), want)


def test_compilers_see_pytorchs_modules():
    module, x = lived(Residual()), torch.randn(1, 8, 9, 9)
    want = both(module, x)
    with torch.no_grad():
        got = torch.compile(module, backend="eager", fullgraph=True)(x)
    assert torch.equal(got, want)
