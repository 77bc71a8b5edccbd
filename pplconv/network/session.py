"""`InferenceSession`: an ONNX network, from NumPy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

try:
    # Before all that imports `onnx_ir`.
    from . import symbols_later  # noqa: F401
except ImportError as error:  # pragma: no cover - tests have both
    raise ImportError(
        f"InferenceSession needs {error.name}: pip install 'pplconv[onnx]'", name=error.name
    ) from error

import onnx_ir as ir

from .. import planner
from .._checks import one_of
from .._literals import Fallback, Precision, Search, Sparse
from ..arguments import checks
from ..drawing.progress_bar import check_wanted
from ..runtime import paused_collector
from .compiling import Compiled, compile_model
from .interface import (
    PROVIDER,
    Declared,
    ModelMetadata,
    NodeArg,
    check_providers,
    declared,
    item_of,
    metadata_of,
    names_of,
    shaped,
    told,
)
from .loading import load
from .low_precision import advice, check_demand
from .network import Network, Shared
from .overriding import Overrides, overridable
from .plan_settings import Settings
from .preparing import Prepared, prepare
from .programs import MOST_SHAPE_ELEMENTS, Program
from .python_values import Item, is_container
from .refusals import FALLBACKS
from .report import NetworkPlan, plan_of
from .session_pickles import (
    Packs,
    Sent,
    kept_of,
    packs_of,
    plans_that_run_here,
    put_together,
    taken_apart,
)

# What most processes never ask for is imported when it is.
if TYPE_CHECKING:
    from .comparison import NetworkComparison
    from .profile import NetworkProfile

Array = npt.NDArray[Any]


class InferenceSession:
    """An ONNX network, ready to run on NumPy arrays.

    Safe to call from many threads at once; the GIL is released while it computes. Picklable.

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
        The network. Opsets 6 to the newest. A file is mapped: while the session lives it may be
        replaced, but not written to.
    threads : int, optional
        Size of the team; as for `Conv2d`.
    tolerance : float, optional
        Largest error that each convolution may spend on speed; as for `Conv2d`.
    precision : {"auto", "fp32", "fp16", "bf16", "low", "low_bf16"}, optional
        Precision of convolutions and of products by known matrices: that of the arrays, or as for
        `Conv2d`; ``"low_bf16"`` is refused where no node can have it. Operands are rounded to the
        narrower type, and so are arrays between steps where that is cheaper. `compare` tells what
        is gained and lost.
    search : {"estimate", "measure", "exhaustive"}, optional
        How plans are made; as for `Conv2d`, with operands outside the caches.
    max_workspace : int, optional
        Bytes of scratch of the whole team, besides the arena of a run. A tight limit makes the team
        smaller.
    max_memory : int, optional
        Bytes of arena, scratch and outputs that a run may take: inputs of shapes that need more are
        refused. By default there is no limit. Where sizes depend on data, it bounds each compiled
        part by itself, and all arrays that NumPy makes between them.
    sparse : {"auto", False}, optional
        Whether convolutions and products by known matrices may leave out weights that are zero, as
        for `Conv2d`.
    fallback : {"warn", "error", "silent"}, optional
        Whether `onnx.reference` may run ONNX's operators that pplconv does not know, in Python: by
        default a warning names them. True and False stand for "silent" and "error".
    progress : callable or bool, optional
        Called with the share done and a text while plans are searched, for inputs of new shapes. If
        it raises, the plans found so far are kept. Pickles leave it out. By default, searches of
        more than two seconds draw a bar if ``sys.stderr`` is a terminal; False: none.
    providers : sequence of str, optional
        As for ONNX Runtime: ``["CPUExecutionProvider"]``, which is what computes; others are
        refused.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described, or the model is no network that can run.
    FileNotFoundError
        If there is no such file.

    Warns
    -----
    RuntimeWarning
        As `fallback` says.

    Examples
    --------
    >>> session = pplconv.InferenceSession("model.onnx")  # doctest: +SKIP
    >>> (y,) = session.run(None, {"x": x})  # doctest: +SKIP
    """

    programs_kept = 8  # for the most recently used sets of input shapes
    most_shape_elements = MOST_SHAPE_ELEMENTS

    def __init__(
        self,
        model: Any,
        *,
        threads: int | None = None,
        tolerance: float | None = 1e-5,
        precision: Precision = "auto",
        search: Search = "estimate",
        max_workspace: int | None = None,
        max_memory: int | None = None,
        sparse: Sparse = "auto",
        fallback: Fallback | bool = "warn",
        progress: Callable[[float, str], None] | bool | None = None,
        providers: Sequence[Any] | None = None,
    ) -> None:
        check_providers(providers)
        check_wanted(progress)
        if isinstance(fallback, bool):
            fallback = "silent" if fallback else "error"
        one_of("fallback", fallback, FALLBACKS)
        settings = Settings.checked(
            threads, tolerance, precision, search, max_workspace, sparse, max_memory
        )
        with paused_collector:
            loaded = load(model)
            kept = loaded if overridable(loaded) else None
            prepared = prepare(loaded, copy=kept is not None)
            shared = Shared(settings, fallback, progress)
            shared.check(prepared.model.graph)
            check_demand(prepared.model.graph, settings.precision)
            self._begin(prepared, shared, kept)
        if isinstance(model, (str, os.PathLike)):
            self._name = os.path.basename(os.fsdecode(model))

    def _begin(self, prepared: Prepared, shared: Shared, loaded: ir.Model | None) -> None:
        """Initialise a session of a prepared model, without programs.

        Of a model with initializers that may be overridden, it needs the loaded model, too.
        """
        self._network = Network(prepared, shared, self.programs_kept)
        self._other: InferenceSession | None = None  # of the last comparison
        self._overrides = loaded and Overrides(loaded, shared, self.programs_kept)
        graph = prepared.model.graph
        self._name = graph.name or "network"
        self._metadata = metadata_of(prepared.model)
        # Lists of the model are slow to read in each run.
        self._declared = [declared(value) for value in graph.inputs]
        self._names = {value.name for value in self._declared}
        self._results = [value.name or "" for value in graph.outputs]
        self._containers = {value.name for value in graph.outputs if is_container(value)}

    @property
    def shape_inputs(self) -> frozenset[str]:
        """Inputs that decide shapes or branches: each of their values has a program of its own."""
        return self._network.shape_inputs

    def get_inputs(self) -> list[NodeArg]:
        """List the inputs, in the order of the model."""
        return self._told(self._network.model.graph.inputs)

    def get_outputs(self) -> list[NodeArg]:
        """List the outputs, in the order of the model."""
        return self._told(self._network.model.graph.outputs)

    def _told(self, values: Iterable[ir.Value]) -> list[NodeArg]:
        numbered = names_of(self._network.model.graph)
        return [told(value, numbered) for value in values]

    def get_providers(self) -> list[str]:
        """Name what computes: ``["CPUExecutionProvider"]``, as ONNX Runtime calls it."""
        return [PROVIDER]

    def get_modelmeta(self) -> ModelMetadata:
        """Tell what the model says of itself: its producer, version and texts."""
        return self._metadata

    def get_overridable_initializers(self) -> list[NodeArg]:
        """List the initializers that are inputs, too: a feed may have arrays for them."""
        if self._overrides is None:
            return []
        return self._told(overridable(self._overrides.model))

    def run(
        self,
        output_names: Sequence[str] | None,
        feed: Mapping[str, Any],
        *,
        out: Sequence[Array | None] | None = None,
    ) -> list[Any]:
        """Compute the outputs.

        Parameters
        ----------
        output_names : sequence of str or None
            Which outputs, in which order; None: all.
        feed : mapping of str to array_like
            The inputs by name, and other arrays for initializers that may be overridden. A sequence
            is a list of arrays, an optional without an element None, or left out, text an array of
            ``str``.
        out : sequence of ndarray or None, optional
            Arrays for the outputs, in the order of the result: C-contiguous, and without overlap
            with the inputs. None makes a new array.

        Returns
        -------
        list of ndarray
            Or, as above, of lists of them and None.

        Raises
        ------
        TypeError, ValueError
            If an argument does not fit the network.
        RuntimeError
            If inputs of these shapes are new, and the model's file was written to.
        """
        network, inputs = self._inputs(feed)
        names = self._results
        wanted = list(output_names) if output_names is not None else names
        for name in wanted:
            if name not in names:
                raise ValueError(f"output_names: the network has no output {name!r}, only {names}")
        if out is not None and len(out) != len(wanted):
            raise ValueError(f"out: {len(out)} arrays for {len(wanted)} outputs")
        given = dict(zip(wanted, out, strict=True)) if out is not None else {}
        if out is not None and len(given) != len(wanted):
            raise ValueError(f"output_names: each output goes into one array, got {wanted}")
        for name in self._containers.intersection(given):
            if given[name] is not None:
                raise ValueError(f"out: {name!r} is no array, but a sequence or an optional")
        kept = [array for array in given.values() if isinstance(array, np.ndarray)]
        if any(np.may_share_memory(a, b) for i, a in enumerate(kept) for b in kept[:i]):
            raise ValueError("out: two arrays share memory")
        program, _, inputs = network.find(inputs)
        into = {name: array for name, array in given.items() if array is not None}
        outputs = program.compute(inputs, into)
        return [outputs[name] for name in wanted]

    def __call__(self, feed: Mapping[str, Any]) -> list[Any]:
        """Compute all outputs, ``run(None, feed)``: an `InstancePool` calls its model so."""
        return self.run(None, feed)

    def _inputs(self, feed: Mapping[str, Any]) -> tuple[Network, list[Item]]:
        """Check the inputs; give them as contiguous arrays, with the network that takes them."""
        if not isinstance(feed, Mapping):
            raise TypeError(f"feed must map names to arrays, got {type(feed).__name__}")
        network, values, constants = self._network_for(feed)
        if feed.keys() != self._names:
            known = [value.name for value in values]
            for name in feed:
                if name not in known and name not in constants:
                    raise ValueError(f"feed: the network has no input {name!r}, only {known}")
        return network, [item_of(value, feed) for value in values]

    def _network_for(
        self, given: Mapping[str, Any]
    ) -> tuple[Network, list[Declared], frozenset[str]]:
        """Give the network for inputs of these names, its inputs, and the names of the others."""
        found = self._overrides and self._overrides.find(given)
        if not found:
            return self._network, self._declared, frozenset()
        network, constants = found
        return network, [declared(value) for value in network.model.graph.inputs], constants

    def _shaped(self, inputs: Mapping[str, Any]) -> tuple[Network, list[Item]]:
        network, values, constants = self._network_for(inputs)
        inputs = {name: given for name, given in inputs.items() if name not in constants}
        return network, shaped(values, inputs, network.shape_inputs)

    def plan_for(self, inputs: Mapping[str, Any]) -> NetworkPlan:
        """Show how inputs of certain shapes are computed.

        Parameters
        ----------
        inputs : mapping of str to tuple of int or array_like
            A shape, or an array of it, for each input.

        Returns
        -------
        NetworkPlan
            Its ``str`` is a table of the steps.

        Raises
        ------
        TypeError, ValueError
            If inputs of these shapes could not be computed.
        """
        network, items = self._shaped(inputs)
        program, fired, _ = network.find(items)
        return replace(plan_of(program, fired), advice=self._advice(network, program))

    def is_ready_for(self, inputs: Mapping[str, Any]) -> bool:
        """Whether the program for inputs of these shapes is already compiled.

        Of a network with sizes or branches that depend on data: the part in front of them.

        Parameters
        ----------
        inputs : mapping of str to tuple of int or array_like
            As for `plan_for`.

        Raises
        ------
        TypeError, ValueError
            If the network does not take inputs of these shapes.
        """
        network, items = self._shaped(inputs)
        return network.key(items)[0] in network.programs

    def profile(self, feed: Mapping[str, npt.ArrayLike], *, repeats: int = 5) -> NetworkProfile:
        """Time each step by itself, and whole runs.

        Parameters
        ----------
        feed : mapping of str to array_like
            The inputs by name.
        repeats : int, optional
            Runs of either kind; the shortest times count.

        Returns
        -------
        NetworkProfile
            A `NetworkPlan` with seconds. Here each step starts its own team; in `run` it does not.
            Its `html` draws a page, its `show` bars.

        Raises
        ------
        TypeError, ValueError
            If an argument does not fit the network.
        """
        from .profile import profiled

        repeats = checks.integer("repeats", repeats, 1)
        network, inputs = self._inputs(feed)
        program, fired, inputs = network.find(inputs)
        team = planner.team_size(self._network.shared.settings.threads)
        found = profiled(program, fired, inputs, self._name, repeats, team)
        return replace(found, advice=self._advice(network, program))

    def _advice(self, network: Network, program: Program) -> str:
        return advice(network.model.graph, program, network.shared.settings)

    def compare(
        self, feed: Mapping[str, npt.ArrayLike], *, precision: Precision = "low", repeats: int = 5
    ) -> NetworkComparison:
        """Compare outputs and times with those in another precision.

        This session's outputs are the reference: in float32, of a float32 network whose session
        was made without `precision`. A second session of the same model, with the other precision
        and the same settings otherwise, is made at the first call, and kept until a call asks for
        another precision.

        Parameters
        ----------
        feed : mapping of str to array_like
            The inputs by name.
        precision : {"auto", "fp32", "fp16", "bf16", "low", "low_bf16"}, optional
            The other precision.
        repeats : int, optional
            Timed runs of each session, in turn; the medians count.

        Returns
        -------
        NetworkComparison
            Signal to noise and largest difference of each output, and both times; its ``str`` is a
            table.

        Raises
        ------
        TypeError, ValueError
            If an argument does not fit the network, or it cannot be had in this precision.

        Examples
        --------
        >>> print(session.compare({"x": x}))  # doctest: +SKIP
        """
        settings = self._network.shared.settings
        from .comparison import NetworkComparison, compared

        wanted = settings.in_precision(precision)
        check_demand(self._network.model.graph, precision)
        repeats = checks.integer("repeats", repeats, 1)
        network, given = self._inputs(feed)
        first, _, inputs = network.find(given)
        session = self._other
        if session is None or session._network.shared.settings != wanted:
            self._other = session = self._with(wanted)
        network, given = session._inputs(feed)
        second, _, others = network.find(given)
        batches = {each.shape[0] for each in inputs if isinstance(each, np.ndarray) and each.ndim}
        outputs, ours, theirs = compared(
            lambda: first.compute(inputs), lambda: second.compute(others), repeats, batches
        )
        return NetworkComparison(settings.precision, precision, outputs, ours, theirs, repeats)

    def _with(self, settings: Settings) -> InferenceSession:
        """Make a session of the same model with other settings."""
        network, shared = self._network, self._network.shared
        # The sessions share the weights that are packed now, and pack others apart. One program of
        # the model is made at a time.
        with shared.making:
            packed = dict(shared.packed)
        other = type(self).__new__(type(self))
        other._begin(
            Prepared(network.model, network.fired),
            Shared(
                settings, shared.fallback, shared.progress, packed, shared.making, shared.warned
            ),
            self._overrides and self._overrides.model,
        )
        other._name = self._name
        return other

    def __repr__(self) -> str:
        inputs = ", ".join(map(_short, self.get_inputs()))
        outputs = ", ".join(map(_short, self.get_outputs()))
        nodes = sum(1 for _ in self._network.model.graph)
        return (
            f"<InferenceSession of {nodes} nodes, {inputs} -> {outputs}, "
            f"programs for {len(self._network.programs)} sets of shapes>"
        )

    def __str__(self) -> str:
        found = self._network.programs.all()
        if not found:
            return repr(self)
        _, (program, _) = found[-1]
        line = self._advice(self._network, program)
        return f"{self!r}\n{line}" if line else repr(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickle has the prepared model; programs are compiled again.
        return self._reduced([], {}, [], None)

    def _reduced(self, *kept: Any) -> tuple[Any, ...]:
        network, shared = self._network, self._network.shared
        model = taken_apart(network.model)
        loaded = self._overrides and taken_apart(self._overrides.model)
        return _rebuild, (
            type(self), shared.settings, shared.fallback, model, network.fired, *kept, loaded
        )  # fmt: skip

    def __reduce_prepared__(self, threads: int) -> tuple[Any, ...]:
        """Reduce for a process of this machine and version that shares memory with this one.

        Unlike an ordinary pickle it carries the rewritten models, the plans and the packed weights
        of all programs that are kept now, its arrays as buffers that protocol 5 can leave out of
        band; the rebuilt session uses them in place. Programs that are cut, because sizes or
        branches depend on data, are made again at first use.

        Parameters
        ----------
        threads : int
            Team of the other process, unless the constructor was given one.

        Returns
        -------
        tuple
            As from `object.__reduce__`.
        """
        network, packed = self._network, self._network.shared.packed
        settings = network.shared.settings
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
        return self._reduced(programs, planned, packs, settings)


def _short(value: NodeArg) -> str:
    return f"{value.name}: {value.type.removeprefix('tensor(').removesuffix(')')}{value.shape}"


def _rebuild(
    kind: type[InferenceSession],
    settings: Settings,
    fallback: Fallback,
    model: Sent,
    fired: dict[str, list[str]],
    programs: list[tuple[Any, Sent, dict[str, list[str]]]],
    planned: dict[Any, Any],
    packs: list[Packs],
    made_with: Settings | None = None,
    loaded: Sent | None = None,
) -> InferenceSession:
    """Rebuild a session on read-only arrays; its plans are found by the settings that made them."""
    session = kind.__new__(kind)
    shared = Shared(settings, fallback, packed=kept_of(packs))
    session._begin(Prepared(put_together(model), fired), shared, loaded and put_together(loaded))
    network, planned = session._network, plans_that_run_here(planned)
    for key, sent, rules in programs:
        compiled = compile_model(put_together(sent), made_with or settings, shared.packed, planned)
        network.programs.add((*key, network.team()), (compiled, rules))
    network.forget()
    return session
