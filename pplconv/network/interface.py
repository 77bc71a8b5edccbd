"""Inputs and outputs of a session, and its refusals of arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from .._checks import shown
from .._records import NamedTuple
from ..memory.array_like import array_of
from ..memory.mapping import plain
from .storage import Array, Item

PROVIDER = "CPUExecutionProvider"
"""ONNX Runtime's name of what computes here."""


class NodeArg(NamedTuple):
    """An input or an output of a network.

    Parameters
    ----------
    name : str
        Its name.
    shape : list of int, str or None
        Its dimensions; a text or None where any size is accepted.
    type : str
        As ONNX Runtime writes it: ``"tensor(float)"``, ``"seq(tensor(float))"``.
    """

    name: str
    shape: list[int | str | None]
    type: str


class ModelMetadata(NamedTuple):
    """What a model says of itself, by ONNX Runtime's names.

    Parameters
    ----------
    producer_name, graph_name, domain, description, graph_description : str
        Texts of the file, empty where it has none.
    version : int
        Of the model.
    custom_metadata_map : dict of str to str
        Whatever its maker added.
    """

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


class Declared(NamedTuple):
    """What a network declares of an input.

    Parameters
    ----------
    name : str
        Its name.
    dtype : numpy.dtype
        Type of its elements.
    shape : tuple or None
        Its dimensions: an int is a fixed size, all else is open, and may have a name; None for any
        rank.
    optional, sequence : bool
        Whether it may be None, and whether it is a list of such arrays.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[Any, ...] | None
    optional: bool
    sequence: bool


class Interface(NamedTuple):
    """What callers of a network see of it.

    Parameters
    ----------
    inputs, outputs : list of NodeArg
        In the order of the model.
    declared : list of Declared
        Its inputs, as they are checked.
    containers : frozenset of str
        Outputs that are sequences or optionals.
    shape_inputs : frozenset of str
        Inputs that decide shapes or branches.
    metadata : ModelMetadata
        The model's texts.
    nodes : int
        Number of nodes after preparing.
    """

    inputs: list[NodeArg]
    outputs: list[NodeArg]
    declared: list[Declared]
    containers: frozenset[str]
    shape_inputs: frozenset[str]
    metadata: ModelMetadata
    nodes: int


def check_providers(providers: object) -> None:
    """Refuse other providers than the one of CPUs.

    Raises
    ------
    TypeError, ValueError
        The message names the provider.
    """
    if providers is None:
        return
    if isinstance(providers, str) or not isinstance(providers, Sequence):
        raise TypeError(f"providers must be a list of names, got {shown(providers)}")
    for one in providers:
        # Options of a pair change nothing here.
        name = one[0] if isinstance(one, tuple) and one else one
        if name != PROVIDER:
            raise ValueError(f"providers: pplconv computes on CPUs, {PROVIDER!r}, not {name!r}")


def item_of(value: Declared, feed: Mapping[str, Any]) -> Item:
    """Take an input of a feed.

    Raises
    ------
    TypeError, ValueError
        If it is missing, or contradicts the network's declaration.
    """
    name = value.name
    where = f"feed: input {name!r}"
    if name not in feed and not value.optional:
        raise ValueError(f"{where} is missing")
    given = feed.get(name)
    if value.optional and given is None:
        return None
    if not value.sequence:
        return _array(value, given, where)
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"{where} must be a list of arrays, got {type(given).__name__}")
    return [_array(value, each, f"{where}[{place}]") for place, each in enumerate(given)]


def _array(value: Declared, given: Any, where: str) -> Array:
    wanted = value.dtype
    if wanted.hasobject:
        array = _texts(given, where)
    elif wanted.kind == "f" or hasattr(given, "dtype"):
        array = array_of(given, where, wanted)
    else:
        array = np.asarray(given, wanted)
    if array.dtype != wanted:
        raise TypeError(f"{where} must be {wanted}, got {array.dtype}")
    check_shape(value, array.shape, where)
    return array if wanted.hasobject else plain(array)


def _texts(given: Any, where: str) -> Array:
    """Give an array of ``str`` objects."""
    try:
        array = np.asarray(given)
        if array.dtype.kind == "S":
            array = np.char.decode(array, "utf-8")
    except ValueError as error:
        raise ValueError(f"{where} is no array of texts: {error}") from error
    texts: Array = array.astype(object)
    for text in texts.flat:
        if not isinstance(text, str):
            raise TypeError(f"{where} must be text, has a {type(text).__name__}")
    return texts


def check_shape(wanted: Declared, shape: tuple[int, ...], where: str) -> None:
    """Refuse a shape that contradicts the network's declaration."""
    sizes = wanted.shape
    if sizes is None:
        return
    fits = len(sizes) == len(shape) and all(
        not isinstance(n, int) or n == got for n, got in zip(sizes, shape, strict=True)
    )
    if not fits:
        known = ", ".join("?" if size is None else str(size) for size in sizes)
        raise ValueError(f"{where} must have shape [{known}], got {shape}")


def shaped(
    values: Sequence[Declared], inputs: Mapping[str, Any], shape_inputs: Collection[str]
) -> list[Item]:
    """Give arrays of the given shapes; arrays are accepted in place of shapes.

    Sequences and optionals decide nothing: anything is accepted for them.

    Raises
    ------
    TypeError, ValueError
        If they contradict the network's declaration.
    """
    names = [value.name for value in values]
    if set(inputs) != set(names):
        raise ValueError(f"inputs: a shape for each of {names}, got {inputs!r}")
    arrays: list[Item] = []
    for value in values:
        given = inputs[value.name]
        if value.optional or value.sequence:
            arrays.append(None)
            continue
        is_shape = isinstance(given, (tuple, list)) and all(
            isinstance(n, (int, np.integer)) for n in given
        )
        if is_shape and value.name not in shape_inputs:
            # Nobody reads the elements of these arrays, only their shapes.
            given = np.broadcast_to(np.zeros((), value.dtype), tuple(map(int, given)))
        array = np.asarray(given, value.dtype)
        check_shape(value, array.shape, f"feed: input {value.name!r}")
        arrays.append(array)
    return arrays
