"""Modules of PyTorch whose convolutions and linear layers pplconv computes, for inference on CPUs.

::

    from pplconv.integrations.torch import accelerate, report, restore

    model.eval()
    accelerate(model, fuse=True)
    with torch.inference_mode():
        y = model(x)
    print(report(model))
    restore(model)

The module keeps its parameters, its hooks, the keys of its ``state_dict`` and its answer to
``isinstance``. Only the class of each replaced layer changes, to a subclass of its own class.
Tensors share their memory with what pplconv reads and writes. A call that pplconv cannot serve,
such as one that records gradients, is computed by PyTorch, as before.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, SupportsFloat, SupportsIndex

from pplconv.integrations import told

with told("torch", "torch"):
    import torch

from pplconv.integrations.torch.layers import Accelerated, Settings, Work, replaced, restored
from pplconv.integrations.torch.module_fusing import fuse_into, unfuse
from pplconv.integrations.torch.module_refusals import IN_TRAINING, is_layer, refusal
from pplconv.integrations.torch.sequential_chains import chain_in, forget, unchain

__all__ = ["LayerReport", "Report", "accelerate", "refresh", "report", "restore"]


@dataclass(frozen=True)
class LayerReport:
    """State of one layer.

    Attributes
    ----------
    name : str
        Name of the layer in the module; empty if it is the module itself.
    kind : str
        Its class.
    reason : str
        Why PyTorch computes it; empty if pplconv does.
    fused : tuple of str
        Classes of the layers behind it that are computed with it.
    calls : int
        How often pplconv has computed it.
    chained : int
        How many of these calls ran in a chain with other layers of a `Sequential`.
    fallbacks : dict of str to int
        Why PyTorch computed calls of a replaced layer, and how often.
    """

    name: str
    kind: str
    reason: str = ""
    fused: tuple[str, ...] = ()
    calls: int = 0
    fallbacks: dict[str, int] | None = None
    chained: int = 0

    @property
    def replaced(self) -> bool:
        """Whether pplconv has it."""
        return not self.reason


class Report(Sequence[LayerReport]):
    """All layers of a module that could be replaced, in order; its text is a table."""

    def __init__(self, layers: Sequence[LayerReport]) -> None:
        self._layers = tuple(layers)

    def __len__(self) -> int:
        return len(self._layers)

    def __getitem__(self, index: Any) -> Any:
        return self._layers[index]

    def __repr__(self) -> str:
        return f"<Report: {sum(each.replaced for each in self)} of {len(self)} layers replaced>"

    def __str__(self) -> str:
        lines = [f"{sum(each.replaced for each in self)} of {len(self)} layers replaced"]
        width = max((len(each.name) for each in self), default=0)
        for each in self:
            text = f"  {each.name:<{width}}  {each.kind}"
            if each.fused:
                text += f" + {' + '.join(each.fused)}"
            if not each.replaced:
                text += f": not replaced, {each.reason}"
            elif each.calls or each.fallbacks:
                text += f": {each.calls} calls"
                text += f", {each.chained} in chains" if each.chained else ""
            for why, count in (each.fallbacks or {}).items():
                text += f"; {count} by PyTorch, {why}"
            lines.append(text)
        return "\n".join(lines)


def accelerate(
    module: torch.nn.Module,
    *,
    fuse: bool = False,
    threads: SupportsIndex | None = None,
    tolerance: SupportsFloat | None = None,
    precision: str | None = None,
    search: str = "estimate",
) -> torch.nn.Module:
    """Let pplconv compute the `Conv2d`, `ConvTranspose2d` and `Linear` layers of a module.

    It changes `module` in place, as ``module.eval()`` does, and returns it. Call it on a copy
    (`copy.deepcopy`) to keep the original.

    Parameters
    ----------
    module : torch.nn.Module
        In evaluation mode, on the CPU. Layers that cannot be replaced stay what they are; `report`
        says why.
    fuse : bool, optional
        Whether a `BatchNorm2d` behind a convolution, and an activation behind that or behind a
        layer, are computed with it. torch.fx finds these sequences. A fused convolution that is
        called by itself returns the result of the whole group, so do not fuse if inner layers are
        called, or their outputs read, one by one. Hooks on a layer keep it from being fused.
    threads : int, optional
        Size of the team of each layer, as in `pplconv.Conv2d`.
    tolerance, precision, search : optional
        As in `pplconv.Conv2d`; `tolerance` has no effect on linear layers.

    Returns
    -------
    torch.nn.Module
        `module` itself.

    Raises
    ------
    TypeError
        If `module` is no module, or an argument is not as described.
    ValueError
        Likewise.

    Warns
    -----
    RuntimeWarning
        If layers are in training mode; and at the first call that records gradients.

    See Also
    --------
    restore : undoes it.
    report : which layers were replaced, and why others were not.
    refresh : after weights were changed behind PyTorch's back.

    Notes
    -----
    Weights are packed at the first call, and again when a parameter was replaced or written to, as
    its version says: ``load_state_dict`` and ``copy_`` are noticed. Writes through
    ``parameter.data`` or through NumPy are not: call `refresh` then. pplconv keeps a copy of the
    weights, and one in each packing that it uses, beside PyTorch's own.

    PyTorch computes calls that record gradients (use ``torch.inference_mode()`` or
    ``torch.no_grad()``), run under autocast, are traced, exported or compiled by ``torch.compile``,
    transformed by ``torch.func``, or have tensors of another type or device. Tensors in the memory
    format ``channels_last`` are read in place as NHWC, and results have that format too.

    Convolutions that follow one another in a `torch.nn.Sequential`, with what is fused into them,
    run as one `pplconv.Chain` if images are ``channels_last`` and bands of rows are estimated to
    pay: same bits, with fewer ways to memory. A module with hooks divides the chain.

    Calling it again takes the new settings.
    """
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, got {type(module).__name__}")
    settings = Settings.checked(threads, tolerance, precision, search)
    restore(module)
    training = 0
    for _, layer in _layers(module):
        reason = refusal(layer)
        if not reason:
            replaced(layer, settings)
        training += reason == IN_TRAINING
    if training:
        layers = "layer is" if training == 1 else "layers are"
        warnings.warn(
            f"accelerate: {training} {layers} in training mode, and PyTorch computes them: call "
            "eval() first",
            RuntimeWarning, stacklevel=2,
        )  # fmt: skip
    if fuse:
        fuse_into(module)
    chain_in(module)
    return module


def restore(module: torch.nn.Module) -> torch.nn.Module:
    """Give the layers of a module back to PyTorch.

    Parameters
    ----------
    module : torch.nn.Module
        Changed in place. One that was never accelerated stays as it is.

    Returns
    -------
    torch.nn.Module
        `module` itself, as it was before `accelerate`.
    """
    for layer in module.modules():
        restored(layer)
        unfuse(layer)
        unchain(layer)
    return module


def refresh(module: torch.nn.Module) -> torch.nn.Module:
    """Pack all weights anew at the next call.

    Parameters
    ----------
    module : torch.nn.Module
        Module whose parameters were changed unnoticed by PyTorch, for example through
        ``parameter.data``.

    Returns
    -------
    torch.nn.Module
        `module` itself.
    """
    for layer in module.modules():
        if isinstance(layer, Accelerated):
            layer.__dict__["_pplconv"].forget()
        forget(layer)
    return module


def report(module: torch.nn.Module) -> Report:
    """Say which layers pplconv computes, why PyTorch computes others, and who computed their calls.

    Parameters
    ----------
    module : torch.nn.Module
        Accelerated or not.

    Returns
    -------
    Report
        One `LayerReport` for each convolution and linear layer; `str` makes a table of it.
    """
    found = []
    for name, layer in _layers(module):
        work: Work | None = layer.__dict__.get("_pplconv")
        if work is None:
            reason = refusal(layer) or "accelerate was not called"
            found.append(LayerReport(name, type(layer).__name__, reason))
        else:
            fused = tuple(_kind(each) for each in work.fused)
            kind = _kind(layer)
            fallbacks = dict(work.fallbacks)
            found.append(LayerReport(name, kind, "", fused, work.calls, fallbacks, work.chained))
    return Report(found)


def _layers(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    return ((name, each) for name, each in module.named_modules() if is_layer(each))


def _kind(layer: torch.nn.Module) -> str:
    """The name of the class that a layer had before `accelerate`."""
    own: type[torch.nn.Module] = getattr(layer, "own", type(layer))
    return own.__name__
