"""Messages of the Open Inference Protocol: requests read and checked, answers written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .http_errors import Refused
from .http_tensors import (
    DATATYPES,
    Array,
    Tensor,
    from_bytes,
    from_json,
    from_npy,
    shape_of,
    shown,
    to_json,
)

__all__ = ["Wanted", "read", "read_npy", "write"]

# Lists, objects and strings take up to thirty times the memory of their text as Python's objects. A
# message needs few lists and objects, unless each number lies in a list of its own.
_MOST_OF = {b"[": 1 << 18, b"{": 1 << 12, b'"': 1 << 16}
# Extensions of Triton's that would change an answer.
_NOT_SENT = {
    "classification": " (class_count of tritonclient) is not served: ask for the whole output, and "
    "sort it, by numpy.argsort for example",
    "shared_memory_region": " is not served: outputs are sent",
}
# Bytes of a number in an answer: digits, sign, exponent, comma.
_NUMBER = 24


class Wanted(NamedTuple):
    """Contents of a request.

    Attributes
    ----------
    feed : dict
        An array for each input.
    id : str or None
        Identifier that the answer repeats.
    outputs : list of (int, bool)
        Indices of the wanted outputs, and whether each is sent as bytes.
    """

    feed: dict[str, Array]
    id: str | None
    outputs: list[tuple[int, bool]]


def read(
    body: memoryview, header: int | None, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Wanted:
    """Read a request.

    Parameters
    ----------
    body : memoryview
        The whole body.
    header : int or None
        Number of its bytes that are JSON; None: all. The bytes of inputs follow.
    inputs, outputs : sequence of Tensor
        Inputs and outputs of the model.

    Raises
    ------
    Refused
        If the request is malformed; the message names the argument.
    """
    header = len(body) if header is None else header
    told = _object(bytes(body[:header]), "the request")
    rest = body[header:]
    listed = told.get("inputs")
    if not isinstance(listed, list) or not listed:
        raise Refused(422, "inputs must be a list of tensors")
    named = {tensor.name: tensor for tensor in inputs}
    feed: dict[str, Array] = {}
    for index, item in enumerate(listed):
        where = f"inputs[{index}]"
        name = _named(item, named, feed, where)
        shape = shape_of(item.get("shape"), where)
        named[name].check(item.get("datatype"), shape, where)
        size = _parameters(item, where).get("binary_data_size")
        if size is None:
            feed[name] = from_json(item.get("data"), named[name].datatype, shape, where)
            continue
        if "data" in item:
            raise Refused(422, f"{where} has both data and parameters.binary_data_size")
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= rest.nbytes:
            raise Refused(
                422, f"{where}.parameters.binary_data_size: {rest.nbytes} bytes follow the header "
                "and the inputs before",
            )  # fmt: skip
        feed[name] = from_bytes(rest[:size], named[name].datatype, shape, where)
        rest = rest[size:]
    if rest.nbytes:
        raise Refused(422, f"inputs: {rest.nbytes} bytes are left over behind the last")
    for name in named:
        if name not in feed:
            raise Refused(422, f"inputs: input {name!r} is missing")
    own = told.get("id")
    if own is not None and not isinstance(own, str):
        raise Refused(422, "id must be a text")
    return Wanted(feed, own, _outputs(told, outputs))


def _object(text: bytes, where: str) -> dict[str, Any]:
    for mark, most in _MOST_OF.items():
        if text.count(mark) > most:
            raise Refused(
                422, f"{where} has more than {most} times {mark.decode()}: send numbers as a flat "
                "list, or as binary data",
            )  # fmt: skip
    try:
        told = json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise Refused(422, f"{where} is nested too deeply") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise Refused(422, f"{where} is no JSON: {error}") from None
    if not isinstance(told, dict):
        raise Refused(422, f"{where} must be a JSON object")
    return told


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON: send binary data, or .npy")


def _named(item: object, known: dict[str, Tensor], seen: Any, where: str) -> str:
    if not isinstance(item, dict):
        raise Refused(422, f"{where} must be an object")
    name = item.get("name")
    if not isinstance(name, str) or name not in known:
        raise Refused(422, f"{where}.name: the model has {sorted(known)}, got {shown(name)!r}")
    if name in seen:
        raise Refused(422, f"{where}.name: {name!r} comes twice")
    return name


def _parameters(item: dict[str, Any], where: str) -> dict[str, Any]:
    found = item.get("parameters", {})
    if not isinstance(found, dict):
        raise Refused(422, f"{where}.parameters must be an object")
    return found


def _flag(parameters: dict[str, Any], name: str, default: bool, where: str) -> bool:
    flag = parameters.get(name, default)
    if not isinstance(flag, bool):
        raise Refused(422, f"{where}.parameters.{name} must be true or false")
    return flag


def _outputs(told: dict[str, Any], outputs: Sequence[Tensor]) -> list[tuple[int, bool]]:
    names = {tensor.name: index for index, tensor in enumerate(outputs)}
    known = {tensor.name: tensor for tensor in outputs}
    binary = _flag(_parameters(told, "request"), "binary_data_output", False, "request")
    listed = told.get("outputs")
    if listed is None:
        return [(index, binary) for index in names.values()]
    if not isinstance(listed, list) or not listed:
        raise Refused(422, "outputs must be a list of outputs")
    found: dict[str, bool] = {}
    for index, item in enumerate(listed):
        where = f"outputs[{index}]"
        name = _named(item, known, found, where)
        parameters = _parameters(item, where)
        for other, words in _NOT_SENT.items():
            if other in parameters:
                raise Refused(422, f"{where}.parameters.{other}{words}")
        found[name] = _flag(parameters, "binary_data", binary, where)
    return [(names[name], flag) for name, flag in found.items()]


def read_npy(body: memoryview, inputs: Sequence[Tensor]) -> dict[str, Array]:
    """Read the only input of a model from a ``.npy`` file."""
    if len(inputs) != 1:
        names = [tensor.name for tensor in inputs]
        raise Refused(422, f"a .npy body is for models of one input, and this one has {names}")
    (tensor,) = inputs
    array = from_npy(body, "body")
    kinds = {dtype.newbyteorder("="): name for name, dtype in DATATYPES.items()}
    tensor.check(kinds[array.dtype], array.shape, "body")
    return {tensor.name: array}


def write(
    wanted: Wanted,
    results: Sequence[Any],
    outputs: Sequence[Tensor],
    model: dict[str, str],
    most: int,
) -> tuple[list[bytes | memoryview], int | None]:
    """Write an answer.

    Parameters
    ----------
    wanted : Wanted
        The request.
    results : sequence of ndarray
        All outputs of the model.
    outputs : sequence of Tensor
        Their descriptions.
    model : dict
        Name and version.
    most : int
        Largest size of the JSON in bytes.

    Returns
    -------
    parts : list of bytes-like
        The body; outputs that are sent as bytes are not copied.
    header : int or None
        Number of bytes that are JSON; None if all are.

    Raises
    ------
    Refused
        If an output that is to be JSON has NaN or infinities, or is too large for it.
    """
    numbers = sum(results[index].size for index, binary in wanted.outputs if not binary)
    if numbers * _NUMBER > most:
        raise Refused(
            422, f"outputs: {numbers} numbers are too many for {most} bytes of JSON: ask for "
            "binary data, or .npy",
        )  # fmt: skip
    text: list[bytes] = [_dumps(model)[:-1], b',"outputs":[']
    tail: list[bytes | memoryview] = []
    for count, (index, binary) in enumerate(wanted.outputs):
        array = np.asarray(results[index])
        tensor = outputs[index]
        item: dict[str, Any] = {
            "name": tensor.name, "datatype": tensor.datatype, "shape": list(array.shape),
        }  # fmt: skip
        if binary:
            data = np.ascontiguousarray(array, DATATYPES[tensor.datatype]).reshape(-1).view("u1")
            item["parameters"] = {"binary_data_size": data.nbytes}
            tail.append(data.data)
        text += [b"," if count else b"", _dumps(item)]
        if not binary:
            text[-1] = text[-1][:-1] + b',"data":'
            text += to_json(array, f"output {tensor.name!r}")
            text.append(b"}")
    own = {} if wanted.id is None else {"id": wanted.id}
    text.append(b"]" + (b"," + _dumps(own)[1:] if own else b"}"))
    head = b"".join(text)
    return ([head, *tail], len(head)) if tail else ([head], None)


def _dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
