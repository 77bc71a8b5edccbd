"""A session's programs; lookups do not wait while another program is made."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np

from ..runtime import ForkableLock
from .compiled import Compiled
from .storage import Array, Shape

__all__ = [
    "MOST_SHAPE_ELEMENTS",
    "Found",
    "Program",
    "Programs",
    "check_memory",
    "drop_unused",
    "key_of",
    "refuse_memory",
]

MOST_SHAPE_ELEMENTS = 64
"""Inputs that shapes follow from become constants of a program, unless they have more elements
than any shape."""


class Program(Protocol):
    """A program for inputs of fixed shapes: a `Compiled` one, or one that is cut."""

    @property
    def packed(self) -> frozenset[Any]:
        """Keys of its packed weights."""

    @property
    def planned(self) -> dict[Any, Any]:
        """Its plans, as `Builder.planned`."""

    def compute(
        self, arrays: Sequence[Any], given: Mapping[str, Array] | None = None
    ) -> dict[str, Any]:
        """Compute the outputs by name, into the given arrays or new ones."""

    def time(self, arrays: Sequence[Any]) -> list[float]:
        """Time each step, in seconds."""


Found = tuple[Program, dict[str, list[str]]]


_Kept = TypeVar("_Kept")


class Programs(OrderedDict[Any, _Kept]):
    """Programs by input shapes, least recently used first, up to a limit.

    A program can take seconds to make, and a request for a known program must not wait for it:
    `find` and `add` hold a lock of their own for an instant. A maker of programs holds `making`.

    Parameters
    ----------
    most : int
        Number of programs to keep.
    making : ForkableLock
        Held by makers of programs; other parts of a session share it.
    """

    def __init__(self, most: int, making: ForkableLock) -> None:
        super().__init__()
        self.making = making
        self._lock = ForkableLock()
        self._most = most

    def find(self, key: Any) -> _Kept | None:
        """Give a known program, and mark it as most recently used."""
        with self._lock:
            found = self.get(key)
            if found is not None:
                self.move_to_end(key)
            return found

    def add(self, key: Any, found: _Kept) -> None:
        """Keep a program, and drop the least recently used one if there are too many."""
        with self._lock:
            self[key] = found
            self.move_to_end(key)
            while len(self) > self._most:
                self.popitem(last=False)

    def all(self) -> list[tuple[Any, _Kept]]:
        """List all current programs."""
        with self._lock:
            return list(self.items())


def key_of(
    names: Sequence[str], inputs: Sequence[Any], shape_inputs: Collection[str],
    team: int | None,
) -> tuple[Any, dict[str, Shape], dict[str, Array], list[Any]]:  # fmt: skip
    """Give the key of a program, and the inputs that it reads.

    Parameters
    ----------
    names : sequence of str
        Of the graph's inputs.
    inputs : sequence of Item
        Arrays for them; sequences and optionals decide nothing.
    shape_inputs : collection of str
        Inputs that decide shapes: constants of a program.
    team : int or None
        Of the code around.

    Returns
    -------
    key : hashable
    shapes : dict
        Of the inputs that a program reads, by name; () of sequences and optionals.
    constants : dict
        The others.
    rest : list of Item
        Inputs that it reads.
    """
    shapes: dict[str, Shape] = {}
    constants: dict[str, Array] = {}
    rest = []
    for name, array in zip(names, inputs, strict=True):
        decides = name in shape_inputs and isinstance(array, np.ndarray)
        if decides and array.size <= MOST_SHAPE_ELEMENTS:
            constants[name] = array
        else:
            shapes[name] = getattr(array, "shape", ())
            rest.append(array)
    shown = tuple(getattr(array, "shape", None) for array in inputs)
    told = tuple(array.tobytes() for array in constants.values())
    return (shown, told, team), shapes, constants, rest


def drop_unused(packed: dict[Any, Any], programs: Iterable[Program]) -> None:
    """Drop packed weights that none of these programs uses."""
    used = {key for program in programs for key in program.packed}
    for key in [key for key in packed if key not in used]:
        del packed[key]


def check_memory(compiled: Compiled, most: int | None) -> None:
    """Refuse a program whose runs would take more than `most` bytes.

    Raises
    ------
    ValueError
        If its arena, scratch and outputs are larger.
    """
    if most is None:
        return
    size = compiled.working_bytes
    size += sum(math.prod(shape) * dtype.itemsize for _, shape, dtype in compiled.outputs)
    if size > most:
        refuse_memory({name: shape for name, shape, _ in compiled.inputs}, size, most)


def refuse_memory(shapes: Mapping[str, Shape], size: int, most: int) -> NoReturn:
    """Say that inputs of some shapes take too much memory.

    Raises
    ------
    ValueError
        Always.
    """
    shown = {name: list(shape) for name, shape in shapes.items()}
    raise ValueError(
        f"feed: to compute inputs of shapes {shown} takes {size} bytes, more than max_memory={most}"
    )
