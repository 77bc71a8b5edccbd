"""Objects as values of JSON, and back.

Numbers, texts and None stand for themselves, and an array of JSON is a tuple. All else is an object
of one entry: ``{"list": [...]}``, ``{"dict": [[key, value], ...]}``, ``{"at": n}``, which is number
n of a list of objects, and so on. An object of that list is the name of its class and the arguments
of the constructor. The classes are those of `_CLASSES`, so a file can make nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import config, schedules
from ..._records import record
from ...arguments.activation import Activation as Description
from ...geometry import Geometry, Memory, Strides
from ...machine import current as current_machine
from ...matrix_problem import MatrixProblem
from ...memory.dtypes import array_dtype
from ...numerics import Numerics, numerics_of
from ...ops.prepared import Activation, PackedWeights, Prepared
from ...ops.quantized.rescaling import Rescaling
from ...planner import Plan
from ...problem import ConvProblem
from ...schedules.finish import Finish
from ...schedules.work import Work
from ...sparsity import Sparsity
from ..host_steps import Same
from ..interface import Declared, Interface, ModelMetadata, NodeArg
from ..storage import Banded, Buffer, Repeat, Step, Value

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["NotKept", "OtherKernels", "Reader", "Writer"]

# Of `schedules`. Few files have all of them, so each is imported when a file has one.
_WORKS = {
    "Attention", "Copy", "DepthwiseBytesSchedule", "DepthwiseSchedule", "DirectSchedule",
    "Elementwise", "GemmSchedule", "Indexed", "Pack", "PlanesSchedule", "Pool", "PoolPlaces",
    "Resample", "Rows", "SparseSchedule", "WinogradSchedule", "ZeroPoint",
}  # fmt: skip
_RECORDS = (
    Banded, Buffer, ConvProblem, Declared, Geometry, Interface, MatrixProblem, Memory,
    ModelMetadata, NodeArg, Plan, Repeat, Same, Sparsity, Step, Strides, Value,
)  # fmt: skip
_MADE = (Activation, Finish, Numerics, PackedWeights, Prepared, Rescaling)
_CLASSES: dict[str, Any] = {kind.__name__: kind for kind in (*_RECORDS, *_MADE)}
_CLASSES["Description"] = Description
_MOST_DIMENSIONS = 32
# Values of JSON that do not stand for themselves.
_DEEP = frozenset((list, dict))


class NotKept(TypeError):
    """An object that no file can hold."""


class OtherKernels(ValueError):
    """A program for kernels that this process cannot, or may not, call."""


class Writer:
    """Turns objects into values of JSON.

    Attributes
    ----------
    blocks : list of ndarray of uint8
        Bytes of arrays and packed weights, each memory once.
    objects : list
        Descriptions of objects. An object stands behind the objects that it is made of.
    """

    def __init__(self, blocks: list[npt.NDArray[np.uint8]]) -> None:
        self.blocks, self.objects = blocks, list[Any]()
        # Numbers of objects and blocks; what is numbered stays alive.
        self._numbers: dict[int, tuple[int, Any]] = {}
        self._places: dict[tuple[int, int], tuple[int, Any]] = {}

    def value(self, given: Any) -> Any:
        """Describe a value.

        Raises
        ------
        NotKept
            If it, or a part of it, is of no known class.
        """
        if given is None or type(given) in (bool, int, float, str):
            return given
        if isinstance(given, np.generic):
            return self.value(given.item())
        if type(given) is tuple:
            return [self.value(item) for item in given]
        if type(given) is list:
            return {"list": [self.value(item) for item in given]}
        if type(given) is frozenset:
            return {"set": sorted(self.value(item) for item in given)}
        if type(given) is bytes:
            return {"bytes": given.hex()}
        if isinstance(given, np.dtype):
            return {"type": given.name}
        if isinstance(given, Mapping):
            return {"dict": [[self.value(key), self.value(each)] for key, each in given.items()]}
        if id(given) not in self._numbers:
            described = self._object(given)
            self._numbers[id(given)] = len(self.objects), given
            self.objects.append(described)
        return {"at": self._numbers[id(given)][0]}

    def _object(self, given: Any) -> list[Any]:
        if isinstance(given, np.ndarray):
            return self._array(given)
        name = _name_of(type(given))
        if name is None:
            raise NotKept(f"no file can hold a {type(given).__name__}")
        return [name, *map(self.value, _arguments_of(given))]

    def _array(self, given: npt.NDArray[Any]) -> list[Any]:
        if given.dtype.hasobject or not given.dtype.isnative:
            raise NotKept(f"no file can hold an array of {given.dtype}")
        plain = np.ascontiguousarray(given)
        shape = [int(size) for size in given.shape]
        return ["array", given.dtype.name, shape, self.block(plain.reshape(-1).view(np.uint8))]

    def block(self, given: Any) -> int:
        """Give the number of a block of bytes."""
        array: npt.NDArray[np.uint8] = np.frombuffer(given, np.uint8)
        place = array.__array_interface__["data"][0], array.size
        if place not in self._places:
            self._places[place] = len(self.blocks), given
            self.blocks.append(array)
        return self._places[place][0]


def _arguments_of(given: Any) -> Sequence[Any]:
    """List the arguments of a constructor that make an equal object."""
    if isinstance(given, Work):
        return given.arguments, given.named
    if isinstance(given, Prepared):
        return given.problem, given.plan, given.fields
    if isinstance(given, PackedWeights):
        return given.prepared, np.frombuffer(memoryview(given), np.uint8), given.weight
    if isinstance(given, (Finish, Rescaling)):
        return given.arguments
    if isinstance(given, Activation):
        return given.description, given.dtype
    if type(given).__name__ == "Node":
        # Without the node of the model.
        return given.op, given.inputs, given.outputs, given.attributes, None
    if type(given).__name__ == "NumpyCall":
        return given.node, given.shapes
    if isinstance(given, Numerics):
        return given.source, given.product, given.destination
    if isinstance(given, tuple):
        return given
    return [getattr(given, field.name) for field in fields(given)]


@record
class Reader:
    """Makes objects of the values of a file.

    Parameters
    ----------
    blocks : sequence of ndarray of uint8
        Its blocks.
    objects : sequence
        Descriptions of its objects.
    most : int
        How many threads may compute at once in all calls.
    """

    blocks: Sequence[npt.NDArray[np.uint8]]
    objects: Sequence[Any]
    most: int

    def __post_init__(self) -> None:
        self._made: list[Any] = []
        self._levels = set(current_machine().usable_isas(config.current().max_isa))
        for described in self.objects:
            self._made.append(self._object(described))

    def value(self, given: Any) -> Any:
        """Make the value that a text describes.

        Raises
        ------
        ValueError, TypeError, LookupError, MemoryError
            If there is no such value.
        """
        if type(given) is list:
            return tuple(self._items(given))
        if type(given) is not dict:
            return given
        ((kind, content),) = given.items()
        if kind == "at":
            return self._made[_count(content)]
        return _VALUES[kind](self, content)

    def _object(self, described: Any) -> Any:
        name, *arguments = described
        if name == "array":
            return self._array(*arguments)
        kind = _class_of(name)
        given = self._items(arguments)
        if issubclass(kind, Work):
            return self._work(kind, *given)
        if kind is Prepared:
            problem, plan, own = given
            self._check(plan.isa, own.get("converts_on", plan.isa))
            return Prepared(problem, plan, own, self.most)
        if kind is PackedWeights:
            prepared, packed, weight = given
            if weight is not None:
                return PackedWeights(prepared, weight, packed, keep=weight)
            return PackedWeights(prepared, np.empty(0), packed, keep=np.empty(0))
        if kind is Numerics:
            return numerics_of(*given)
        made = kind(*given)
        if kind is Buffer and not isinstance(made.array, (np.ndarray, type(None))):
            raise TypeError(f"a constant is an array, and no {type(made.array).__name__}")
        return made

    def _work(self, kind: type[Work], arguments: tuple[Any, ...], named: dict[str, Any]) -> Work:
        # The texts among a work's own arguments are instruction sets.
        texts = [each for each in (*arguments, *named.values()) if isinstance(each, str)]
        own = [each for each in (*arguments, *named.values()) if isinstance(each, dict)]
        self._check(*texts, *(each["converts_on"] for each in own if "converts_on" in each))
        return kind(*arguments, **named)

    def _check(self, *levels: str) -> None:
        """Refuse kernels that this process may not call."""
        for level in levels:
            if level not in self._levels:
                raise OtherKernels(
                    f"it was compiled for {level!r}, which this process cannot run: compile it "
                    "again here, or save it with portable=True"
                )

    def _array(self, name: str, shape: list[int], number: int) -> npt.NDArray[Any]:
        dtype = _dtype(name)
        if len(shape) > _MOST_DIMENSIONS:
            raise ValueError(f"an array has {len(shape)} dimensions")
        return self.blocks[_count(number)].view(dtype).reshape([_count(size) for size in shape])

    def _items(self, content: Any) -> list[Any]:
        # Most items stand for themselves: a call for each would take half of the time.
        return [self.value(item) if type(item) in _DEEP else item for item in content]

    def _pairs(self, content: Any) -> dict[Any, Any]:
        value = self.value
        return {
            key if type(key) is str else value(key): value(each) if type(each) in _DEEP else each
            for key, each in content
        }


def _name_of(kind: type) -> str | None:
    name = "Description" if kind is Description else kind.__name__
    try:
        return name if _class_of(name) is kind else None
    except LookupError:
        return None


def _class_of(name: str) -> Any:
    if name in _WORKS:
        return getattr(schedules, name)
    if name == "Regions":
        from ...ops.aligned_regions import Regions

        return Regions
    if name == "Node":
        from ..nodes import Node

        return Node
    if name == "NumpyCall":
        from ..numpy_calls import NumpyCall

        return NumpyCall
    return _CLASSES[name]


def _count(number: Any) -> int:
    """Refuse what is no count or index."""
    if type(number) is not int or number < 0:
        raise ValueError(f"{number!r} is no count")
    return number


def _dtype(name: str) -> np.dtype[Any]:
    found = array_dtype("bf16") if name == "bfloat16" else np.dtype(name)
    if found.hasobject or found.kind not in "biufV" or (found.kind == "V" and name != "bfloat16"):
        raise ValueError(f"no arrays of {name!r}")
    return found


_VALUES: dict[str, Callable[[Reader, Any], Any]] = {
    "list": Reader._items,
    "dict": Reader._pairs,
    "set": lambda reader, content: frozenset(reader._items(content)),
    "bytes": lambda _, content: bytes.fromhex(content),
    "type": lambda _, content: _dtype(content),
}
