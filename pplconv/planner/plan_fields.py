"""The fields of a plan: frozen, readable, and free of any address."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, TypeVar

from .._records import record
from ..numerics import Numerics, numerics_of
from ..sparsity import Sparsity, checked_sparsity

_Value = TypeVar("_Value")


class _Fixed(Mapping[str, _Value]):
    """An immutable mapping.

    `types.MappingProxyType` cannot be copied deeply, which `dataclasses.asdict` does.
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, _Value]) -> None:
        self._items = dict(items)

    def __getitem__(self, name: str) -> _Value:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(self._items)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, _Value]:
        """Return a dict, which the caller may change."""
        return dict(self._items)


@record(frozen=True)
class PlanFields:
    """The fields of a `Plan`, and properties derived from them; `Plan` describes them."""

    problem: str
    dtype: str
    compute: str
    layout: str
    algorithm: str
    bits: str
    isa: str
    kernel: str
    blocks: Mapping[str, int | str] = field(hash=False)
    tasks: int
    threads: int
    packing: str
    packed_weight_bytes: int
    scratch_bytes: int
    error_bound: float
    search: str = field(compare=False)
    cost: Mapping[str, float] = field(hash=False, compare=False)
    runners_up: tuple[str, ...] = field(default=(), compare=False)
    seconds: float | None = field(default=None, compare=False)
    destination: str = ""
    predicted_gain: float | None = field(default=None, compare=False)
    measured_gain: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", _Fixed(self.blocks))
        object.__setattr__(self, "cost", _Fixed(self.cost))

    def __reduce__(self) -> tuple[object, ...]:
        # Mappings are pickled as dicts, as in the pickles of other versions.
        values = (getattr(self, name) for name in self.__dataclass_fields__)
        return type(self), tuple(dict(v) if isinstance(v, Mapping) else v for v in values)

    @property
    def numerics(self) -> Numerics:
        """The types that the plan computes with."""
        return numerics_of(self.dtype, self.compute, self.destination)

    @property
    def sparsity(self) -> Sparsity | None:
        """Block and density of sparse weights; None of dense ones."""
        found = re.search(r"sb(\d+)sd(\d+)$", self.problem)
        return None if found is None else checked_sparsity(int(found[1]), int(found[2]))

    @property
    def leaves_zeros_out(self) -> bool:
        """Whether weights that are zero are not multiplied."""
        from ..algorithms import kind_of

        return kind_of(self.algorithm).leaves_zeros_out

    @property
    def transforms(self) -> bool:
        """Whether numbers are transformed: there are fewer products than in the direct sum."""
        from ..algorithms import kind_of

        return kind_of(self.algorithm).transforms

    def __str__(self) -> str:
        """Lay the plan out for reading, one fact a line."""
        cost = ", ".join(f"{name} {cycles:.3g}" for name, cycles in self.cost.items())
        time = "" if self.seconds is None else f" ({1e3 * self.seconds:.3g} ms)"
        numerics = self.numerics
        computed = f", computed in {self.compute}" if self.compute != self.dtype else ""
        if numerics.destination != numerics.source:
            computed = f" to {numerics.destination}{computed}"
        lines = {
            "problem": f"{self.problem} {self.dtype} {self.layout}{computed}",
            "algorithm": f"{self.algorithm}, {self.bits} (error at most {self.error_bound:.1e})",
            "kernel": self.kernel,
            "blocks": ", ".join(f"{name} {value}" for name, value in self.blocks.items()),
            "team": f"{self.threads} threads over {self.tasks} tasks",
            "scratch": f"{self.scratch_bytes} bytes",
            "weights": f"{self.packed_weight_bytes} bytes, packed {self.packing}",
            "cost": f"{cost} (cycles)",
            "chosen by": self.search + time,
            "runners-up": "; ".join(self.runners_up) or "none",
        }
        if any(float(text.rpartition(" x")[2]) < 1 for text in self.runners_up):
            # Ratios of an estimate are those of one thread.
            lines["x below 1"] = {
                "estimate": "one thread would be faster so; a team divides the choice better",
                "wisdom": "the estimate's view; measured runs decided otherwise",
            }.get(self.search, "too little ahead of the estimate's choice to be more than noise")
        if self.sparsity is not None:
            lines = {"problem": lines.pop("problem"), "sparsity": self._sparsity_text(), **lines}
        return "\n".join(f"{name:<11}{text}" for name, text in lines.items())

    def _sparsity_text(self) -> str:
        block, density = self.sparsity or (1, 0)
        gains = {"predicted": self.predicted_gain, "measured": self.measured_gain}
        known = [f"{name} x{gain:.2f}" for name, gain in gains.items() if gain is not None]
        stored = f"{density / 10:.3g} % of the weights in blocks of 1x{block}"
        return f"{stored}; gain over dense {', '.join(known) or 'unknown'}"
