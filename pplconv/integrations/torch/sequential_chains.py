"""`torch.nn.Sequential`: neighbouring convolutions in it run as one `pplconv.Chain`.

Only a call of the sequence itself runs a chain. So inner layers that are called by themselves
return what they always do, and it does not matter who else shares them. Hooks and modes are asked
in each call: a module that has a hook divides the chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.nn.modules import module as torch_module

import pplconv
from pplconv.integrations.torch.layers import Accelerated, array_of, is_last, tensor_of

__all__ = ["chain_in", "forget", "unchain"]


class _Member(NamedTuple):
    """A convolution in a chain, and whether the modules behind it are computed with it."""

    layer: Accelerated
    fuse: bool


class _Kept:
    """Chains of one sequence; copies and pickles make them anew."""

    def __init__(self) -> None:
        self._chains: dict[tuple[int, int, bool], pplconv.Chain] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _Kept, ()

    def chain(self, at: int, last: bool, layers: tuple[Any, ...]) -> pplconv.Chain:
        """Find or make the chain of some layers that begins at a place in the sequence."""
        key = at, len(layers), last
        found = self._chains.get(key)
        # Layers are made anew when weights change.
        if found is None or any(a is not b for a, b in zip(found.layers, layers, strict=True)):
            found = self._chains[key] = pplconv.Chain(layers)
        return found

    def forget(self) -> None:
        """Drop all chains."""
        self._chains.clear()


class ChainedSequential(torch.nn.Sequential):
    """A sequence whose neighbouring convolutions run in one call."""

    own = torch.nn.Sequential

    def forward(self, input: Any) -> Any:
        """Run chains, and the modules between them as usual."""
        # This test comes first, so that the compiler sees PyTorch's own sequence only.
        if torch.compiler.is_compiling() or torch.jit.is_tracing():
            return self.own.forward(self, input)
        kept: _Kept | None = self.__dict__.get("_pplconv_chains")
        # Slices of a sequence have its class, but not its chains.
        if kept is None or type(input) not in (torch.Tensor, torch.nn.Parameter):
            return self.own.forward(self, input)
        if torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks:
            return self.own.forward(self, input)
        modules = list(_inner(self))
        at = 0
        while at < len(modules):
            found, behind = _members(modules, at, input)
            done = _computed(kept, at, found, input) if len(found) > 1 else None
            if done is None:
                input = modules[at](input)
                at += 1
            else:
                input, at = done, behind
        return input

    def _get_name(self) -> str:
        return self.own.__name__


def _inner(sequence: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Give the modules of a sequence, those of plain sequences in it among them."""
    for each in sequence._modules.values():
        assert each is not None
        if type(each).forward in _FORWARDS and _is_plain(each):
            yield from _inner(each)
        else:
            yield each


_FORWARDS = (torch.nn.Sequential.forward, ChainedSequential.forward)


def _is_plain(module: torch.nn.Module) -> bool:
    """Whether a call of a module runs nothing but the `forward` of its class."""
    return (
        type(module).__call__ is torch.nn.Module.__call__
        and module._compiled_call_impl is None
        and "forward" not in module.__dict__
        and not (module._forward_hooks or module._forward_pre_hooks)
    )


def _members(modules: list[torch.nn.Module], at: int, x: torch.Tensor) -> tuple[list[_Member], int]:
    """Find the convolutions that can run in one chain, from a place on.

    Returns
    -------
    members : list
        One or none if there is no chain.
    behind : int
        Place of the module behind them.
    """
    found: list[_Member] = []
    last, size = _in_format(x), x.shape[-2:]
    while x.dim() in (3, 4) and at < len(modules):
        layer = modules[at]
        if not (isinstance(layer, Accelerated) and isinstance(layer, torch.nn.Conv2d)):
            break
        if not _is_plain(layer) or layer._refusal(x):
            break
        # Each layer must have the format that it would have by itself, as it decides about bits.
        # Images of one channel or one pixel are of either format.
        either = bool(found) and (layer.in_channels == 1 or size[0] * size[1] == 1)
        if (last and either) or (not last and is_last(layer.weight)):
            break
        work = layer.__dict__["_pplconv"]
        behind = modules[at + 1 : at + 1 + len(work.fused)]
        if work.fused and not (
            layer._may_fuse(work)
            and len(behind) == len(work.fused)
            and all(one is other for one, other in zip(behind, work.fused, strict=True))
            and all(map(_is_plain, behind))
        ):
            break
        found.append(_Member(layer, bool(work.fused)))
        at += 1 + len(behind)
        size = _size(layer, size)
    return found, at


def _in_format(x: torch.Tensor) -> bool:
    """Whether channels lie last in an image or a batch of images."""
    return x.dim() == 4 and is_last(x)


def _size(layer: Any, size: Any) -> tuple[int, int]:
    """Give the rows and columns of a convolution's result."""
    if layer.padding == "same":
        return tuple(size)
    padding = (0, 0) if layer.padding == "valid" else layer.padding
    each = zip(size, padding, layer.dilation, layer.kernel_size, layer.stride, strict=True)
    high, wide = ((s + 2 * p - d * (k - 1) - 1) // stride + 1 for s, p, d, k, stride in each)
    return high, wide


def _computed(kept: _Kept, at: int, members: list[_Member], x: torch.Tensor) -> torch.Tensor | None:
    """Run a chain; None if each layer has to say in its own words what is wrong."""
    last = _in_format(x)
    works = [each.layer.__dict__["_pplconv"] for each in members]
    try:
        layers = tuple(
            work.packed(each.layer, each.fuse, last).layer
            for work, each in zip(works, members, strict=True)
        )
        given = x.contiguous(memory_format=torch.channels_last).permute(0, 2, 3, 1) if last else x
        y = tensor_of(kept.chain(at, last, layers)(array_of(given)))
    except (RuntimeError, TypeError, ValueError):
        return None
    for work in works:
        work.calls += 1
        work.chained += 1
    return y.permute(0, 3, 1, 2) if last else y


def chain_in(module: torch.nn.Module) -> None:
    """Let each sequence in a module run chains; classes derived from it keep their own calls."""
    for each in module.modules():
        if type(each) is torch.nn.Sequential and "forward" not in each.__dict__:
            each.__dict__["_pplconv_chains"] = _Kept()
            each.__class__ = ChainedSequential


def unchain(module: torch.nn.Module) -> None:
    """Undo it for one module; others stay as they are."""
    if isinstance(module, ChainedSequential):
        module.__class__ = module.own
        module.__dict__.pop("_pplconv_chains", None)


def forget(module: torch.nn.Module) -> None:
    """Make the chains of one module anew at the next call."""
    if isinstance(module, ChainedSequential) and "_pplconv_chains" in module.__dict__:
        module.__dict__["_pplconv_chains"].forget()
