"""Requests joined along their first dimension, computed in one call, and answered apart."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from .requests import Request, RequestQueue, cancel

__all__ = ["Batching", "check_model", "gather", "join", "split"]

Kind = tuple[Any, ...]


class Batching(NamedTuple):
    """How requests are joined.

    Attributes
    ----------
    most : int
        Rows of a call; 1 to join nothing.
    delay : float
        Seconds that a request may wait for others.
    """

    most: int = 1
    delay: float = 0.0


def check_model(model: object) -> None:
    """Refuse a model whose inputs have a fixed batch size.

    Raises
    ------
    ValueError
        If it has an input whose first dimension is a number; the message names it.
    """
    inputs = getattr(model, "get_inputs", None)
    for value in inputs() if inputs is not None else ():
        if not value.shape or isinstance(value.shape[0], int):
            raise ValueError(
                f"max_batch: requests can only be joined where the first dimension of all inputs "
                f"is open, and input {value.name!r} has shape {value.shape}"
            )


def kind_of(request: Request) -> Kind | None:
    """Kind of a request: requests of an equal kind can be joined; None: with no other.

    A request can be joined if its only argument is an array or a mapping of arrays, all with the
    same first dimension.
    """
    if len(request.args) != 1 or request.kwargs:
        return None
    (given,) = request.args
    named = given if isinstance(given, Mapping) else {"": given}
    rows = rows_of(request)
    kind: list[Any] = [type(given)]
    for name, array in named.items():
        if type(array) is not np.ndarray or array.ndim == 0 or array.shape[0] != rows:
            return None
        if array.dtype.hasobject:
            return None
        kind.append((name, array.shape[1:], array.dtype))
    return tuple(kind) if rows else None


def rows_of(request: Request) -> int:
    """How many rows a request has; 0 if it has no arrays."""
    (given,) = request.args
    arrays = list(given.values()) if isinstance(given, Mapping) else [given]
    first = arrays[0] if arrays else None
    return int(first.shape[0]) if isinstance(first, np.ndarray) and first.ndim else 0


def gather(queue: RequestQueue, first: Request, batching: Batching) -> list[Request]:
    """Take further requests that can be joined with one, as many as fit a call.

    Their rows are a power of two, if waiting requests allow it: a model is prepared for each number
    of rows that it meets, so these should be few. Requests taken in excess are put back for all
    instances.
    """
    found = [first]
    kind = kind_of(first) if batching.most > 1 else None
    if kind is None:
        return found
    rows, call = rows_of(first), 1
    while rows < batching.most:
        request = queue.take_within(first.submitted + batching.delay - time.perf_counter())
        if request is None:
            break
        if request.future.cancelled():
            cancel(request.future)
            continue
        found.append(request)
        if kind_of(request) != kind or rows + rows_of(request) > batching.most:
            break
        rows += rows_of(request)
        if rows == batching.most or rows & (rows - 1) == 0:
            call = len(found)
    queue.put_back(found[call:])
    return found[:call]


def join(requests: Sequence[Request]) -> Any:
    """Make one argument of those of several requests of one kind."""
    first = requests[0].args[0]
    if not isinstance(first, Mapping):
        return np.concatenate([request.args[0] for request in requests])
    return {name: np.concatenate([request.args[0][name] for request in requests]) for name in first}


def split(result: Any, requests: Sequence[Request]) -> list[Any] | None:
    """Divide a result by the rows of requests: an array, or a list, tuple or dict of arrays.

    Returns
    -------
    list or None
        Of each request; arrays are copied, so that one kept answer keeps no others. None if the
        result does not have the rows of all requests.
    """
    rows = [rows_of(request) for request in requests]
    if type(result) in (list, tuple, dict):
        columns = []
        for array in result.values() if type(result) is dict else result:
            divided = _divided(array, rows)
            if divided is None:
                return None
            columns.append(divided)
        own = zip(*columns, strict=True) if columns else [()] * len(rows)
        if type(result) is dict:
            return [dict(zip(result, arrays, strict=True)) for arrays in own]
        return [type(result)(arrays) for arrays in own]
    return _divided(result, rows)


def _divided(array: Any, rows: Sequence[int]) -> list[Any] | None:
    if type(array) is not np.ndarray or array.ndim == 0 or array.shape[0] != sum(rows):
        return None
    ends = accumulate(rows)
    return [array[end - n : end].copy() for end, n in zip(ends, rows, strict=True)]
