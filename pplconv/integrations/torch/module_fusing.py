"""Modules that follow a layer, found by torch.fx, and computed with it.

The layer marks its result with the modules that it has already computed. Each of these modules,
when it receives that very tensor, removes its mark and passes the tensor on. It computes a tensor
without a mark as usual, so results are right even if the layer itself was left to PyTorch.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from types import new_class
from typing import Any

import torch
import torch.fx

from pplconv.activations import CURVES, KINDS
from pplconv.integrations.torch.layers import Accelerated, Work

__all__ = ["fuse_into", "unfuse"]


class _Passed(torch.nn.Module):
    """A module that a layer before it may have computed already."""

    own: type[torch.nn.Module]

    def forward(self, input: Any) -> Any:
        """Pass a computed result on, or compute it."""
        if torch.compiler.is_compiling() or torch.jit.is_tracing():
            return self.own.forward(self, input)
        done = getattr(input, "_pplconv_done", None)
        if done and done[0] is self:
            del done[0]
            return input
        return self.own.forward(self, input)

    def _get_name(self) -> str:
        return self.own.__name__


def _passed(own: type[torch.nn.Module]) -> type[_Passed]:
    name = f"Passed{own.__name__}"
    body = {"own": own, "__module__": __name__, "__doc__": own.__doc__}
    # Unlike type(), this also accepts the stand-ins for PyTorch's classes in documentation builds.
    made = new_class(name, (_Passed, own), exec_body=lambda space: space.update(body))
    globals()[name] = made  # where pickles find it
    return made


def _curve(name: str, each: torch.nn.Module) -> str | None:
    """The activation of a module; None if it was made with other numbers than the table's."""
    wanted = KINDS[name].torch_attributes
    return name if all(getattr(each, key) == value for key, value in wanted.items()) else None


_ACTIVATIONS: dict[type[torch.nn.Module], Any] = {
    torch.nn.ReLU: lambda _: "relu",
    torch.nn.ReLU6: lambda _: "relu6",
    torch.nn.Hardtanh: lambda each: ("clip", each.min_val, each.max_val),
    torch.nn.LeakyReLU: lambda each: ("leaky_relu", each.negative_slope),
    **{getattr(torch.nn, KINDS[name].torch): partial(_curve, name) for name in CURVES},
}
_PASSED = {own: _passed(own) for own in (torch.nn.BatchNorm2d, *_ACTIVATIONS)}


class _Tracer(torch.fx.Tracer):
    def is_leaf_module(self, module: torch.nn.Module, name: str) -> bool:
        return isinstance(module, (Accelerated, _Passed)) or super().is_leaf_module(module, name)


def fuse_into(module: torch.nn.Module) -> None:
    """Fuse each replaced layer of a module with modules that only it feeds.

    If torch.fx cannot trace a module, its submodules are searched.
    """
    if isinstance(module, (Accelerated, _Passed)):
        return
    try:
        graph = _Tracer().trace(module)
    except Exception:  # the module's own code may raise anything when it meets no numbers
        for child in module.children():
            fuse_into(child)
        return
    modules = dict(module.named_modules(remove_duplicate=False))
    called = {node: modules[node.target] for node in graph.nodes if node.op == "call_module"}
    uses = Counter(id(each) for each in called.values())
    for node, layer in called.items():
        if isinstance(layer, Accelerated) and uses[id(layer)] == 1:
            _fuse(layer, node, called)


def _fuse(layer: Accelerated, node: Any, called: dict[Any, torch.nn.Module]) -> None:
    work: Work = layer.__dict__["_pplconv"]
    node, found = _next(node, called)
    if found is not None and _folds(found, layer):
        work.norm = found
        _pass(found)
        node, found = _next(node, called)
    own = getattr(found, "own", type(found))
    activation = _ACTIVATIONS[own](found) if found is not None and own in _ACTIVATIONS else None
    if activation is not None:
        work.after, work.activation = found, activation
        _pass(found)


def _next(node: Any, called: dict[Any, torch.nn.Module]) -> tuple[Any, torch.nn.Module | None]:
    """Find the module that gets a result, if nothing else does."""
    if len(node.users) != 1:
        return node, None
    (user,) = node.users
    if user.args != (node,) or user.kwargs:
        return node, None
    return user, called.get(user)


def _folds(norm: torch.nn.Module, layer: Accelerated) -> bool:
    """Whether a module is a normalization that the weights of a layer can take."""
    if getattr(norm, "own", type(norm)) is not torch.nn.BatchNorm2d or norm.running_mean is None:
        return False
    if isinstance(layer, torch.nn.Linear) or norm.num_features != layer.out_channels:
        return False
    if isinstance(layer, torch.nn.ConvTranspose2d) and layer.groups != 1:
        return False
    # In lower precision, folding would round the weights once more and change them.
    exact = layer.weight.dtype in (torch.float32, torch.float64)
    same = norm.running_mean.dtype == layer.weight.dtype and norm.running_mean.is_cpu
    return exact and same and not norm.training


def _pass(module: torch.nn.Module) -> None:
    if not isinstance(module, _Passed):
        module.__class__ = _PASSED[type(module)]


def unfuse(module: torch.nn.Module) -> None:
    """Undo it for one module; others stay as they are."""
    if isinstance(module, _Passed):
        module.__class__ = module.own
