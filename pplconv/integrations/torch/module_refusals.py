"""Which layers can be replaced, and why others cannot."""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch.nn.utils import parametrize

_CONVOLUTIONS = (torch.nn.Conv2d, torch.nn.ConvTranspose2d)
SUPPORTED = (*_CONVOLUTIONS, torch.nn.Linear)
"""Classes whose layers are replaced; subclasses are not, as they may compute anything."""
_OTHERS = (
    torch.nn.Conv1d,
    torch.nn.Conv3d,
    torch.nn.ConvTranspose1d,
    torch.nn.ConvTranspose3d,
    torch.nn.Bilinear,
)
_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

IN_TRAINING = "it is in training mode: call eval() first"
"""The reason that a caller can mend without a change of the module."""


def is_layer(module: torch.nn.Module) -> bool:
    """Whether a report has a line for it: a convolution, a linear layer or compiled code."""
    return isinstance(module, (*SUPPORTED, *_OTHERS, torch.jit.ScriptModule))


def refusal(layer: torch.nn.Module) -> str:
    """Say why a layer cannot be replaced; nothing if it can."""
    kind = type(layer)
    if isinstance(layer, torch.jit.ScriptModule):
        return "it is compiled by TorchScript"
    if isinstance(layer, _OTHERS):
        return f"pplconv has nothing for {kind.__name__}"
    if parametrize.is_parametrized(layer):
        return "its parameters are computed in each call (parametrizations)"
    if kind not in SUPPORTED:
        return f"{kind.__module__}.{kind.__qualname__} may compute something else"
    if "forward" in layer.__dict__:
        return "its forward was replaced"
    if layer._parameters.get("weight") is None:
        return "its weight is no parameter (weight_norm or the like)"
    return _of_arrays(layer) or _of_settings(layer)


def _of_arrays(layer: torch.nn.Module) -> str:
    tensors = [each for each in layer._parameters.values() if each is not None]
    for tensor in tensors:
        if tensor.device.type != "cpu":
            return f"it is on the device {tensor.device}"
        if type(tensor) is not torch.nn.Parameter:
            return f"its parameters are of the class {type(tensor).__name__}"
        if tensor.layout != torch.strided:
            return f"its parameters have the layout {tensor.layout}"
        if tensor.dtype not in _DTYPES:
            return f"its parameters are {tensor.dtype}"
    if len({tensor.dtype for tensor in tensors}) > 1:
        return "its parameters have several types"
    if tensors[0].dtype == torch.bfloat16:
        if isinstance(layer, torch.nn.ConvTranspose2d):
            return "pplconv has no transposed convolution of bfloat16"
        if find_spec("ml_dtypes") is None:
            return "bfloat16 needs the package ml_dtypes"
    return "it has no elements" if 0 in tensors[0].shape else ""


def _of_settings(layer: torch.nn.Module) -> str:
    if layer.training:
        return IN_TRAINING
    if isinstance(layer, _CONVOLUTIONS) and layer.padding_mode != "zeros":
        return f"padding_mode is {layer.padding_mode!r}"
    return ""
