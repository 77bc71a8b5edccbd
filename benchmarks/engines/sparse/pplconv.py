"""pplconv with pruned weights: sparse by block, dense, and dense without Winograd."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from benchmarks.engines.base import Array32, Availability, Engine, Prepared, Unsupported
from benchmarks.engines.pplconv import PplconvNchw, PplconvNhwc, Prepacked
from benchmarks.engines.quantized.pplconv import PplconvNchwU8, PplconvNhwcU8, QPrepacked
from benchmarks.problems import Problem, parse
from benchmarks.quantized.layers import make_quantized

DENSE, DIRECT = "dense", "direct"


def asked_of(block: int) -> MappingProxyType[str, Any]:
    """Arguments of pplconv for blocks of so many channels; 0: dense weights."""
    return MappingProxyType({"sparse": True, "block": (1, block)} if block else {"sparse": False})


class Pruned(Prepacked):
    """`pplconv.Conv2d` on pruned weights.

    Parameters
    ----------
    block : int
        Output channels of a block; 0: dense.
    search : str, optional
        As of `Prepacked`.
    direct : bool, optional
        Whether it may take no Winograd: dense layers are compared with both.
    """

    def __init__(self, block: int, search: str | None = None, direct: bool = False) -> None:
        self.block, self.direct = block, direct
        self.extra = asked_of(block)
        # Tolerance 0 leaves no transform; results are still held to the tolerance of all engines.
        super().__init__(search, 0.0 if direct else None)
        kind = f"b{block}" if block else DIRECT if direct else DENSE
        marks = [search] if search else []
        self.name = "@".join([f"{type(self).name}_{kind}", *marks])

    def variants(self, searches: Sequence[str], tolerances: Sequence[float]) -> list[Engine]:
        """Give the engine with each of `searches`; none: as it is."""
        every: Sequence[str | None] = searches or (None,)
        return [type(self)(self.block, search, self.direct) for search in every]

    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Prepare it; refuse a direct sum of a 1x1, where the dense engine computes the same."""
        if self.direct and (problem.kh, problem.kw) == (1, 1):
            raise Unsupported("the dense sum of a 1x1 is direct already")
        return super().prepare(problem, x, w, threads)


class PrunedNchw(Pruned, PplconvNchw):
    """NCHW in and out."""


class PrunedNhwc(Pruned, PplconvNhwc):
    """NHWC in and out."""


class PrunedInt8(QPrepacked):
    """`pplconv.QConv2d` on pruned weights, uint8 activations; exact, or wrong.

    Parameters
    ----------
    block : int
        Output channels of a block; 0: dense.
    search : str, optional
        As of `QPrepacked`.
    """

    def __init__(self, block: int, search: str | None = None) -> None:
        self.block = block
        self.extra = asked_of(block)
        super().__init__(search)
        marks = [search] if search else []
        self.name = "@".join([f"{type(self).name}_{f'b{block}' if block else DENSE}", *marks])
        settings = [f"{name}={value}" for name, value in self.extra.items()]
        self.note = ", ".join([self.note, *settings])

    def variants(self, searches: Sequence[str], tolerances: Sequence[float]) -> list[Engine]:
        """Give the engine with each of `searches`; none: as it is."""
        every: Sequence[str | None] = searches or (None,)
        return [type(self)(self.block, search) for search in every]

    def available(self) -> Availability:
        """Tell whether pplconv is there, and takes such weights of such layers."""
        found = super().available()
        if not found.ok:
            return found
        try:
            # A version may know the argument and have no algorithm.
            layer = make_quantized(parse("mb1ic16ih4oc16kh1"), self.kind)
            self.prepare_quantized(parse("mb1ic16ih4oc16kh1"), layer, 1)
        except (TypeError, ValueError) as error:
            # The first reason: there is one for each type of products.
            reason = str(error).partition(";")[0]
            return Availability(ok=False, reason=f"this pplconv cannot: {reason}")
        return found


class PrunedNhwcU8(PrunedInt8, PplconvNhwcU8):
    """NHWC in and out."""


class PrunedNchwU8(PrunedInt8, PplconvNchwU8):
    """NCHW in and out."""
