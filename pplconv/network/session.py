"""`InferenceSession`: an ONNX network, from NumPy."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import planner
from .._checks import one_of
from ..arguments import checks
from ..drawing.progress_bar import check_wanted
from .interface import (
    PROVIDER,
    Declared,
    ModelMetadata,
    NodeArg,
    check_providers,
    item_of,
    shaped,
)
from .opened import AnyNetwork, Opened
from .opening import open_model
from .plan_settings import FALLBACKS, Settings
from .programs import MOST_SHAPE_ELEMENTS, Program
from .storage import Item

if TYPE_CHECKING:
    import numpy.typing as npt

    from .._literals import Fallback, Precision, Search, Sparse
    from .comparison import NetworkComparison
    from .profile import NetworkProfile
    from .report import NetworkPlan

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]


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
        self._begin(open_model(model, settings, fallback, progress, self.programs_kept))

    def _begin(self, opened: Opened) -> None:
        """Initialise a session, without programs."""
        self._network, self._overrides = opened.network, opened.overrides
        self._other: InferenceSession | None = None  # of the last comparison
        self._name, self._interface = opened.name, opened.interface
        self._declared = opened.interface.declared
        self._names = {value.name for value in self._declared}
        self._results = [value.name for value in opened.interface.outputs]

    @property
    def shape_inputs(self) -> frozenset[str]:
        """Inputs that decide shapes or branches: each of their values has a program of its own."""
        return self._interface.shape_inputs

    def get_inputs(self) -> list[NodeArg]:
        """List the inputs, in the order of the model."""
        return [value._replace(shape=list(value.shape)) for value in self._interface.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """List the outputs, in the order of the model."""
        return [value._replace(shape=list(value.shape)) for value in self._interface.outputs]

    def get_providers(self) -> list[str]:
        """Name what computes: ``["CPUExecutionProvider"]``, as ONNX Runtime calls it."""
        return [PROVIDER]

    def get_modelmeta(self) -> ModelMetadata:
        """Tell what the model says of itself: its producer, version and texts."""
        return self._interface.metadata

    def get_overridable_initializers(self) -> list[NodeArg]:
        """List the initializers that are inputs, too: a feed may have arrays for them."""
        return [] if self._overrides is None else self._overrides.told()

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
        for name in self._interface.containers.intersection(given):
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

    def _inputs(self, feed: Mapping[str, Any]) -> tuple[AnyNetwork, list[Item]]:
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
    ) -> tuple[AnyNetwork, list[Declared], frozenset[str]]:
        """Give the network for inputs of these names, its inputs, and the names of the others."""
        found = self._overrides and self._overrides.find(given)
        if not found:
            return self._network, self._declared, frozenset()
        return found

    def _shaped(self, inputs: Mapping[str, Any]) -> tuple[AnyNetwork, list[Item]]:
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
        from .report import plan_of

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
        return network.is_ready(items)

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
        team = planner.team_size(self._network.settings.threads)
        found = profiled(program, fired, inputs, self._name, repeats, team)
        return replace(found, advice=self._advice(network, program))

    def _advice(self, network: AnyNetwork, program: Program) -> str:
        return network.advice(program)

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
        from .comparison import NetworkComparison, compared
        from .low_precision import check_demand
        from .model_sessions import in_settings

        mine = self._network.with_model()
        settings = mine.settings
        wanted = settings.in_precision(precision)
        check_demand(mine.model.graph, precision)
        repeats = checks.integer("repeats", repeats, 1)
        network, given = self._inputs(feed)
        first, _, inputs = network.find(given)
        session = self._other
        if session is None or session._network.settings != wanted:
            session = type(self).__new__(type(self))
            session._begin(
                in_settings(self._name, mine, self._overrides, wanted, self.programs_kept)
            )
            # Other threads see it when it is whole.
            self._other = session
        network, given = session._inputs(feed)
        second, _, others = network.find(given)
        batches = {each.shape[0] for each in inputs if isinstance(each, np.ndarray) and each.ndim}
        outputs, ours, theirs = compared(
            lambda: first.compute(inputs), lambda: second.compute(others), repeats, batches
        )
        return NetworkComparison(settings.precision, precision, outputs, ours, theirs, repeats)

    def __repr__(self) -> str:
        inputs = ", ".join(map(_short, self.get_inputs()))
        outputs = ", ".join(map(_short, self.get_outputs()))
        return (
            f"<InferenceSession of {self._interface.nodes} nodes, {inputs} -> {outputs}, "
            f"programs for {len(self._network.programs)} sets of shapes>"
        )

    def __str__(self) -> str:
        found = self._network.programs.all()
        if not found:
            return repr(self)
        _, (program, _) = found[-1]
        line = self._advice(self._network, program)
        return f"{self!r}\n{line}" if line else repr(self)

    def save(
        self, path: str | os.PathLike[str], shapes: Sequence[Mapping[str, Any]] = (),
        *, portable: bool = False,
    ) -> None:  # fmt: skip
        """Keep the compiled network in a file, which `InferenceSession` opens in milliseconds.

        The file has the programs for the given shapes, with their plans and packed weights, which
        processes share while they use it. It is for this version of pplconv and this kind of CPU.

        Parameters
        ----------
        path : str or os.PathLike
            Where to write it, by convention ``*.pplconv``. A file that is there is replaced at
            once.
        shapes : sequence of mapping, optional
            A mapping for each program, as `plan_for` takes it. By default all programs that the
            session has compiled; for a network of fixed shapes, the one there is.
        portable : bool, optional
            Whether the file has the network, too: for other shapes and other CPUs, for which it is
            compiled anew; this needs `onnx`. The file is larger by the weights.

        Raises
        ------
        TypeError, ValueError
            If an argument is not as described, the session has no program yet, or a program cannot
            be kept: because sizes depend on data, or because a node runs in Python, by a function
            that no file can hold.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> session.save("model.pplconv", [{"x": (1, 3, 640, 640)}])  # doctest: +SKIP
        >>> session = pplconv.InferenceSession("model.pplconv")  # doctest: +SKIP
        """
        from .kept.files import save

        keys = []
        for each in self._checked_shapes(shapes):
            network, items = self._shaped(each)
            network.find(items)
            keys.append(network.key(items)[0])
        save(path, self._name, self._network, self._interface, keys or None, portable)

    def _checked_shapes(self, shapes: Any) -> Sequence[Mapping[str, Any]]:
        if isinstance(shapes, (str, Mapping)) or not isinstance(shapes, Sequence):
            raise TypeError(f"shapes must be a list of mappings, got {type(shapes).__name__}")
        for each in shapes:
            if not isinstance(each, Mapping):
                raise TypeError(f"shapes must be mappings of names to shapes, got {each!r}")
        if self._overrides is not None and self._overrides.declared.keys() & {*chain(*shapes)}:
            raise ValueError("shapes: programs with overridden initializers cannot be kept")
        if not shapes and not self._network.programs and not self.shape_inputs:
            fixed = {value.name: value.shape for value in self._declared}
            if all(shape is not None and all(isinstance(n, int) for n in shape)
                   for shape in fixed.values()):  # fmt: skip
                return [fixed]
        return shapes

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickle has the prepared model, or the path of a file of programs.
        return self._reduced(None)

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
        return self._reduced(threads)

    def _reduced(self, threads: int | None) -> tuple[Any, ...]:
        again = self._network.reopening()
        if again is not None:
            return _reopen, (type(self), *again)
        from .model_sessions import reduced

        whole = self._network
        network = whole.with_model() if threads is None else whole.with_programs()
        return _rebuild, (type(self), *reduced(network, self._name, self._overrides, threads))


def _short(value: NodeArg) -> str:
    return f"{value.name}: {value.type.removeprefix('tensor(').removesuffix(')')}{value.shape}"


def _rebuild(kind: type[InferenceSession], *parts: Any) -> InferenceSession:
    """Rebuild a pickled session; its model is in the pickle."""
    from .model_sessions import rebuilt

    session = kind.__new__(kind)
    session._begin(rebuilt(kind.programs_kept, *parts))
    return session


def _reopen(kind: type[InferenceSession], *parts: Any) -> InferenceSession:
    """Open a pickled session's file again; refuse another file in its place."""
    from .kept.files import open_kept

    session = kind.__new__(kind)
    session._begin(open_kept(*parts))
    return session
