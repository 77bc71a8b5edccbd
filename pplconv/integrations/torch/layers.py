"""Layers of PyTorch that pplconv computes where it can."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.modules import module as torch_module

import pplconv
from pplconv.integrations.torch.norm_folding import folded

__all__ = [
    "Accelerated",
    "Settings",
    "Work",
    "array_of",
    "is_last",
    "replaced",
    "restored",
    "tensor_of",
]

Array = np.ndarray[Any, Any]
_LAST = torch.channels_last
# Exceptions of tensors without memory of their own: transformed, fake or negated ones.
_NO_MEMORY = (RuntimeError, TypeError)


@dataclass(frozen=True)
class Settings:
    """Arguments of pplconv's layers that all layers of a module share."""

    threads: int | None
    tolerance: float | None
    precision: str | None
    search: str

    @classmethod
    def checked(cls, threads: Any, tolerance: Any, precision: Any, search: Any) -> Settings:
        """Check the settings now, instead of at the first call.

        Raises
        ------
        TypeError, ValueError
            If pplconv refuses a setting.
        """
        settings = cls(threads, tolerance, precision, search)
        weight = np.ones((1, 1, 1, 1), np.float32)
        pplconv.Conv2d(weight, **{**asdict(settings), "precision": None})
        words = {"auto", "fp32", "fp16", "bf16", "low", "low_bf16"}
        if precision is not None and precision not in words:
            raise ValueError(
                f"precision must be None or one of {', '.join(sorted(words))}, got {precision!r}"
            )
        return settings


class _Packed(NamedTuple):
    """A layer of pplconv, with the tensors it was made of and their states at that time."""

    layer: Callable[..., Array]
    tensors: tuple[torch.Tensor | None, ...]
    states: tuple[tuple[int, int] | None, ...]

    def is_of(self, tensors: tuple[torch.Tensor | None, ...]) -> bool:
        """Whether these are the same tensors with the same numbers, as far as PyTorch knows."""
        for now, then, state in zip(tensors, self.tensors, self.states, strict=True):
            if now is not then or (now is not None and _state(now) != state):
                return False
        return True


def _state(tensor: torch.Tensor) -> tuple[int, int]:
    """State of a tensor that changes when it is written to, or gets other memory.

    Tensors that were made in inference mode count no changes.
    """
    return (-1 if tensor.is_inference() else tensor._version), tensor.data_ptr()


_GRADIENTS = "gradients are recorded"


class Work:
    """Data of pplconv for one layer, kept in the layer's ``__dict__``.

    Parameters
    ----------
    settings : Settings
        Arguments of pplconv's layers.

    Attributes
    ----------
    norm : torch.nn.Module or None
        The `BatchNorm2d` that is folded into the weights.
    after : torch.nn.Module or None
        The activation that is computed with the layer, behind `norm` if there is one.
    activation : object
        The same as an argument of pplconv's layers.
    calls : int
        Number of calls that pplconv has computed.
    chained : int
        Number of these that ran in a chain with other layers.
    fallbacks : collections.Counter of str
        Reasons of the calls that PyTorch has computed.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.norm: torch.nn.Module | None = None
        self.after: torch.nn.Module | None = None
        self.activation: Any = None
        self._start()

    def _start(self) -> None:
        self.calls = self.chained = 0
        self.fallbacks: Counter[str] = Counter()
        self._packed: dict[tuple[bool, bool], _Packed] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles pack anew; modules in it are copied with the whole module."""
        own = ("settings", "norm", "after", "activation")
        return {name: getattr(self, name) for name in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    @property
    def fused(self) -> tuple[torch.nn.Module, ...]:
        """Modules that are computed with the layer, in order."""
        return tuple(each for each in (self.norm, self.after) if each is not None)

    def forget(self) -> None:
        """Pack anew at the next call."""
        self._packed = {}

    def packed(self, module: Accelerated, fuse: bool, last: bool) -> _Packed:
        """Find or make the layer of pplconv.

        Parameters
        ----------
        module : Accelerated
            Module that holds the weights.
        fuse : bool
            Whether the following modules are computed with it.
        last : bool
            Whether channels are last.

        Returns
        -------
        _Packed
        """
        norm = self.norm if fuse else None
        tensors: tuple[torch.Tensor | None, ...] = (module.weight, module.bias)
        if norm is not None:
            tensors += (norm.weight, norm.bias, norm.running_mean, norm.running_var)
        found = self._packed.get((fuse, last))
        if found is None or not found.is_of(tensors):
            states = tuple(None if each is None else _state(each) for each in tensors)
            arrays = [None if each is None else array_of(each) for each in tensors]
            weight, bias = array_of(module.weight), arrays[1]
            if norm is not None:
                transposed = isinstance(module, torch.nn.ConvTranspose2d)
                weight, bias = folded(weight, bias, arrays[2:], norm.eps, 1 if transposed else 0)
            layer = module._made(weight, bias, {
                **asdict(self.settings), "activation": self.activation if fuse else None,
                "layout": "NHWC" if last else "NCHW",
            })  # fmt: skip
            found = self._packed[fuse, last] = _Packed(layer, tensors, states)
        return found


def array_of(tensor: torch.Tensor) -> Array:
    """Give the memory of a tensor as an array.

    Raises
    ------
    RuntimeError, TypeError
        If the tensor has no memory of its own.
    """
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        import ml_dtypes

        bits: Array = tensor.view(torch.int16).numpy()
        return bits.view(ml_dtypes.bfloat16)
    array: Array = tensor.numpy()
    return array


def tensor_of(array: Array) -> torch.Tensor:
    """Give an array as a tensor on the same memory."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


class Accelerated(torch.nn.Module):
    """Common part of the replaced layers.

    Subclasses also derive from a layer of PyTorch. A layer is replaced by changing its class.
    """

    weight: torch.Tensor
    bias: torch.Tensor | None
    own: type[torch.nn.Module]  # the class that a replaced layer had

    def forward(self, input: Any, *more: Any, **named: Any) -> Any:
        """Compute the layer, or let PyTorch do it."""
        # This test comes first, so that the compiler sees PyTorch's own layer only.
        if torch.compiler.is_compiling() or torch.jit.is_tracing():
            return self.own.forward(self, input, *more, **named)
        work: Work = self.__dict__["_pplconv"]
        reason = self._refusal(input)
        if not reason:
            try:
                y = self._computed(work, input, *more, **named)
            except (*_NO_MEMORY, ValueError) as error:
                # PyTorch computes it, or says in its own words what is wrong.
                reason = f"as pplconv says: {error}"
            else:
                work.calls += 1
                return y
        work.fallbacks[reason] += 1
        if reason is _GRADIENTS and not self.training and work.fallbacks[reason] == 1:
            # Python shows equal warnings of many layers once. Training is meant to record them.
            warnings.warn(
                "pplconv: PyTorch computes calls that record gradients: use torch.inference_mode()",
                RuntimeWarning, stacklevel=2,
            )  # fmt: skip
        return self.own.forward(self, input, *more, **named)

    def _refusal(self, x: Any) -> str:
        """Say why PyTorch has to compute a call; empty if pplconv can."""
        weight = self.weight
        if type(x) is not torch.Tensor and type(x) is not torch.nn.Parameter:
            return f"input is of the class {type(x).__name__}"
        if torch.is_grad_enabled() and (
            x.requires_grad
            or weight.requires_grad
            or (self.bias is not None and self.bias.requires_grad)
        ):
            return _GRADIENTS
        if torch.is_autocast_enabled("cpu"):
            return "autocast is on"
        if x.dtype is not weight.dtype:
            return f"input is {x.dtype}"
        if not (x.is_cpu and weight.is_cpu):
            return f"tensors are on {x.device} and {weight.device}"
        return ""

    def _computed(self, work: Work, x: torch.Tensor, output_size: Any = None) -> torch.Tensor:
        fuse = self._may_fuse(work)
        last = x.dim() == 4 and (is_last(x) or is_last(self.weight))
        if last:
            x = x.contiguous(memory_format=_LAST).permute(0, 2, 3, 1)
        layer = work.packed(self, fuse, last).layer
        if output_size is None:
            y = tensor_of(layer(array_of(x)))
        else:
            y = tensor_of(layer(array_of(x), output_size=tuple(output_size)[-2:]))
        if last:
            y = y.permute(0, 3, 1, 2)
        if fuse:
            y._pplconv_done = list(work.fused)
        return y

    def _may_fuse(self, work: Work) -> bool:
        """Whether the following modules may be computed too; hooks must see the same results."""
        if work.norm is None and work.after is None:
            return False
        if self._forward_hooks or torch_module._global_forward_hooks:
            return False
        for each in work.fused:
            if each._forward_hooks or each._forward_pre_hooks or each.training:
                return False
        norm = work.norm
        return norm is None or norm.running_mean is not None

    def _made(self, weight: Array, bias: Array | None, settings: dict[str, Any]) -> Any:
        raise NotImplementedError

    def _get_name(self) -> str:
        return self.own.__name__

    def extra_repr(self) -> str:
        """Say what the layer itself says, and who computes it."""
        return f"{super().extra_repr()}, pplconv"


def is_last(tensor: torch.Tensor) -> bool:
    """Whether channels lie last; a tensor that is contiguous in both formats counts as NCHW."""
    return tensor.is_contiguous(memory_format=_LAST) and not tensor.is_contiguous()


class AcceleratedConv2d(Accelerated, torch.nn.Conv2d):
    """A convolution that pplconv computes."""

    own = torch.nn.Conv2d

    def _made(self, weight: Array, bias: Array | None, settings: dict[str, Any]) -> Any:
        return pplconv.Conv2d(
            weight, bias, self.stride, _padding(self.padding), self.dilation, self.groups,
            **settings,
        )  # fmt: skip


class AcceleratedConvTranspose2d(Accelerated, torch.nn.ConvTranspose2d):
    """A transposed convolution that pplconv computes."""

    own = torch.nn.ConvTranspose2d

    def _made(self, weight: Array, bias: Array | None, settings: dict[str, Any]) -> Any:
        return pplconv.ConvTranspose2d(
            weight, bias, self.stride, _padding(self.padding), self.output_padding, self.groups,
            self.dilation, **settings,
        )  # fmt: skip


class AcceleratedLinear(Accelerated, torch.nn.Linear):
    """A linear layer that pplconv computes."""

    own = torch.nn.Linear

    def _computed(self, work: Work, x: torch.Tensor, output_size: Any = None) -> torch.Tensor:
        fuse = self._may_fuse(work)
        y = tensor_of(work.packed(self, fuse, False).layer(array_of(x)))
        if fuse:
            y._pplconv_done = list(work.fused)
        return y

    def _made(self, weight: Array, bias: Array | None, settings: dict[str, Any]) -> Any:
        del settings["layout"], settings["tolerance"]
        return pplconv.Linear(weight, bias, **settings)


def _padding(padding: Any) -> Any:
    return padding if isinstance(padding, str) else tuple(padding)


_CLASSES: dict[type[torch.nn.Module], type[Accelerated]] = {
    each.own: each for each in (AcceleratedConv2d, AcceleratedConvTranspose2d, AcceleratedLinear)
}


def replaced(layer: torch.nn.Module, settings: Settings) -> None:
    """Make a layer one that pplconv computes."""
    layer.__dict__["_pplconv"] = Work(settings)
    layer.__class__ = _CLASSES[type(layer)]


def restored(layer: torch.nn.Module) -> None:
    """Undo it; other modules stay as they are."""
    if isinstance(layer, Accelerated):
        layer.__class__ = layer.own
        del layer.__dict__["_pplconv"]
