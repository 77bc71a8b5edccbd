"""pplconv's own int8: `pplconv.QConv2d`, prepared, in each layout and type of activations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import wisdom
from benchmarks.engines.base import Availability, Engine, Prepared
from benchmarks.engines.pplconv import DEFAULT_SEARCH, Pplconv, geometry, isa_of, search_settings
from benchmarks.engines.quantized.base import Quantized, QuantizedEngine
from benchmarks.memory import aligned, aligned_copy
from benchmarks.problems import Problem

_TO_NHWC, _TO_NCHW, _AS_IT_IS = (0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 2, 3)


class QPrepacked(QuantizedEngine, Pplconv):
    """`pplconv.QConv2d`, the output written into one array; exact, or wrong.

    Parameters
    ----------
    search : str, optional
        Handed to `QConv2d`, as `benchmarks.engines.pplconv.Prepacked` does; if given, it stands in
        the name.
    """

    # Not one result may be one unit off.
    tolerance = 0.0
    # Further arguments of `QConv2d`, the same for every problem.
    extra: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, search: str | None = None) -> None:
        marks = [search] if search else []
        self.name = "@".join([type(self).name, *marks])
        self.search = search or DEFAULT_SEARCH
        kind = "uint8" if self.kind == "u8" else "int8"
        self.note = ", ".join(["QConv2d", self.layout, kind, "out=", *marks])

    def variants(self, searches: Sequence[str], tolerances: Sequence[float]) -> list[Engine]:
        """Give the engine with each of `searches`; none: as it is."""
        every: Sequence[str | None] = searches or (None,)
        return [type(self)(search) for search in every]

    def available(self) -> Availability:
        """Tell whether pplconv is there, and has such layers."""
        found = Pplconv.available(self)
        if not found.ok:
            return found
        import pplconv

        if not hasattr(pplconv, "QConv2d"):
            return Availability(ok=False, reason="this pplconv has no QConv2d")
        return found

    def prepare_quantized(self, problem: Problem, layer: Quantized, threads: int) -> Prepared:
        """Pack the weights and plan for the shape of the input, in the layout of this engine."""
        import pplconv

        wisdom.forget()
        nhwc = self.layout == "NHWC"
        x = aligned_copy(layer.x.transpose(_TO_NHWC if nhwc else _AS_IT_IS), layer.x.dtype)
        # Any: older ones have none.
        conv = getattr(pplconv, "QConv2d")(  # noqa: B009
            layer.w,
            layer.bias,
            x_scale=layer.x_scale,
            x_zero_point=layer.x_zero,
            w_scale=layer.w_scale,
            y_scale=layer.y_scale,
            y_zero_point=layer.y_zero,
            x_dtype=layer.x.dtype,
            out_dtype=layer.x.dtype,
            layout=self.layout,
            input_shape=x.shape,
            threads=threads,
            **geometry(problem),
            **search_settings(self.search),
            **self.extra,
        )
        n, c, h, w = problem.output_shape
        out = aligned((n, h, w, c) if nhwc else (n, c, h, w), layer.x.dtype)

        def to_nchw(y: Any) -> NDArray[np.generic]:
            return np.array(y.transpose(_TO_NCHW if nhwc else _AS_IT_IS))

        return Prepared(partial(conv, x, out=out), to_nchw, isa_of(conv, x.shape))


class PplconvNhwcU8(QPrepacked):
    """NHWC, uint8 activations."""

    name = "pplconv_nhwc_u8"
    layout = "NHWC"


class PplconvNhwcS8(QPrepacked):
    """NHWC, int8 activations."""

    name = "pplconv_nhwc_s8"
    layout = "NHWC"
    kind = "s8"


class PplconvNchwU8(QPrepacked):
    """NCHW, uint8 activations."""

    name = "pplconv_u8"


class PplconvNchwS8(QPrepacked):
    """NCHW, int8 activations."""

    name = "pplconv_s8"
    kind = "s8"
