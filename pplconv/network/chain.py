"""`Chain`: prepared layers one after another, band by band, in one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, SupportsIndex, TypeVar

import numpy as np
import numpy.typing as npt

from .. import planner
from .._records import NamedTuple
from ..arguments import checks, input_shapes
from ..arguments.argument_names import named
from ..memory.array_like import array_of, renewed
from ..memory.arrays import check_out, empty_aligned
from ..memory.namespaces import as_given
from ..problem import dimensions
from ..runtime import ForkableLock
from ..runtime.scope import scoped_team, scoped_tolerance
from .batches import batched_names, images_at_once
from .builder import NoSuchPlan
from .compiled import Compiled
from .compiling import compile_layers
from .layer_nodes import (
    Described,
    Layer,
    described,
    graph_of_layers,
    narrow_images,
    output_shape,
    own_of,
)
from .plan_settings import Settings
from .programs import Programs, drop_unused
from .report import NetworkPlan, StepPlan
from .report import plan_of as report_of
from .storage import Shape

__all__ = ["Chain"]

Array = npt.NDArray[Any]
_ArrayLike = TypeVar("_ArrayLike")

# Shapes of inputs whose programs a chain keeps.
_MOST_SHAPES = 16


class _Prepared(NamedTuple):
    """Shapes of input and outputs, and the programs of all parts."""

    shapes: tuple[Shape, ...]
    programs: tuple[Compiled | None, ...]


class Chain:
    """Prepared layers one after another, as one layer.

    In one call one team runs all layers, and where that is estimated to pay, band by band: some
    rows of the first layer, the rows of the next layer that follow from them, and so on. What lies
    between the layers stays in the cache of a core, and takes the memory of a few rows.

    Results have the bits of the layers called one after another. Safe to call from many threads at
    once; the GIL is released while it computes. Picklable.

    Parameters
    ----------
    layers : sequence of Conv2d, QConv2d, ConvTranspose2d or Chain
        In the order that they run in, all of one layout; a chain stands for its layers. Each
        layer takes the channels and the type that the one before gives.
    threads : int, optional
        Size of the team. None: that of the layers if all have the same; see `Conv2d`.
    max_workspace : int, optional
        Bytes of scratch and of values between layers that a program of several layers may use,
        the whole team's together, without packed weights. None: as much as it takes.
    input_shape : tuple of int, optional
        Prepare for inputs of this shape now rather than at the first call.

    Attributes
    ----------
    layers : tuple
        The layers, those of chains among them.
    layout : str
        Of input and output.
    in_channels, out_channels : int
        Of the first and of the last layer.
    dtype, out_dtype : numpy.dtype
        Types of input and output.
    threads, max_workspace
        The parameters after the checks.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it.

    See Also
    --------
    InferenceSession : networks with branches, from ONNX files.

    Notes
    -----
    Bands are rows of images whose rows lie together: in layout NHWC. In NCHW a chain saves the
    starts of its calls, and the memory of values that do not live at the same time.

    A layer runs by itself, and ends the bands before it, if it is a `ConvTranspose2d` or a
    `QConv2d` in NCHW, if it has a `padding_mode`, layout NCHWc, ``sparse=True``, a `block` or
    weights that are not finite, or if its `precision` or `sparse` is not that of the layer before.
    Then its own `threads` and `max_workspace` count.

    Images of a batch run one after another where bands pay. The plans of the layers are made for
    the whole batch, as in their own calls.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> ones = np.ones((8, 1, 3, 3), np.float32), np.ones((16, 8, 1, 1), np.float32)
    >>> depthwise = pplconv.Conv2d(ones[0], padding=1, groups=8, layout="NHWC")
    >>> pointwise = pplconv.Conv2d(ones[1], activation="relu", layout="NHWC")
    >>> chain = pplconv.Chain([depthwise, pointwise])
    >>> chain(np.ones((1, 32, 32, 8), np.float32)).shape
    (1, 32, 32, 16)
    """

    def __init__(
        self,
        layers: Iterable[Layer | Chain],
        *,
        threads: SupportsIndex | None = None,
        max_workspace: SupportsIndex | None = None,
        input_shape: Sequence[SupportsIndex] | None = None,
    ) -> None:
        self._described = _checked(layers)
        self.layers: tuple[Layer, ...] = tuple(each.layer for each in self._described)
        self.threads = checks.check_threads(threads)
        self.max_workspace = checks.check_max_workspace(max_workspace)
        first, last = self.layers[0], self.layers[-1]
        self.layout: str = first.layout
        self.in_channels: int = first.in_channels
        self.out_channels: int = last.out_channels
        self.dtype, self.out_dtype = self._described[0].takes, self._described[-1].gives
        self._make()
        if input_shape is not None:
            self.plan_for(input_shape)

    def _make(self) -> None:
        """Make all that pickles lack."""
        self._parts = _parts(self._described)
        teams = {layer.threads for layer in self.layers}
        self._team = self.threads
        if self._team is None and len(teams) == 1:
            (self._team,) = teams
        self._packed: dict[Any, Any] = {}
        self._programs: Programs[_Prepared] = Programs(_MOST_SHAPES, ForkableLock())

    def __call__(self, input: _ArrayLike, out: Array | None = None) -> Any:
        """Run the layers.

        Parameters
        ----------
        input : array_like, shape (N, C, H, W) or (C, H, W)
            Of type `dtype`; (N, H, W, C) or (H, W, C) for ``layout="NHWC"``.
        out : ndarray, optional
            Written and returned; C-contiguous, native, and apart from the input.

        Returns
        -------
        ndarray
            The last layer's output, of type `out_dtype`. Of the library of `input`, as in `conv2d`.

        Raises
        ------
        TypeError, ValueError
            If an argument does not fit; `out` is untouched then.
        MemoryError
            If memory for the output or the scratch cannot be had.
        """
        x = renewed(input, array_of(input, "input", self.dtype))
        if x.dtype.newbyteorder("=") != self.dtype:
            raise TypeError(f"input must be {self.dtype} like the layers, got {x.dtype}")
        usual = dimensions(self.layout)
        if x.ndim not in (usual - 1, usual):
            raise ValueError(
                f"input must have {usual - 1} or {usual} dimensions with layout {self.layout}, "
                f"got shape {x.shape}"
            )
        batched = x.ndim == usual
        shape = x.shape if batched else (1, *x.shape)
        prepared = self._prepared(shape)
        whole = prepared.shapes[-1]
        result = whole if batched else whole[1:]
        if out is not None:
            check_out(out, result, self.out_dtype, input=x)
        # `np.require` takes as long as a small layer.
        if not (x.flags.c_contiguous and x.flags.aligned and x.dtype.isnative):
            x = np.require(x, self.dtype, ("C", "A"))
        if not batched:
            x = x.reshape(shape)
        given = out
        out = empty_aligned(result, self.out_dtype) if out is None else out
        self._run(x, out.reshape(whole), prepared)
        return as_given(input, out, given)

    def plan_for(self, input_shape: Sequence[SupportsIndex]) -> NetworkPlan:
        """Show how inputs of one shape are computed.

        Parameters
        ----------
        input_shape : tuple of int
            (N, C, H, W) or (C, H, W); (N, H, W, C) or (H, W, C) for ``layout="NHWC"``.

        Returns
        -------
        NetworkPlan
            Its steps: those of groups of layers are a first band, a repeat of bands, and a last
            band. `arena_bytes` are those of values between layers; parts that run one after another
            share neither these nor scratch.

        Raises
        ------
        TypeError, ValueError
            If an input of this shape could not be computed.
        """
        shape = input_shapes.full_shape(input_shape, self.layout, self.in_channels)
        with named(input="input_shape"):
            prepared = self._prepared(shape)
        found = NetworkPlan((("input", shape),), ())
        for part, own in zip(self._parts, prepared.programs, strict=True):
            report = NetworkPlan((), _steps_alone(part)) if own is None else report_of(own, {})
            found = found.then(report)
        return replace(found, buffers=report.buffers) if len(self._parts) == 1 else found

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    def __getitem__(self, index: SupportsIndex) -> Layer:
        return self.layers[index]

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for made in ("_described", "_parts", "_packed", "_programs"):
            del state[made]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._described = _checked(self.layers)
        self._make()

    def __repr__(self) -> str:
        layers = "".join(f"\n  ({number}): {layer!r}" for number, layer in enumerate(self.layers))
        return (
            f"{type(self).__name__}({layers}\n  threads={self.threads}, "
            f"max_workspace={self.max_workspace}\n)"
        )

    def _prepared(self, shape: Shape) -> _Prepared:
        """Find or make the programs for inputs of a shape."""
        # Plans of the layers depend on the scope, whatever the team of the chain.
        key = shape, scoped_team(), scoped_tolerance()
        found = self._programs.find(key)
        if found is None:
            # Wrong shapes are refused before anybody waits.
            shapes = self._shapes(shape)
            with self._programs.making:
                found = self._programs.find(key)
                if found is None:
                    found = _Prepared(shapes, tuple(self._compiled(shapes)))
                    self._programs.add(key, found)
                    kept = (each for _, one in self._programs.all() for each in one.programs)
                    drop_unused(self._packed, (each for each in kept if each is not None))
        return found

    def _shapes(self, shape: Shape) -> tuple[Shape, ...]:
        """Give the shapes of the input and of all outputs."""
        shapes = [shape]
        for number, each in enumerate(self._described):
            source = f"the input of {each.name}" if number else "input"
            shapes.append(output_shape(each, shapes[-1], source))
        return tuple(shapes)

    def _compiled(self, shapes: Sequence[Shape]) -> Iterator[Compiled | None]:
        """Make the program of each part; None of those whose layers run by themselves."""
        done = 0
        for part in self._parts:
            shape = shapes[done]
            if len(part) == 1 or 0 in shape:
                yield None
            else:
                yield _compiled(part, shape, self._settings(part), self._packed)
            done += len(part)

    def _settings(self, part: Sequence[Described]) -> Settings:
        """Give the settings of a program; plans of the layers decide all else."""
        usual, shared = planner.default_tolerance(), part[0].shared
        assert shared is not None, "layers that run alone have no program"
        tolerances = (getattr(each.layer, "tolerance", None) for each in part)
        return Settings(
            self._team, max(usual if found is None else found for found in tolerances),
            shared.precision, max_workspace=self.max_workspace, sparse=shared.sparse,
        )  # fmt: skip

    def _run(self, x: Array, out: Array, prepared: _Prepared) -> None:
        """Run on contiguous arrays with a batch."""
        shapes, done = prepared.shapes, 0
        for part, program in zip(self._parts, prepared.programs, strict=True):
            whole = done + len(part) == len(self._described)
            if program is not None:
                y = out if whole else empty_aligned(shapes[done + len(part)], part[-1].gives)
                program.run([x, y])
                x = y
            else:
                for at, each in enumerate(part, done + 1):
                    x = each.layer(x, out=out if at == len(self._described) else None)
            done += len(part)


def _checked(layers: object) -> tuple[Described, ...]:
    """Check the layers, and take chains apart.

    Raises
    ------
    TypeError, ValueError
        If layers do not fit together.
    """
    if not isinstance(layers, Iterable):
        raise TypeError(f"layers must be a sequence of layers, got {type(layers).__name__}")
    found: list[Described] = []
    for number, layer in enumerate(layers):
        for inner in layer.layers if isinstance(layer, Chain) else (layer,):
            found.append(described(inner, f"layers[{number}]"))
    if not found:
        raise ValueError("layers must have one layer or more, got none")
    for before, after in pairwise(found):
        first, second = before.layer, after.layer
        if first.layout != second.layout:
            raise ValueError(
                f"{after.name} must have layout {first.layout} like {before.name}, "
                f"got {second.layout}"
            )
        if first.out_channels != second.in_channels:
            raise ValueError(
                f"{after.name} must take the {first.out_channels} channels that {before.name} "
                f"gives, it takes {second.in_channels}"
            )
        if before.gives != after.takes:
            raise TypeError(
                f"{after.name} must take {before.gives}, which {before.name} gives, it takes "
                f"{after.takes}"
            )
    # Each value has a name.
    return tuple(replace(each, result=f"layer {number}") for number, each in enumerate(found))


def _parts(layers: Sequence[Described]) -> list[Sequence[Described]]:
    """Divide layers into runs with the settings of one program, and layers by themselves."""
    parts: list[list[Described]] = []
    for each in layers:
        if parts and each.shared is not None and parts[-1][-1].shared == each.shared:
            parts[-1].append(each)
        else:
            parts.append([each])
    return list(parts)


def _compiled(
    part: Sequence[Described], shape: Shape, settings: Settings, packed: dict[Any, Any]
) -> Compiled | None:
    """Make the program of several layers; None if it would change their bits.

    Raises
    ------
    ValueError
        If it would take too much memory.
    """
    graph, layout = graph_of_layers(part, shape), part[0].layer.layout
    own, now = {}, shape
    for each in part:
        taken = own_of(each, now)
        if taken is not None:
            own[each.result] = taken
        now = output_shape(each, now, "input")
    batched = batched_names(graph)
    images = [shape[0]]
    if batched:
        # One image, if bands pay, else as many as the caches have room for.
        images = [1, images_at_once(graph, graph.nodes, batched, planner.kept_bytes()), shape[0]]
    for count in images:
        try:
            inner = graph_of_layers(part, (count, *shape[1:]))
            found = compile_layers(
                inner, settings, layout, own, packed, narrow_images(part), shape[0] // count
            )
        except NoSuchPlan:
            continue
        if count == 1 < shape[0] and not found.repeats and images[1] != 1:
            continue
        _check_workspace(found, settings.max_workspace)
        return found
    return None


def _check_workspace(program: Compiled, most: int | None) -> None:
    size = program.working_bytes
    if most is not None and size > most:
        raise ValueError(
            f"max_workspace of {most} bytes is too little for the layers together, which take "
            f"{size}: {program.program.arena_bytes} of them between the layers"
        )


def _steps_alone(part: Sequence[Described]) -> tuple[StepPlan, ...]:
    """Show layers that run by themselves."""
    return tuple(
        StepPlan(type(each.layer).__name__, (each.result,), (), each.layer.layout, "alone", 0, 0)
        for each in part
    )
