"""`accelerate`: values of PyTorch, memory that is shared, weights that change, ways back."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from contextlib import nullcontext

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn

import pplconv
from pplconv.integrations.torch import accelerate, refresh, report, restore
from pplconv.integrations.torch.layers import Accelerated

FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
LAYERS = {
    "conv": lambda: nn.Conv2d(6, 8, 3, padding=1),
    "strided": lambda: nn.Conv2d(6, 8, (3, 2), stride=(2, 1), padding=(1, 0), bias=False),
    "same": lambda: nn.Conv2d(6, 8, 4, padding="same", dilation=2),
    "depthwise": lambda: nn.Conv2d(6, 6, 3, padding=1, groups=6),
    "pointwise": lambda: nn.Conv2d(6, 16, 1),
    "groups": lambda: nn.Conv2d(6, 9, 3, groups=3, padding="valid"),
    "transposed": lambda: nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1),
    "transposed groups": lambda: nn.ConvTranspose2d(6, 4, 2, stride=2, groups=2, dilation=2),
    "linear": lambda: nn.Linear(11, 7),
    "linear without bias": lambda: nn.Linear(11, 7, bias=False),
}
# Both sums are direct, or Winograd's within the default tolerance of 1e-5 of the largest.
BOUND = {torch.float64: 1e-13, torch.float32: 3e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.fixture(autouse=True)
def seeded(rng):
    torch.manual_seed(int(rng.integers(1 << 31)))


def expected(module, x):
    with torch.no_grad():
        return module(x)


def assert_near(got, want):
    assert got.shape == want.shape and got.dtype == want.dtype
    error = (got.double() - want.double()).abs().max().item()
    assert error <= BOUND[want.dtype] * max(want.double().abs().max().item(), 1e-30)


def calls(module):
    return sum(each.calls for each in report(module))


def fallbacks(module):
    return [why for each in report(module) for why in each.fallbacks or ()]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode], ids=lambda m: m.__name__)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", LAYERS)
def test_values_and_memory_format_are_pytorchs(kind, format, mode):
    layer = LAYERS[kind]().eval()
    x = torch.randn(2, 6, 9, 11).contiguous(memory_format=FORMATS[format])
    want = expected(layer, x)
    assert accelerate(layer) is layer and isinstance(layer, Accelerated)
    with mode():
        got = layer(x)
    assert_near(got, want)
    assert calls(layer) == 1 and fallbacks(layer) == []
    if not isinstance(layer, nn.Linear):
        assert got.stride() == want.stride()
    assert type(got) is torch.Tensor and not got.requires_grad


@pytest.mark.parametrize("dtype", BOUND, ids=str)
@pytest.mark.parametrize("kind", ["conv", "depthwise", "transposed", "linear"])
def test_types(kind, dtype):
    layer = LAYERS[kind]().eval().to(dtype)
    x = torch.randn(2, 6, 9, 11).to(dtype)
    want = expected(copy.deepcopy(layer).double(), x.double()).to(dtype)
    accelerate(layer)
    got = expected(layer, x)
    if kind == "transposed" and dtype is torch.bfloat16:
        assert "bfloat16" in report(layer)[0].reason
    else:
        assert calls(layer) == 1
    assert_near(got, want)


@pytest.mark.parametrize("format", FORMATS)
def test_channels_last_weights_make_channels_last_results(format):
    layer = nn.Conv2d(6, 8, 3).eval().to(memory_format=torch.channels_last)
    x = torch.randn(1, 6, 9, 11).contiguous(memory_format=FORMATS[format])
    want = expected(layer, x)
    got = expected(accelerate(layer), x)
    assert_near(got, want)
    assert got.stride() == want.stride()
    assert got.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("format", FORMATS)
def test_no_activation_is_copied(format, dtype, monkeypatch):
    seen = []

    class Spy(pplconv.Conv2d):
        def __call__(self, x):
            y = super().__call__(x)
            seen.append((x.ctypes.data, y.ctypes.data, x.flags.c_contiguous))
            return y

    layer = accelerate(nn.Conv2d(6, 8, 3).eval().to(dtype))
    monkeypatch.setattr(pplconv, "Conv2d", Spy)
    x = torch.randn(1, 6, 9, 11).to(dtype).contiguous(memory_format=FORMATS[format])
    y = expected(layer, x)
    assert seen == [(x.data_ptr(), y.data_ptr(), True)]


@pytest.mark.parametrize("shape", [(6, 9, 11), (0, 6, 9, 11), (1, 6, 9, 11)])
def test_images_without_batch_and_batches_of_none(shape):
    layer = nn.Conv2d(6, 8, 3).eval()
    x = torch.randn(shape)
    want = expected(layer, x)
    got = expected(accelerate(layer), x)
    assert got.shape == want.shape and torch.allclose(got, want, atol=1e-5)


def test_views_with_gaps_are_read():
    layer = nn.Conv2d(6, 8, 3).eval()
    x = torch.randn(2, 12, 18, 11)[:, ::2, ::2]
    want = expected(layer, x)
    assert_near(expected(accelerate(layer), x), want)
    assert calls(layer) == 1


def test_output_size():
    layer = nn.ConvTranspose2d(6, 4, 3, stride=2).eval()
    x = torch.randn(1, 6, 5, 5)
    with torch.no_grad():
        want = layer(x, output_size=(12, 11))
        got = accelerate(layer)(x, output_size=(12, 11))
        assert_near(got, want)
        assert_near(layer(x, [1, 4, 12, 11]), want)
        with pytest.raises(ValueError, match="output size"):
            layer(x, output_size=(40, 11))
    assert calls(layer) == 2


def test_wrong_inputs_are_refused_in_pytorchs_words():
    layer = nn.Conv2d(6, 8, 3).eval()
    accelerate(layer)
    for x in (torch.randn(1, 5, 9, 9), torch.randn(1, 6, 2, 2), torch.randn(6)):
        with torch.no_grad():
            with pytest.raises(RuntimeError) as theirs:
                nn.Conv2d(6, 8, 3)(x)
            with pytest.raises(RuntimeError) as ours:
                layer(x)
        assert type(ours.value) is type(theirs.value) and str(ours.value) == str(theirs.value)


# Weights that change -----------------------------------------------------------------------------


def changes():
    def loaded(layer):
        layer.load_state_dict(LAYERS["conv"]().state_dict())

    def assigned(layer):
        layer.load_state_dict(LAYERS["conv"]().state_dict(), assign=True)

    def written(layer):
        with torch.no_grad():
            layer.bias.add_(1)

    def replaced(layer):
        layer.weight = nn.Parameter(torch.randn(8, 6, 3, 3))

    def other_memory(layer):
        layer.weight.data = torch.randn(8, 6, 3, 3)

    return [loaded, assigned, written, replaced, other_memory]


@pytest.mark.parametrize("change", changes(), ids=lambda change: change.__name__)
def test_changed_weights_are_noticed(change):
    layer, x = accelerate(LAYERS["conv"]().eval()), torch.randn(1, 6, 9, 9)
    before = expected(layer, x)
    change(layer)
    want = expected(restore(copy.deepcopy(layer)), x)
    assert not torch.allclose(before, want, atol=1e-2)
    assert_near(expected(layer, x), want)


def test_weights_behind_pytorchs_back_need_a_refresh():
    layer, x = accelerate(LAYERS["conv"]().eval()), torch.randn(1, 6, 9, 9)
    before = expected(layer, x)
    layer.weight.data.mul_(2)
    layer.bias.data.mul_(2)
    assert torch.equal(expected(layer, x), before)
    assert refresh(layer) is layer
    assert_near(expected(layer, x), 2 * before)


def test_types_may_change():
    layer, x = accelerate(LAYERS["conv"]().eval()), torch.randn(1, 6, 9, 9)
    want = expected(layer, x)
    layer.double()
    got = expected(layer, x.double())
    assert got.dtype == torch.float64 and torch.allclose(got.float(), want, atol=1e-5)
    assert calls(layer) == 2


def test_parameters_that_are_given_for_one_call():
    layer, x = accelerate(LAYERS["conv"]().eval()), torch.randn(1, 6, 9, 9)
    own = expected(layer, x)
    weights = {"weight": torch.zeros(8, 6, 3, 3), "bias": torch.ones(8)}
    with torch.no_grad():
        assert torch.equal(torch.func.functional_call(layer, weights, x), torch.ones_like(own))
        assert torch.equal(layer(x), own)


def test_tensors_of_inference_mode():
    with torch.inference_mode():
        layer, x = accelerate(LAYERS["conv"]().eval()), torch.randn(1, 6, 9, 9)
        got = layer(x)
        assert_near(got, nn.functional.conv2d(x, layer.weight, layer.bias, padding=1))
    assert calls(layer) == 1


# Calls that are PyTorch's ------------------------------------------------------------------------


def test_gradients_are_pytorchs():
    layer, x = LAYERS["conv"]().eval(), torch.randn(1, 6, 9, 9, requires_grad=True)
    other = copy.deepcopy(layer)
    with pytest.warns(RuntimeWarning, match="record gradients: use torch.inference_mode"):
        y, want = accelerate(layer)(x), other(x)
    assert torch.equal(y, want) and y.requires_grad
    assert torch.equal(layer(x), want), "without another warning"
    y.sum().backward()
    want.sum().backward()
    assert torch.equal(layer.weight.grad, other.weight.grad)
    assert set(fallbacks(layer)) == {"gradients are recorded"}
    layer.requires_grad_(False)
    layer(torch.randn(1, 6, 9, 9))
    assert calls(layer) == 1


def test_autocast_is_pytorchs():
    layer, x = accelerate(LAYERS["conv"]().eval()), torch.randn(1, 6, 9, 9)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    assert fallbacks(layer) == ["autocast is on"] and calls(layer) == 0


def test_transforms_and_compilers_see_pytorchs_layer():
    layer, x = LAYERS["conv"]().eval(), torch.randn(3, 6, 9, 9)
    want = expected(layer, x)
    accelerate(layer)
    with torch.no_grad():
        assert_near(torch.func.vmap(layer)(x), want)
        assert_near(torch.compile(layer, backend="eager", fullgraph=True)(x), want)
        assert_near(torch.export.export(layer, (x,)).module()(x), want)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tracing is deprecated
            traced = torch.jit.trace(layer, x, check_trace=False)
        assert "aten::_convolution" in str(traced.graph)
    assert calls(layer) == 0


def test_other_tensors_are_pytorchs():
    layer = accelerate(LAYERS["conv"]().eval())
    with torch.no_grad():
        with pytest.raises(RuntimeError, match=r"dtype|type"):
            layer(torch.randn(1, 6, 9, 9).double())
        layer.to("meta")
        assert layer(torch.randn(1, 6, 9, 9, device="meta")).device.type == "meta"
    assert calls(layer) == 0
    assert [why[:10] for why in fallbacks(layer)] == ["input is t", "tensors ar"]


# What becomes of the module ----------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.line = nn.Conv1d(8, 8, 3)
        self.ring = nn.Conv2d(8, 8, 3, padding=1, padding_mode="circular")
        self.head = nn.Sequential(nn.Flatten(), nn.LazyLinear(4))
        self.again = self.stem

    def forward(self, x):
        return self.head(self.ring(self.stem(x)))


def test_report_says_who_computes_what():
    net, x = Net().eval(), torch.randn(1, 3, 8, 8)
    want = expected(net, x)
    assert next(each.reason for each in report(net)) == "accelerate was not called"
    got = expected(accelerate(net), x)
    assert_near(got, want)
    found = {each.name: each for each in report(net)}
    assert list(found) == ["stem", "line", "ring", "head.1"]
    assert found["stem"].replaced and found["head.1"].replaced
    assert "Conv1d" in found["line"].reason and "circular" in found["ring"].reason
    text = str(report(net))
    assert text.startswith("2 of 4 layers replaced") and "stem    Conv2d: 1 calls" in text
    assert repr(report(net)) == "<Report: 2 of 4 layers replaced>"
    assert "pplconv" in repr(net) and "Accelerated" not in repr(net)


def refused():
    class Own(nn.Conv2d):
        def forward(self, input):
            return input

    def weight_norm():
        return nn.utils.parametrizations.weight_norm(nn.Conv2d(6, 8, 3))

    def replaced_forward():
        layer = nn.Conv2d(6, 8, 3)
        layer.forward = lambda x: x
        return layer

    def mixed():
        layer = nn.Conv2d(6, 8, 3)
        layer.bias.data = layer.bias.data.double()
        return layer

    return {
        "training": (lambda: nn.Conv2d(6, 8, 3).train(), "eval()"),
        "padding_mode": (lambda: nn.Conv2d(6, 8, 3, padding_mode="reflect"), "reflect"),
        "meta": (lambda: nn.Conv2d(6, 8, 3, device="meta"), "meta"),
        "complex": (lambda: nn.Conv2d(6, 8, 3, dtype=torch.complex64), "complex64"),
        "mixed": (mixed, "several types"),
        "subclass": (lambda: Own(6, 8, 3), "Own may compute something else"),
        "lazy": (lambda: nn.LazyConv2d(8, 3), "LazyConv2d"),
        "weight_norm": (weight_norm, "parametrizations"),
        "forward": (replaced_forward, "its forward was replaced"),
        "three dimensions": (lambda: nn.Conv3d(6, 8, 3), "Conv3d"),
    }


@pytest.mark.parametrize("what", refused())
def test_layers_that_cannot_be_replaced_stay(what):
    make, word = refused()[what]
    layer = make()
    layer.training = what == "training"
    kind = type(layer)
    expected = pytest.warns(RuntimeWarning, match="1 layer is in training mode.* call eval")
    with expected if layer.training else nullcontext():
        accelerate(layer)
    assert type(layer) is kind
    (line,) = report(layer)
    assert not line.replaced and word in line.reason and word in str(report(layer))


def test_keys_and_checkpoints_stay():
    net, x = Net().eval(), torch.randn(1, 3, 8, 8)
    expected(net, x)
    saved = copy.deepcopy(net.state_dict())
    accelerate(net, fuse=True)
    assert list(net.state_dict()) == list(saved)
    net.load_state_dict(saved)
    assert {id(each) for each in net.parameters()} == {
        id(each) for each in restore(net).parameters()
    }


def test_copies_and_pickles_pack_anew():
    layer, x = accelerate(LAYERS["conv"]().eval(), threads=1), torch.randn(1, 6, 9, 9)
    want = expected(layer, x)
    stream = io.BytesIO()
    torch.save(layer, stream)
    stream.seek(0)
    copies = [
        copy.deepcopy(layer),
        pickle.loads(pickle.dumps(layer)),
        torch.load(stream, weights_only=False),
    ]
    for each in copies:
        assert calls(each) == 0
        with torch.no_grad():
            each.weight.zero_()
            each.bias.zero_()
        assert torch.equal(expected(each, x), torch.zeros_like(want)) and calls(each) == 1
    assert torch.equal(expected(layer, x), want)


def test_restored_modules_are_what_they_were():
    net = Net().eval()
    expected(net, torch.randn(1, 3, 8, 8))
    before = {name: (type(each), set(each.__dict__)) for name, each in net.named_modules()}
    assert restore(accelerate(net, fuse=True)) is net
    after = {name: (type(each), set(each.__dict__)) for name, each in net.named_modules()}
    assert after == before
    assert restore(net) is net


def test_hooks_see_what_they_saw():
    layer, x, seen = LAYERS["conv"]().eval(), torch.randn(1, 6, 9, 9), []
    layer.register_forward_pre_hook(lambda _, inputs: (2 * inputs[0],))
    layer.register_forward_hook(lambda _, inputs, y: seen.append(y) or y + 1)
    want = expected(layer, x)
    assert_near(expected(accelerate(layer), x), want)
    assert len(seen) == 2 and calls(layer) == 1


def test_settings_reach_the_layers_and_the_last_ones_count(monkeypatch):
    seen, made = [], pplconv.Conv2d

    def spy(weight, *arguments, **keywords):
        if weight.shape != (1, 1, 1, 1):
            seen.append((keywords["threads"], keywords["tolerance"], keywords["precision"]))
        return made(weight, *arguments, **keywords)

    monkeypatch.setattr(pplconv, "Conv2d", spy)
    layer, x = LAYERS["conv"]().eval(), torch.randn(1, 6, 9, 9)
    expected(accelerate(layer, threads=1, tolerance=0, precision="fp32"), x)
    expected(accelerate(layer, threads=2), x)
    assert seen == [(1, 0, "fp32"), (2, None, None)]


@pytest.mark.parametrize(
    "settings, error",
    [
        ({"threads": 0}, ValueError),
        ({"threads": "all"}, TypeError),
        ({"tolerance": -1}, ValueError),
        ({"precision": "half"}, ValueError),
        ({"search": "guess"}, ValueError),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_settings_change_nothing(settings, error):
    layer = LAYERS["conv"]().eval()
    with pytest.raises(error, match=next(iter(settings))):
        accelerate(layer, **settings)
    assert type(layer) is nn.Conv2d


def test_only_modules_are_taken():
    with pytest.raises(TypeError, match=r"module must be a torch\.nn\.Module"):
        accelerate(np.ones(3))


# Functions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_functions_give_tensors(dtype):
    x, w = torch.randn(1, 3, 8, 8).to(dtype), torch.randn(4, 3, 3, 3).to(dtype)
    y = pplconv.conv2d(x, w)
    assert type(y) is torch.Tensor and y.dtype == dtype
    assert_near(y, nn.functional.conv2d(x.double(), w.double()).to(dtype))
    parameter = nn.Parameter(x)
    assert torch.equal(pplconv.conv2d(parameter, w), y)


def test_quantizing_takes_tensors_as_samples():
    conv = pplconv.Conv2d(np.ones((4, 3, 3, 3), np.float32))
    samples = np.random.default_rng(0).random((4, 3, 8, 8)).astype(np.float32)
    ours = conv.quantize([torch.from_numpy(each) for each in samples])
    assert ours.signal_to_noise == conv.quantize(list(samples)).signal_to_noise
    y = ours(torch.zeros(3, 8, 8, dtype=torch.uint8))
    assert type(y) is torch.Tensor and y.dtype == torch.uint8


def test_bfloat16_is_that_of_ml_dtypes():
    w = torch.ones(4, 3, 3, 3, dtype=torch.bfloat16)
    assert pplconv.Conv2d(w).dtype == ml_dtypes.bfloat16
