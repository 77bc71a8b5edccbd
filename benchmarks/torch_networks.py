"""ResNet-50 and MobileNetV2 as modules of PyTorch, with the weights of their ONNX files.

Laid out as torchvision's are: a normalization behind each convolution, one ReLU for all places of a
residual block. The files are those of `benchmarks.networks`; their sessions give the right outputs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from benchmarks.networks.builder import CLASSES
from benchmarks.networks.built import _MOBILENET_HEAD, _MOBILENET_STEM, _MOBILENET_V2

if TYPE_CHECKING:
    import onnx

# He et al., "Deep Residual Learning", table 1, 50 layers: inner channels, blocks, first stride.
_RESNET_50 = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
_EXPANSION = 4


class Bottleneck(nn.Module):
    """A residual block of three convolutions; the second one has the stride, as torchvision's."""

    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        outer = inner * _EXPANSION
        self.conv1 = nn.Conv2d(channels, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, outer, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outer)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels != outer:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute it."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += x if self.downsample is None else self.downsample(x)
        z: torch.Tensor = self.relu(y)
        return z


def resnet_50() -> nn.Module:
    """Make a ResNet-50."""
    layers: list[tuple[str, nn.Module]] = [
        ("conv1", nn.Conv2d(3, 64, 7, 2, 3, bias=False)),
        ("bn1", nn.BatchNorm2d(64)),
        ("relu", nn.ReLU(inplace=True)),
        ("maxpool", nn.MaxPool2d(3, 2, 1)),
    ]
    channels = 64
    for number, (inner, count, first) in enumerate(_RESNET_50, 1):
        blocks = []
        for index in range(count):
            blocks.append(Bottleneck(channels, inner, first if index == 0 else 1))
            channels = inner * _EXPANSION
        layers.append((f"layer{number}", nn.Sequential(*blocks)))
    layers += [
        ("avgpool", nn.AdaptiveAvgPool2d(1)),
        ("flatten", nn.Flatten()),
        ("fc", nn.Linear(channels, CLASSES)),
        ("softmax", nn.Softmax(1)),
    ]
    return nn.Sequential(OrderedDict(layers))


def _block(channels: int, out: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, out, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out),
        nn.ReLU6(inplace=True),
    )


class InvertedResidual(nn.Module):
    """A block of MobileNetV2: a 1x1 to more channels, a depthwise 3x3, a 1x1 to fewer channels."""

    def __init__(self, channels: int, out: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels * expansion
        wider = [_block(channels, inner, 1)] if expansion > 1 else []
        self.conv = nn.Sequential(
            *wider,
            _block(inner, inner, 3, stride, inner),
            nn.Conv2d(inner, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.adds = stride == 1 and channels == out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute it."""
        y: torch.Tensor = self.conv(x)
        return x + y if self.adds else y


def mobilenet_v2() -> nn.Module:
    """Make a MobileNetV2 of width 1."""
    layers: list[nn.Module] = [_block(3, _MOBILENET_STEM, 3, 2)]
    channels = _MOBILENET_STEM
    for expansion, out, count, first in _MOBILENET_V2:
        for index in range(count):
            layers.append(InvertedResidual(channels, out, first if index == 0 else 1, expansion))
            channels = out
    layers += [_block(channels, _MOBILENET_HEAD, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    layers += [nn.Linear(_MOBILENET_HEAD, CLASSES), nn.Softmax(1)]
    return nn.Sequential(*layers)


MODULES: dict[str, Callable[[], nn.Module]] = {
    "resnet_50": resnet_50,
    "mobilenet_v2": mobilenet_v2,
}


def with_weights_of(module: nn.Module, model: onnx.ModelProto) -> nn.Module:
    """Give a module the weights of an ONNX file that computes the same.

    Parameters
    ----------
    module : torch.nn.Module
        Written to; put in evaluation mode.
    model : onnx.ModelProto
        Whose convolutions, normalizations and products come in the order of the module's.

    Returns
    -------
    torch.nn.Module
        `module` itself.

    Raises
    ------
    ValueError
        If the one has a layer that the other has not.
    """
    from onnx import numpy_helper

    arrays = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    kinds = {nn.Conv2d: "Conv", nn.BatchNorm2d: "BatchNormalization", nn.Linear: "Gemm"}
    layers = iter([each for each in module.modules() if type(each) in kinds])
    with torch.no_grad():
        for node in model.graph.node:
            if node.op_type not in kinds.values():
                continue
            layer: Any = next(layers, None)
            if layer is None or kinds[type(layer)] != node.op_type:
                raise ValueError(f"node {node.name or node.output[0]} has no layer, but {layer}")
            for tensor, name in zip(_tensors(layer), node.input[1:], strict=True):
                if tensor.shape != arrays[name].shape:
                    raise ValueError(f"{name} has the shape {arrays[name].shape}, not of {layer}")
                tensor.copy_(torch.from_numpy(np.array(arrays[name])))
            if node.op_type == "BatchNormalization":
                layer.eps = next(each.f for each in node.attribute if each.name == "epsilon")
    if next(layers, None) is not None:
        raise ValueError("the module has more layers than the file")
    return module.eval()


def _tensors(layer: Any) -> Iterator[torch.Tensor]:
    """The tensors of a layer, in ONNX's order."""
    names = ("weight", "bias", "running_mean", "running_var")
    found = (getattr(layer, name, None) for name in names)
    return (each for each in found if each is not None)
