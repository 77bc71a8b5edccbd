"""Neighbouring convolutions of a `torch.nn.Sequential` run as one `pplconv.Chain`.

Only a call of the sequence runs it, so inner layers may be called or shared as before. A module
with a hook divides the chain. Channels lie last, and bands are estimated to pay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.modules import module as torch_module

import pplconv
from pplconv.integrations.torch.layers import Accelerated, array_of, is_last, tensor_of

__all__ = ["chain_in", "forget", "unchain"]

# Shapes whose estimates a sequence keeps.
_MOST_SHAPES = 64


class _Kept:
    """Chains of one sequence; copies and pickles make them anew."""

    def __init__(self) -> None:
        self._chains: dict[tuple[int, int], pplconv.Chain] = {}
        self._pays: dict[tuple[int, int, torch.Size], bool] = {}
        # Shapes for which nothing in the sequence pays.
        self.unpaid: set[torch.Size] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Kept, ()

    def chain(self, at: int, layers: tuple[Any, ...]) -> pplconv.Chain:
        """Find or make the chain that begins at a place."""
        key = at, len(layers)
        found = self._chains.get(key)
        # Layers are made anew when weights change.
        if found is None or any(a is not b for a, b in zip(found.layers, layers, strict=True)):
            found = self._chains[key] = pplconv.Chain(layers)
        return found

    def pays(self, at: int, chain: pplconv.Chain, shape: torch.Size) -> bool:
        """Whether bands are estimated to pay."""
        key = at, len(chain), shape
        found = self._pays.get(key)
        if found is None:
            if len(self._pays) >= _MOST_SHAPES:
                self._pays.clear()
            found = self._pays[key] = _pays(chain, shape)
        return found

    def forget(self) -> None:
        self._chains.clear()
        self._pays.clear()
        self.unpaid.clear()


def _pays(chain: pplconv.Chain, shape: torch.Size) -> bool:
    count, channels, height, width = shape
    return bool(chain.plan_for((count, height, width, channels)).groups)


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
        if kept is None or not _is_image(input) or input.shape in kept.unpaid:
            return self.own.forward(self, input)
        if torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks:
            return self.own.forward(self, input)
        modules, shape = list(_inner(self)), input.shape
        at, asked, paid = 0, False, False
        while at < len(modules):
            found, behind = _members(modules, at, input) if _is_image(input) else ([], at)
            done = None
            if len(found) > 1:
                asked = True
                done = _computed(kept, at, found, input)
            if done is None:
                # A part of the chain does not pay either.
                for module in modules[at : max(behind, at + 1)]:
                    input = module(input)
                at = max(behind, at + 1)
            else:
                input, at, paid = done, behind, True
        if asked and not paid and len(kept.unpaid) < _MOST_SHAPES:
            kept.unpaid.add(shape)
        return input

    def _get_name(self) -> str:
        return "Sequential"


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


def _members(modules: list[torch.nn.Module], at: int, x: torch.Tensor) -> tuple[list[Any], int]:
    """Find the convolutions that can run in one chain from a place on, and the place behind."""
    found: list[Any] = []
    size = x.shape[-2:]
    while at < len(modules):
        layer = modules[at]
        if not (isinstance(layer, Accelerated) and isinstance(layer, torch.nn.Conv2d)):
            break
        if not _is_plain(layer) or layer._refusal(x):
            break
        # Images of one channel or one pixel count as NCHW, and the format decides about bits.
        if found and (layer.in_channels == 1 or size[0] * size[1] == 1):
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
        found.append(layer)
        at += 1 + len(behind)
        size = _size(layer, size)
    return found, at


def _is_image(x: Any) -> bool:
    """Whether it is a batch of images whose channels lie last."""
    tensor = type(x) is torch.Tensor or type(x) is torch.nn.Parameter
    return tensor and x.dim() == 4 and is_last(x)


def _size(layer: Any, size: Any) -> tuple[int, int]:
    """Give the rows and columns of a convolution's result."""
    if layer.padding == "same":
        return tuple(size)
    padding = (0, 0) if layer.padding == "valid" else layer.padding
    each = zip(size, padding, layer.dilation, layer.kernel_size, layer.stride, strict=True)
    high, wide = ((s + 2 * p - d * (k - 1) - 1) // stride + 1 for s, p, d, k, stride in each)
    return high, wide


def _computed(kept: _Kept, at: int, layers: list[Any], x: torch.Tensor) -> torch.Tensor | None:
    """Run a chain; None if it does not pay, or its layers have to say what is wrong."""
    works = [each.__dict__["_pplconv"] for each in layers]
    try:
        made = (w.packed(m, bool(w.fused), True) for w, m in zip(works, layers, strict=True))
        chain = kept.chain(at, tuple(each.layer for each in made))
        if not kept.pays(at, chain, x.shape):
            return None
        y = tensor_of(chain(array_of(x.permute(0, 2, 3, 1))))
    except (RuntimeError, TypeError, ValueError):
        return None
    for work in works:
        work.calls += 1
        work.chained += 1
    return y.permute(0, 3, 1, 2)


def chain_in(module: torch.nn.Module) -> None:
    """Let each sequence in a module run chains, but no derived class."""
    for each in module.modules():
        if type(each) is not torch.nn.Sequential or "forward" in each.__dict__:
            continue
        layers = [
            one for one in _inner(each)
            if isinstance(one, Accelerated) and isinstance(one, torch.nn.Conv2d)
        ]  # fmt: skip
        if len(layers) > 1:
            each.__dict__["_pplconv_chains"] = _Kept()
            each.__class__ = ChainedSequential


def unchain(module: torch.nn.Module) -> None:
    """Undo it for one module."""
    if isinstance(module, ChainedSequential):
        module.__class__ = module.own
        module.__dict__.pop("_pplconv_chains", None)


def forget(module: torch.nn.Module) -> None:
    """Make the chains of one module anew."""
    if isinstance(module, ChainedSequential) and "_pplconv_chains" in module.__dict__:
        module.__dict__["_pplconv_chains"].forget()
