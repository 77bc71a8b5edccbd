"""Packed weights that a session keeps, and what names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._records import NamedTuple
from ..memory.dtypes import array_dtype
from ..memory.mapping import plain, release
from ..ops.prepared import PackedWeights, Prepared
from .nodes import as_type
from .storage import Array, as_bits

if TYPE_CHECKING:
    from ..planner import Plan
    from .scaling import ScaledTensor

__all__ = ["Kept", "packed", "packing_of", "part_of_weights", "release_large"]

# Of arrays that are released one by one.
_LARGE_BYTES = 1 << 18


class Kept(NamedTuple):
    """Packed weights that a session keeps.

    Parameters
    ----------
    constant : ndarray or ScaledTensor
        Their constant; the reference keeps its memory in place.
    weight : ndarray or None
        The weights before packing, contiguous; None if no loops read them.
    packed : PackedWeights or buffer
        Those of another process are bytes until a plan asks for them.
    """

    constant: Array | ScaledTensor
    weight: Array | None
    packed: Any


def part_of_weights(key: tuple[Any, ...], groups: int, alpha: float, plan: Plan) -> tuple[Any, ...]:
    """Say which weights `Builder.packed_once` packs for a plan.

    Parameters
    ----------
    key : (ndarray or ScaledTensor, ...)
        The object behind their constant, and the part of it.
    groups : int
        Of channels.
    alpha : float
        Factor of all weights.
    plan : Plan
        Packing rounds weights to the type of its input.
    """
    numerics = plan.numerics
    source = () if numerics.source == numerics.weights else (numerics.source,)
    return (*key, groups, alpha, *source)


def packing_of(plan: Plan) -> str:
    """Name the format of a plan's packed weights."""
    return f"{plan.packing} of {plan.numerics.weights}"


def release_large(array: Array) -> None:
    """Release the pages of a large array; those of small ones wait for `release_files`."""
    if array.nbytes >= _LARGE_BYTES:
        release(array)


def packed(prepared: Prepared, weight: Array | ScaledTensor) -> PackedWeights:
    """Pack weights; keep the unpacked ones, in their file if possible, only if loops read them."""
    array = weight if isinstance(weight, np.ndarray) else weight.numpy()
    numerics = prepared.plan.numerics
    # Floating-point weights have the type of the arrays; packing converts them.
    kind = numerics.weights if numerics.exact else numerics.source
    array = as_type(array, array_dtype(kind))
    array = as_bits(array) if kind == "bf16" else array
    ready = plain(array)
    keep = array if array.flags.c_contiguous else ready
    return PackedWeights(prepared, ready, keep=keep, consume=ready is not array)
