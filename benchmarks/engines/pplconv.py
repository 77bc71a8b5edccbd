"""pplconv itself: prepared in each layout, and with the weights packed at each call."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import wisdom
from benchmarks.engines.base import Array32, Availability, Engine, Prepared, Unsupported
from benchmarks.memory import aligned, aligned_copy
from benchmarks.problems import Problem

# Defaults of Conv2d.
DEFAULT_SEARCH, DEFAULT_TOLERANCE = "estimate", 1e-5


def geometry(problem: Problem) -> dict[str, Any]:
    """Give the arguments of pplconv that say where the weights are applied."""
    return {
        "stride": (problem.sh, problem.sw),
        "padding": (problem.ph, problem.pw),
        "dilation": (problem.dh, problem.dw),
        "groups": problem.groups,
    }


def short(number: float) -> str:
    """Write a tolerance briefly: ``1e-4``."""
    if number == 0.0:
        return "0"
    mantissa, _, exponent = f"{number:e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def search_settings(search: str) -> dict[str, str]:
    """Give pplconv's settings for a way to search: ``"measure-cold"`` is two of them."""
    search, dash, context = search.partition("-")
    return {"search": search, "search_context": context} if dash else {"search": search}


def isa_of(conv: Any, shape: tuple[int, ...]) -> str:
    """Instruction set that a prepared convolution names for inputs of `shape`."""
    plan_for = getattr(conv, "plan_for", None)
    return str(getattr(plan_for(shape), "isa", "")) if plan_for is not None else ""


class Pplconv(Engine):
    """The engines that are pplconv."""

    ours = True

    def available(self) -> Availability:
        """Tell whether a built pplconv can be imported."""
        try:
            import pplconv
        except ImportError as error:
            return Availability(ok=False, reason=f"pplconv cannot be imported: {error}")
        if not hasattr(pplconv, "Conv2d"):
            return Availability(ok=False, reason="pplconv is a source tree that was not built")
        return Availability(ok=True, version=pplconv.__version__)


class Prepacked(Pplconv):
    """`pplconv.Conv2d`, the output written into one array.

    Parameters
    ----------
    search : str, optional
        Handed to `Conv2d`, ``"measure-cold"`` as ``"measure"`` with ``search_context="cold"``; if
        given, it stands in the name.
    asked : float, optional
        Handed to `Conv2d` as ``tolerance=``; if given, it stands in the name. A result may be off
        by as much, or by the tolerance of every engine, whichever is more.
    algorithm : str, optional
        Handed to `Conv2d`; if given, it stands in the name.
    """

    # Further arguments of `Conv2d`, the same for every problem.
    extra: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self, search: str | None = None, asked: float | None = None, algorithm: str = ""
    ) -> None:
        marks = [algorithm, search or "", "" if asked is None else short(asked)]
        self.marks = [mark for mark in marks if mark]
        self.name = "@".join([type(self).name, *self.marks])
        self.search = DEFAULT_SEARCH if search is None else search
        self.asked = DEFAULT_TOLERANCE if asked is None else asked
        self.algorithm = algorithm
        self.tolerance = max(type(self).tolerance, self.asked)
        extra = [f"{name}={value}" for name, value in self.extra.items()]
        self.note = ", ".join(["Conv2d", self.layout, *extra, "out=", *self.marks])

    def variants(self, searches: Sequence[str], tolerances: Sequence[float]) -> list[Engine]:
        """Give the engine with each of `searches` and each of `tolerances`; none: as it is."""
        every_search: Sequence[str | None] = searches or (None,)
        every_tolerance: Sequence[float | None] = tolerances or (None,)
        return [type(self)(search, asked) for asked in every_tolerance for search in every_search]

    def forced(self, algorithm: str, asked: float) -> Prepacked:
        """Give the same layout by one algorithm, with as much tolerance as is asked for."""
        return type(self)(asked=asked, algorithm=algorithm)

    def available(self) -> Availability:
        """Tell whether pplconv is there, and knows this layout and this way to search."""
        found = super().available()
        if not found.ok:
            return found
        try:
            weight = np.ones((16, 16, 1, 1), np.float32)
            self._make(weight, threads=1)  # refuses settings that it does not know
            # A layout may be known before any algorithm takes it.
            shape = self._arrange(np.ones((1, 16, 4, 4), np.float32)).shape
            self._make(weight, threads=1, search=DEFAULT_SEARCH).plan_for(shape)
        except (AttributeError, ImportError, TypeError, ValueError) as error:
            return Availability(ok=False, reason=f"this pplconv cannot: {error}")
        return found

    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Pack the weights and plan for the shape of `x`, in the layout of this engine."""
        wisdom.forget()
        return self.prepare_second(problem, x, w, threads)

    def prepare_second(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Do the same with the plan that the first one found."""
        arranged = aligned_copy(self._arrange(x), self.element())
        arguments = {**geometry(problem), "input_shape": arranged.shape, "threads": threads}
        if self.algorithm:
            arguments["algorithm"] = self.algorithm
        try:
            conv = self._make(w, **arguments)
        except ValueError as reason:
            if self.algorithm or self._may_refuse(problem, arranged):
                raise Unsupported(str(reason)) from None
            raise
        out = aligned(self._out_shape(problem, arranged), self.element())
        isa = isa_of(conv, arranged.shape)
        return Prepared(partial(conv, arranged, out=out), partial(self._restore, problem.oc), isa)

    def _make(self, w: Array32, **arguments: Any) -> Any:
        import pplconv

        # As a dict: later versions of pplconv know more settings.
        settings: dict[str, Any] = {
            "layout": self.layout,
            "search": self.search,
            "tolerance": self.asked,
            **self.extra,
            **arguments,
        }
        weight = w.astype(self.element(), copy=False)
        return pplconv.Conv2d(weight, **settings | search_settings(settings["search"]))

    def element(self) -> Any:
        """Type of its arrays, as NumPy takes it."""
        return np.float32

    def _may_refuse(self, problem: Problem, arranged: Array32) -> bool:
        """Whether pplconv promises nothing for `problem` in this layout."""
        return False

    @abstractmethod
    def _arrange(self, x: Array32) -> Array32:
        """Bring (N, C, H, W) into the layout of this engine."""

    @abstractmethod
    def _out_shape(self, problem: Problem, arranged: Array32) -> tuple[int, ...]:
        """Shape of the output in that layout."""

    @abstractmethod
    def _restore(self, channels: int, y: NDArray[np.float32]) -> NDArray[np.generic]:
        """Bring an output of `channels` channels back into (N, C, H, W)."""


class PplconvNchw(Prepacked):
    """NCHW in and out."""

    name = "pplconv"
    layout = "NCHW"

    def _arrange(self, x: Array32) -> Array32:
        return x

    def _out_shape(self, problem: Problem, arranged: Array32) -> tuple[int, ...]:
        return problem.output_shape

    def _restore(self, channels: int, y: NDArray[np.float32]) -> NDArray[np.generic]:
        return y


class PplconvNhwc(Prepacked):
    """NHWC in and out."""

    name = "pplconv_nhwc"
    layout = "NHWC"

    def _arrange(self, x: Array32) -> Array32:
        return np.ascontiguousarray(x.transpose(0, 2, 3, 1))

    def _out_shape(self, problem: Problem, arranged: Array32) -> tuple[int, ...]:
        return (problem.mb, problem.oh, problem.ow, problem.oc)

    def _restore(self, channels: int, y: NDArray[np.float32]) -> NDArray[np.generic]:
        nchw: NDArray[np.generic] = y.transpose(0, 3, 1, 2)
        return nchw


class PplconvNchwc(Prepacked):
    """Blocks of channels in and out, in the block that pplconv prefers here."""

    name = "pplconv_nchwc"
    layout = "NCHWc"

    def _may_refuse(self, problem: Problem, arranged: Array32) -> bool:
        """Groups of several channels must fill blocks."""
        block, groups = arranged.shape[-1], problem.groups
        return groups > 1 and (problem.ic // groups % block > 0 or problem.oc // groups % block > 0)

    def _arrange(self, x: Array32) -> Array32:
        import pplconv

        to_blocked: Any = getattr(pplconv, "to_blocked")  # noqa: B009 - older ones have none
        blocked: Array32 = to_blocked(x)
        return blocked

    def _out_shape(self, problem: Problem, arranged: Array32) -> tuple[int, ...]:
        block = arranged.shape[-1]
        return (problem.mb, -(-problem.oc // block), problem.oh, problem.ow, block)

    def _restore(self, channels: int, y: NDArray[np.float32]) -> NDArray[np.generic]:
        import pplconv

        from_blocked: Any = getattr(pplconv, "from_blocked")  # noqa: B009
        nchw: NDArray[np.generic] = from_blocked(y, channels)
        return nchw


class PplconvFunction(Pplconv):
    """`pplconv.conv2d`: weights packed at each call, a new output each time."""

    name = "pplconv_conv2d"
    note = "conv2d, NCHW, weights packed at each call"

    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Bind the arguments only: every call packs the weights."""
        import pplconv

        call = partial(pplconv.conv2d, x, w, **geometry(problem), threads=threads)
        return Prepared(call, np.asarray)
