"""`Builder`: operators lower nodes with it, to values, steps and destinations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import planner
from .._records import NamedTuple, record
from ..ops.prepared import PackedWeights, Prepared
from ..ops.sparse.sparse_weights import sparsity_of
from ..problem import ConvProblem
from ..sparsity import Sparsity
from . import kept_weights
from .kept_weights import Kept, packing_of, part_of_weights, release_large
from .nodes import as_type, plain_name
from .plan_settings import Settings
from .storage import (
    Array,
    Banded,
    Buffer,
    Repeat,
    Shape,
    Step,
    Value,
    channels_last,
    constant_value,
    lie_alike,
    strides_of,
)
from .value_copies import convert_step, copy_step
from .values import all_finite

if TYPE_CHECKING:
    from ..planner.racing import Progress
    from .scaling import ScaledTensor


class NoSuchPlan(ValueError):
    """No plan has the bits and the packed weights of another one."""


class Values(dict[str, Value]):
    """Values by name; constants are laid out when they are first asked for.

    Attributes
    ----------
    constants : mapping of str to ndarray
        Arrays known at compilation.
    """

    constants: Mapping[str, Array] = {}

    def __missing__(self, name: str) -> Value:
        self[name] = constant_value(self.constants[name])
        return self[name]


class Own(NamedTuple):
    """What a prepared layer has; its convolution keeps the bits and the packed weights.

    Parameters
    ----------
    prepared : Prepared
        Its plan for the whole input.
    packed : PackedWeights
        Its weights.
    weight : ndarray
        The same before packing.
    epilogue : str
        Cost class of its epilogue.
    """

    prepared: Prepared
    packed: PackedWeights
    weight: Array
    epilogue: str


@record
class Builder:
    """A program under construction.

    Parameters
    ----------
    settings : Settings
        Settings of its plans.
    isa : str
        Instruction set of kernels outside plans.
    packed : dict
        Packed weights that programs of a session share: `Kept`, by constant, part and packing.
    planned : dict
        Plans of convolutions, by problem, algorithm, epilogue and threads.
    progress : callable, optional
        Takes a problem's text, and gives the callable that its search reports to.
    used : set
        Keys of the packed weights of this program.
    finite : dict
        By part of a constant: whether all its numbers are finite.
    zeros : dict
        By part of a constant: how sparse it is.
    problems : dict
        Problems of convolutions that were described before, by all that describes them.
    """

    settings: Settings
    isa: str
    packed: dict[Any, Any] = field(default_factory=dict)
    planned: dict[Any, tuple[planner.Plan, dict[str, Any]]] = field(default_factory=dict)
    progress: Callable[[str], Progress] | None = None
    used: set[Any] = field(default_factory=set)
    finite: dict[Any, bool] = field(default_factory=dict)
    zeros: dict[Any, Sparsity | None] = field(default_factory=dict)
    problems: dict[Any, ConvProblem] = field(default_factory=dict)
    # Plans of layers, by the results of their convolutions.
    own: Mapping[str, Own] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    repeats: list[Repeat] = field(default_factory=list)
    groups: list[Banded] = field(default_factory=list)
    values: Values = field(default_factory=Values)
    # The first step of the repeat that is being written.
    body_begin: int | None = None
    # Names of images that are computed in planes (NCHW).
    planes: frozenset[str] = frozenset()
    # Names of values that are stored in `narrow_type`, and not in float32 as the graph says.
    narrow: frozenset[str] = frozenset()
    narrow_type: np.dtype[Any] | None = None
    # Plans of each part of the weights that are noted; plans that convolutions follow; the plan of
    # the layer whose convolution is lowered; and plans that were made like others.
    noted: dict[Any, tuple[ConvProblem, planner.Plan | None]] | None = None
    followed: Mapping[Any, planner.Plan] | None = None
    owned: planner.Plan | None = None
    alike: dict[Any, tuple[planner.Plan, dict[str, Any]]] = field(default_factory=dict)
    # Copies in other layouts, by the value they copy, and sums of windows.
    relaid: dict[Any, tuple[Value, Value]] = field(default_factory=dict)
    # Destinations of results: parts of joined arrays, and outputs of the network.
    wanted: dict[str, Value] = field(default_factory=dict)

    def take_over(self, own: Mapping[str, Own]) -> None:
        """Use the plans and the packed weights of layers, by the results of their convolutions."""
        self.own = own
        for prepared, packed, weight, epilogue in own.values():
            problem: Any = prepared.problem
            plan = prepared.plan
            self.alike[problem, plan.algorithm, epilogue, (plan.bits, plan.packing)] = (
                plan, prepared.fields
            )  # fmt: skip
            part = part_of_weights((weight,), problem.groups, 1.0, plan)
            key = id(weight), part[1:], packing_of(plan)
            self.packed.setdefault(key, Kept(weight, packed.weight, packed))

    def new(self, shape: Shape, dtype: np.dtype[Any], order: Sequence[int] | None = None) -> Value:
        """Make a value with memory of its own, without gaps, its dimensions in the given order."""
        strides = strides_of(shape, dtype.itemsize, order)
        size = dtype.itemsize * int(np.prod(shape, dtype=object))
        return Value(shape, dtype, strides, Buffer(size))

    def target(
        self,
        name: str,
        shape: Shape,
        dtype: np.dtype[Any],
        order: Sequence[int] | None = None,
        fits: Callable[[Value], bool] = lambda value: True,
    ) -> Value:
        """Give the value that a step should write: its destination, or a new value.

        Parameters
        ----------
        name : str
            Of the result.
        shape, dtype
            Shape and type of the result.
        order : sequence of int, optional
            Order of dimensions in memory if the result has no destination.
        fits : callable, optional
            Whether the step can write a value with the strides of its argument.
        """
        wanted = self.wanted.get(name)
        fit = wanted is not None and (wanted.shape, wanted.dtype) == (shape, dtype)
        if wanted is not None and fit and fits(wanted):
            return wanted
        return self.new(shape, dtype, order)

    def emit(self, step: Step, *, once: bool = False) -> None:
        """Add a step; `once` puts it before the repeat that is being written."""
        step.nodes = [plain_name(name) for name in step.nodes]
        if once and self.body_begin is not None:
            self.steps.insert(self.body_begin, step)
            self.body_begin += 1
        else:
            self.steps.append(step)
        # Copies of an array are stale once it is written again.
        written = {id(value.buffer) for value in step.writes}
        for key in [key for key in self.relaid if key[0] in written]:
            del self.relaid[key]

    @contextmanager
    def repeat(self, turns: int) -> Iterator[None]:
        """Repeat the steps that are added meanwhile; values with an `advance` move on.

        What a step reads from an earlier turn has to be written before the first turn as well.
        """
        self.body_begin = len(self.steps)
        # What is copied before a repeat may change in its turns.
        self.relaid.clear()
        try:
            yield
        finally:
            self.relaid.clear()
            begin, self.body_begin = self.body_begin, None
        body = self.steps[begin:]
        assert not any(step.host or step.turns > 1 for step in body), "loops run in loops alone"
        for step in body:
            step.turns = turns
        if body:
            self.repeats.append(Repeat(begin, len(self.steps), turns))

    def deliver(self, name: str, value: Value) -> None:
        """Bind a name to a value, and copy the value to its destination if it has one."""
        wanted = self.wanted.get(name)
        if wanted is not None and not wanted.is_same(value):
            self.move(value, wanted, [name])
            value = wanted
        self.values[name] = value

    def copy(self, source: Value, destination: Value, nodes: list[str]) -> None:
        """Copy elements from one place to another."""
        if destination.size:
            self.emit(copy_step(source, destination, self.isa, nodes))

    def convert(self, source: Value, destination: Value, nodes: list[str]) -> None:
        """Copy elements to a value of another type."""
        if destination.size:
            isa = self.isa_of(source, destination)
            self.emit(convert_step(source, destination, isa, nodes))

    def isa_of(self, *values: Value) -> str:
        """Level of the kernels of a step over these values."""
        narrow = any(value.dtype.name == "bfloat16" for value in values)
        return planner.brain_isa() if narrow else self.isa

    def move(self, source: Value, destination: Value, nodes: list[str]) -> None:
        """Copy elements to another place, where they may have another floating-point type."""
        if source.dtype == destination.dtype:
            self.copy(source, destination, nodes)
        elif lie_alike(source, destination):
            self.convert(source, destination, nodes)
        elif destination.dtype.itemsize < source.dtype.itemsize:
            # Transposed as elements of four bytes, for which every instruction set has kernels.
            self.convert(self.contiguous(source, destination.order), destination, nodes)
        else:
            wide = self.new(source.shape, destination.dtype, source.order)
            self.convert(source, wide, nodes)
            self.copy(wide, destination, nodes)

    def stored(self, name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Give the type that a value of the graph's `dtype` is stored in."""
        found = self.narrow_type if name in self.narrow else None
        return dtype if found is None else found

    def in_type(self, value: Value, dtype: np.dtype[Any]) -> Value:
        """Give a value in another floating-point type; convert it if necessary, once."""
        if value.dtype == dtype:
            return value
        known = value.constant
        if known is not None:
            return constant_value(as_type(known, dtype))
        key = id(value.buffer), value.offset, value.advance, value.shape, value.strides, dtype
        if key not in self.relaid:
            other = self.new(value.shape, dtype, value.order)
            self.convert(value, other, [])
            self.relaid[key] = value, other
        return self.relaid[key][1]

    @contextmanager
    def reading(self, names: Sequence[str], dtype: np.dtype[Any]) -> Iterator[None]:
        """Give these values in a type, meanwhile."""
        kept = {name: self.values[name] for name in names}
        self.values.update((name, self.in_type(value, dtype)) for name, value in kept.items())
        try:
            yield
        finally:
            self.values.update(kept)

    def contiguous(self, value: Value, order: Sequence[int] | None = None) -> Value:
        """Give the value without gaps in an order of dimensions; copy it if necessary."""
        if value.lies_as(strides_of(value.shape, value.dtype.itemsize, order)):
            return value
        known = value.constant
        if known is not None and order is None:
            return constant_value(known)
        place = id(value.buffer), value.offset, value.advance
        key = *place, value.shape, value.strides, order and tuple(order)
        if key not in self.relaid:
            copied = self.new(value.shape, value.dtype, order)
            self.copy(value, copied, [])
            # The value keeps its buffer, and with it the key.
            self.relaid[key] = value, copied
        return self.relaid[key][1]

    def order(self, name: str, rank: int) -> Shape:
        """Default order of a result's dimensions, from the outermost to the innermost."""
        return tuple(range(rank)) if rank != 4 or name in self.planes else channels_last(4)

    def pixels(self, value: Value) -> Value:
        """Give images as NHWC, with any distance between pixels and between rows."""
        _, c, h, w = value.shape
        e = value.dtype.itemsize
        _, sc, sh, sw = value.strides
        if (
            (c == 1 or sc == e)
            and (w == 1 or sw >= c * e)
            and (h == 1 or sh >= (w * sw if w > 1 else c * e))
        ):
            return value
        return self.contiguous(value, channels_last(4))

    def plan(
        self, problem: Any, algorithm: str, epilogue: Any, part: tuple[Any, ...]
    ) -> tuple[planner.Plan, dict[str, Any]]:
        """Find or make the plan of a convolution, as `planner.make_plan` gives it.

        Parameters
        ----------
        problem, algorithm, epilogue
            As of `planner.make_plan`.
        part : (object, ...)
            What stands for the weights, and which part.
        """
        constant, *which = part
        weights = id(constant), tuple(which)
        if self.followed is not None:
            if weights not in self.followed:
                raise NoSuchPlan(f"no plan to follow for {problem}")
            return self._plan_like(self.followed[weights], problem, epilogue)
        if self.owned is None:
            found = self._plan_of(problem, algorithm, epilogue)
        else:
            found = self._plan_like(self.owned, problem, epilogue)
        if self.noted is not None:
            before, plan = self.noted.get(weights, (problem, found[0]))
            self.noted[weights] = before, plan if before == problem else None
        return found

    def _plan_of(
        self, problem: Any, algorithm: str, epilogue: Any
    ) -> tuple[planner.Plan, dict[str, Any]]:
        """Find or make the best plan."""
        settings = self.settings
        key = problem, algorithm, epilogue, settings.threads
        if key not in self.planned:
            self.planned[key] = planner.make_plan(
                problem, algorithm=algorithm, tolerance=settings.tolerance,
                threads=settings.threads, search=settings.search, search_context="cold",
                epilogue=epilogue, max_workspace=settings.max_workspace,
                progress=self.progress(str(problem)) if self.progress is not None else None,
            )  # fmt: skip
        return self.planned[key]

    def _plan_like(
        self, plan: planner.Plan, problem: Any, epilogue: Any
    ) -> tuple[planner.Plan, dict[str, Any]]:
        """Find or make a plan with the bits and the packed weights of another one.

        Raises
        ------
        NoSuchPlan
            If there is none.
        """
        settings, like = self.settings, (plan.bits, plan.packing)
        key = problem, plan.algorithm, epilogue, like
        if key not in self.alike:
            try:
                self.alike[key] = planner.make_plan(
                    problem, algorithm=plan.algorithm, tolerance=settings.tolerance,
                    threads=settings.threads, search_context="cold", epilogue=epilogue,
                    max_workspace=settings.max_workspace, like=like,
                )  # fmt: skip
            except ValueError as error:
                raise NoSuchPlan(str(error)) from error
        return self.alike[key]

    @contextmanager
    def noting(self) -> Iterator[dict[Any, tuple[ConvProblem, planner.Plan | None]]]:
        """Note the plans that are made meanwhile, by the parts of weights that they are for.

        Where several problems have the same weights, there is None instead of a plan.
        """
        kept, self.noted = self.noted, {}
        try:
            yield self.noted
        finally:
            self.noted = kept

    @contextmanager
    def owning(self, plan: planner.Plan) -> Iterator[None]:
        """Give the convolution of a layer, meanwhile, bits and packed weights of its plan."""
        kept, self.owned = self.owned, plan
        try:
            yield
        finally:
            self.owned = kept

    @contextmanager
    def following(self, plans: Mapping[Any, planner.Plan] | None) -> Iterator[None]:
        """Give convolutions, meanwhile, the bits and the packed weights of plans; note none."""
        kept = self.followed, self.noted
        self.followed, self.noted = plans, None
        try:
            yield
        finally:
            self.followed, self.noted = kept

    def least_cycles(self, problem: Any) -> float:
        """Estimate the best plan's cycles on one thread, with weights outside the caches."""
        settings = self.settings
        return planner.least_cycles(problem, settings.tolerance, settings.max_workspace)

    def all_finite(self, part: tuple[Any, ...], weight: Array | ScaledTensor) -> bool:
        """Tell whether all numbers of a part of a constant are finite; the answer is kept.

        Parameters
        ----------
        part : (ndarray or ScaledTensor, ...)
            What stands for the constant, and which part.
        weight : ndarray or ScaledTensor
            The part. Weights are scaled only where they stay finite.
        """
        if not isinstance(weight, np.ndarray):
            return True
        constant, *which = part
        key = id(constant), tuple(which)
        if key not in self.finite:
            self.finite[key] = all_finite(weight)
        return self.finite[key]

    def sparsity(
        self, part: tuple[Any, ...], weight: Array | ScaledTensor, groups: int
    ) -> Sparsity | None:
        """Give the sparsity of a part of a constant, for its problem; zeros are counted once.

        Parameters
        ----------
        part : (ndarray or ScaledTensor, ...)
            What stands for the constant, and which part.
        weight : ndarray or ScaledTensor
            The part, (oc, ic / groups, ...). Scaling keeps zeros.
        groups : int
            Groups of channels.
        """
        if self.settings.sparse is False:
            return None
        constant, *which = part
        key = id(constant), tuple(which), groups
        if key not in self.zeros:
            array = weight if isinstance(weight, np.ndarray) else weight.source.numpy()
            self.zeros[key] = sparsity_of(array, groups, self.settings.sparse)
            release_large(array)
        return self.zeros[key]

    def packed_once(
        self,
        part: tuple[Any, ...],
        packing: str,
        prepared: Prepared,
        weight: Array | ScaledTensor,
    ) -> PackedWeights:
        """Give the packed weights of a part of a constant: kept ones, or new ones.

        Parameters
        ----------
        part : (ndarray or ScaledTensor, ...)
            What stands for the constant, and which part.
        packing : str
            Their format.
        prepared : Prepared
            A plan with this packing.
        weight : ndarray or ScaledTensor
            The part, before packing.
        """
        constant, *which = part
        key = id(constant), tuple(which), packing
        kept = self.packed.get(key)
        if kept is None:
            packed = kept_weights.packed(prepared, weight)
            kept = Kept(constant, packed.weight, packed)
            if isinstance(constant, np.ndarray):
                release_large(constant)
        elif not isinstance(kept.packed, PackedWeights):
            before = np.empty(0) if kept.weight is None else kept.weight
            packed = PackedWeights(prepared, before, kept.packed, keep=before)
            kept = kept._replace(packed=packed)
        self.packed[key] = kept
        self.used.add(key)
        found: PackedWeights = kept.packed
        return found
