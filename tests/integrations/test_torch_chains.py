"""Convolutions of a ``torch.nn.Sequential`` in one call: bits of the layers one by one."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import torch
from torch import nn

import pplconv
from pplconv.integrations.torch import accelerate, refresh, report, restore, sequential_chains
from pplconv.integrations.torch.sequential_chains import ChainedSequential, _pays

LAST = torch.channels_last


@pytest.fixture(autouse=True)
def seeded(rng, monkeypatch):
    """Chains of small images, too, which would not pay."""
    monkeypatch.setattr(sequential_chains, "_pays", lambda chain, shape: True)
    torch.manual_seed(int(rng.integers(1 << 31)))


def separable(size=8, *, inner=nn.Sequential):
    """Depthwise and 1x1 convolutions, with normalizations that training has moved."""
    layers = [
        inner(nn.Conv2d(size, size, 3, padding=1, groups=size), nn.BatchNorm2d(size), nn.ReLU()),
        inner(nn.Conv2d(size, 2 * size, 1), nn.ReLU6()),
        nn.Conv2d(2 * size, size, (3, 1), stride=2, padding="valid"),
        nn.Conv2d(size, 3, 3, padding=2, dilation=2),
    ]
    module = nn.Sequential(*layers)
    for each in module.modules():
        if isinstance(each, nn.BatchNorm2d):
            each.running_mean.normal_()
            each.running_var.uniform_(0.5, 2)
    return module.eval()


def one_by_one(module, x):
    """Call the innermost modules in turn."""
    for each in module._modules.values():  # a shared one twice
        x = one_by_one(each, x) if isinstance(each, nn.Sequential) else each(x)
    return x


def chained(module):
    return [each.chained for each in report(module)]


def assert_near(got, want):
    assert got.shape == want.shape and got.dtype == torch.float32
    assert (got.double() - want).abs().max() <= 3e-5 * max(want.abs().max().item(), 1)


def exactly(module, x):
    """PyTorch's own result in float64."""
    with torch.no_grad():
        return restore(copy.deepcopy(module)).double()(x.double())


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("format", [torch.contiguous_format, LAST], ids=str)
@pytest.mark.parametrize("shape", [(2, 8, 13, 10), (1, 8, 96, 90)], ids=str)
def test_values_are_those_of_the_layers(shape, format, fuse):
    module = separable()
    keys, x = list(module.state_dict()), torch.randn(shape).contiguous(memory_format=format)
    want = exactly(module, x)
    accelerate(module, fuse=fuse)
    with torch.inference_mode():
        got, again = module(x), module(x)
        layers = one_by_one(module, x)
    assert torch.equal(got, layers) and torch.equal(got, again)
    assert got.stride() == layers.stride()
    assert_near(got, want)
    if format is LAST:
        assert chained(module) == ([2] * 4 if fuse else [0, 0, 2, 2])
    else:
        assert chained(module) == [0] * 4
    assert isinstance(module, nn.Sequential) and list(module.state_dict()) == keys
    assert repr(module).startswith("Sequential(")
    restore(module)
    assert all(type(each) is nn.Sequential for each in (module, module[0], module[1]))
    assert "_pplconv_chains" not in module.__dict__


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_other_types(dtype):
    module = separable().to(dtype)
    x = torch.randn(1, 8, 14, 12).to(dtype).contiguous(memory_format=LAST)
    want = exactly(module, x)
    accelerate(module)
    with torch.inference_mode():
        got = module(x)
        assert torch.equal(got, one_by_one(module, x))
    error = 2e-2 if dtype is torch.float16 else 1e-12
    assert (got.double() - want).abs().max() <= error * want.abs().max()
    assert chained(module) == [0, 0, 1, 1]


def test_one_call_runs_all_layers(monkeypatch):
    calls = []
    own = pplconv.Chain.__call__
    monkeypatch.setattr(
        pplconv.Chain, "__call__", lambda self, x: calls.append(len(self)) or own(self, x)
    )
    module = accelerate(separable(), fuse=True)
    with torch.inference_mode():
        module(torch.randn(1, 8, 20, 20).contiguous(memory_format=LAST))
    assert calls == [4]


@pytest.mark.parametrize("at", ["0.0", "0.1", "1.0", "1", "2"])
def test_hooks_see_the_results_of_their_modules(at):
    module, x = separable(), torch.randn(1, 8, 12, 12).contiguous(memory_format=LAST)
    hooked, seen = module.get_submodule(at), []
    hooked.register_forward_hook(lambda _m, _x, y: seen.append(y.clone()))
    with torch.no_grad():
        module(x)
    accelerate(module, fuse=True)
    del seen[1:]  # torch.fx calls the hooks of sequences when it traces
    with torch.inference_mode():
        got = module(x)
    assert len(seen) == 2
    assert_near(seen[1], seen[0].double())
    assert_near(got, exactly(module, x))


def test_a_hook_that_comes_later():
    module = accelerate(separable(), fuse=True)
    x, seen = torch.randn(1, 8, 12, 12).contiguous(memory_format=LAST), []
    with torch.inference_mode():
        want = module(x)
        handle = module[1].register_forward_pre_hook(lambda _m, _x: seen.append(1))
        assert torch.equal(module(x), want) and seen == [1]
        handle.remove()
        every = nn.modules.module.register_module_forward_hook(lambda *_: seen.append(2))
        try:
            module(x)
        finally:
            every.remove()
        assert seen.count(2) >= 8
        assert torch.equal(module(x), want)
    assert chained(module) == [2, 2, 3, 3]


def test_only_chains_that_pay_run(monkeypatch):
    """The model of bands says which."""
    monkeypatch.setattr(sequential_chains, "_pays", _pays)
    module = nn.Sequential(*(nn.Conv2d(32, 32, 3, padding=1) for _ in range(3))).eval()
    accelerate(module, threads=1)
    for size, count in ((8, 0), (512, 1), (8, 1)):
        x = torch.randn(1, 32, size, size).contiguous(memory_format=LAST)
        with torch.inference_mode():
            assert torch.equal(module(x), one_by_one(module, x))
        assert chained(module) == [count] * 3


def test_gradients_and_training():
    module = accelerate(separable(), fuse=True)
    x = torch.randn(1, 8, 12, 12).contiguous(memory_format=LAST)
    with pytest.warns(RuntimeWarning, match="record gradients"):
        module(x).sum().backward()
    assert all(each.grad is not None for each in module.parameters())
    assert chained(module) == [0] * 4
    module.train()
    with torch.no_grad():
        before = module[0][1].running_mean.clone()
        got = module(x)
        assert not torch.equal(module[0][1].running_mean, before)
        norm = nn.functional.batch_norm(
            nn.functional.conv2d(x, module[0][0].weight, module[0][0].bias, padding=1, groups=8),
            None, None, module[0][1].weight, module[0][1].bias, training=True,
        ).relu()  # fmt: skip
        assert_near(got, restore(copy.deepcopy(module))[1:](norm).double())


def test_a_shared_layer_keeps_its_results():
    """Twice in one sequence, and in another one."""
    layer, between = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
    module = nn.ModuleList([nn.Sequential(layer, between, layer), nn.Sequential(between, layer)])
    x = torch.randn(1, 8, 12, 12).contiguous(memory_format=LAST)
    wants = [exactly(each, x) for each in module.eval()]
    accelerate(module, fuse=True)
    with torch.inference_mode():
        for each, want in zip(module, wants, strict=True):
            assert_near(each(x), want)
            assert torch.equal(each(x), one_by_one(each, x))


def test_inner_layers_called_by_themselves():
    module, x = separable(), torch.randn(1, 8, 12, 12).contiguous(memory_format=LAST)
    accelerate(module)
    with torch.inference_mode():
        y = module[:2](x)
        assert_near(y, exactly(module[:2], x))
        assert torch.equal(module[2:](y), module(x))


@pytest.mark.parametrize("change", ["load", "copy", "refresh", "replace", "append"])
def test_changes_are_noticed(change):
    module, other = separable(), separable()
    x = torch.randn(1, 8, 12, 12).contiguous(memory_format=LAST)
    accelerate(module, fuse=True)
    with torch.inference_mode():
        module(x)
    with torch.no_grad():
        if change == "load":
            module.load_state_dict(other.state_dict())
        elif change == "copy":
            module[2].weight.copy_(other[2].weight)
        elif change == "refresh":
            module[3].weight.data.mul_(2)
            refresh(module)
        elif change == "replace":
            module[2] = copy.deepcopy(other[2])
        else:
            module.append(nn.Conv2d(3, 2, 1).eval())
    with torch.inference_mode():
        assert_near(module(x), exactly(module, x))


def test_copies_and_pickles():
    module, x = (
        accelerate(separable(), fuse=True),
        torch.randn(1, 8, 12, 12).contiguous(memory_format=LAST),
    )
    with torch.inference_mode():
        want = module(x)
        for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
            assert type(twin) is ChainedSequential
            assert torch.equal(twin(x), want)


@pytest.mark.parametrize("shape", [(8, 12, 12), (2, 8, 1, 1), (0, 8, 9, 9)], ids=str)
def test_other_shapes(shape):
    module = nn.Sequential(
        nn.Conv2d(8, 8, 1), nn.Conv2d(8, 1, 1), nn.Conv2d(1, 8, 1), nn.Conv2d(8, 4, 1)
    ).eval()
    x = torch.randn(shape)
    x = x.contiguous(memory_format=LAST) if x.dim() == 4 else x
    want = exactly(module, x)
    accelerate(module)
    with torch.inference_mode():
        got = module(x)
        assert got.shape == want.shape and torch.allclose(got.double(), want, atol=1e-5)
        assert torch.equal(got, one_by_one(module, x))
        with pytest.raises(RuntimeError, match="channels"):
            module(torch.randn(2, 7, 9, 9))


def test_a_result_of_one_pixel_has_the_bits_of_its_layers():
    """It is of either format, so the next layer chooses."""
    module = nn.Sequential(nn.Conv2d(64, 64, 5), nn.Conv2d(64, 64, 1), nn.Conv2d(64, 64, 1)).eval()
    x = torch.randn(1, 64, 5, 5).contiguous(memory_format=LAST)
    want = exactly(module, x)
    accelerate(module)
    with torch.inference_mode():
        got = module(x)
        assert torch.equal(got, one_by_one(module, x))
    assert_near(got, want)


def test_tracing_sees_the_layers():
    module = accelerate(separable())
    x = torch.randn(1, 8, 12, 12).contiguous(memory_format=LAST)
    with torch.no_grad():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tracing is deprecated
            traced = torch.jit.trace(module, x, check_trace=False)
        assert_near(traced(x), exactly(module, x))
        graph = torch.fx.symbolic_trace(module)
        assert_near(graph(x), exactly(module, x))
