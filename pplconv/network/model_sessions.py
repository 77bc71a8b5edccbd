"""Sessions of ONNX models: reading, preparing, other settings, and pickles.

A session that opens a file of programs needs none of this, and neither `onnx` nor `onnx_ir`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import onnx_ir as ir

from .._literals import Fallback
from ..drawing.progress_bar import Wanted
from ..runtime import paused_collector
from .compiled import Compiled
from .compiling import compile_model
from .declarations import interface_of
from .loading import OUTSIDE, load
from .network import Network, Shared
from .opened import Opened
from .overriding import Overrides, overridable
from .plan_settings import Settings
from .preparing import Prepared, prepare
from .session_pickles import (
    Packs,
    Sent,
    kept_of,
    packs_of,
    plans_that_run_here,
    put_together,
    taken_apart,
)

__all__ = ["in_settings", "opened", "rebuilt", "reduced"]


def opened(
    model: Any, settings: Settings, fallback: Fallback, progress: Wanted, kept: int
) -> Opened:
    """Read and prepare a model; the arguments are those of `open_model`."""
    with paused_collector:
        loaded = load(model)
        original = loaded if overridable(loaded) else None
        prepared = prepare(loaded, copy=original is not None)
        shared = Shared(settings, fallback, progress)
        shared.check(prepared.model.graph)
        if settings.precision == "low_bf16":
            from .low_precision import check_demand

            check_demand(prepared.model.graph, settings.precision)
        name = prepared.model.graph.name or "network"
        if isinstance(model, (str, os.PathLike)):
            name = os.path.basename(os.fsdecode(model))
        return _opened(name, prepared, shared, original, kept, OUTSIDE not in loaded.meta)


def _opened(
    name: str, prepared: Prepared, shared: Shared, loaded: ir.Model | None, kept: int,
    whole: bool = False,
) -> Opened:  # fmt: skip
    overrides = None if loaded is None else Overrides(loaded, shared, kept)
    network = Network(prepared, shared, kept)
    whole = whole and overrides is None
    return Opened(name, network, interface_of(prepared.model), overrides, whole)


def in_settings(
    name: str, network: Network, overrides: Any, settings: Settings, kept: int
) -> Opened:
    """Open the same model with other settings."""
    shared = network.shared
    # The sessions share the weights that are packed now, and pack others apart. One program of
    # the model is made at a time.
    with shared.making:
        packed = dict(shared.packed)
    other = Shared(settings, shared.fallback, shared.progress, packed, shared.making, shared.warned)
    loaded = None if overrides is None else overrides.model
    return _opened(name, Prepared(network.model, network.fired), other, loaded, kept)


def reduced(network: Network, name: str, overrides: Any, threads: int | None) -> tuple[Any, ...]:
    """Give the arguments of `rebuilt` for a session, with its programs for a team of `threads`."""
    shared = network.shared
    kept: tuple[Any, ...] = ([], {}, [], None)
    if threads is not None:
        kept = _prepared(network, threads)
    model = taken_apart(network.model)
    loaded = None if overrides is None else taken_apart(overrides.model)
    return shared.settings, shared.fallback, model, network.fired, *kept, loaded, name


def _prepared(network: Network, threads: int) -> tuple[Any, ...]:
    """Give the programs, plans and packed weights for another process, and their settings."""
    packed, settings = network.shared.packed, network.shared.settings
    settings = replace(settings, threads=settings.threads or threads)
    planned: dict[Any, Any] = {}
    with network.programs.making:
        # Programs of other teams differ only in their plans, which are made for this team.
        kept = {
            key[:2]: (program, fired)
            for key, (program, fired) in network.programs.all()
            if isinstance(program, Compiled)  # all others are made at first use
        }
        used: set[Any] = set()
        for compiled, _ in kept.values():
            again = compile_model(compiled.model, settings, packed, planned)
            used |= again.packed
        packs = packs_of({key: packed[key] for key in used})
        programs = [(key, taken_apart(c.model), fired) for key, (c, fired) in kept.items()]
        network.forget()
    return programs, planned, packs, settings


def rebuilt(
    kept: int,
    settings: Settings,
    fallback: Fallback,
    model: Sent,
    fired: dict[str, list[str]],
    programs: list[tuple[Any, Sent, dict[str, list[str]]]],
    planned: dict[Any, Any],
    packs: list[Packs],
    made_with: Settings | None = None,
    loaded: Sent | None = None,
    name: str | None = None,
) -> Opened:
    """Open a pickled session on read-only arrays; its plans are found by their settings."""
    shared, prepared = Shared(settings, fallback, packed=kept_of(packs)), put_together(model)
    found = _opened(
        name or prepared.graph.name or "network", Prepared(prepared, fired), shared,
        None if loaded is None else put_together(loaded), kept,
    )  # fmt: skip
    network, planned = found.network, plans_that_run_here(planned)
    assert isinstance(network, Network)
    for key, sent, rules in programs:
        compiled = compile_model(put_together(sent), made_with or settings, shared.packed, planned)
        network.programs.add((*key, network.team()), (compiled, rules))
    network.forget()
    return found
