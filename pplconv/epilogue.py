"""The table of activations: what each costs a plan, and what kernels call it.

Bias and residual are no part of it: they happen in the store, whatever comes after. What stands
here is all that the rooms above may ask of a kind; how a caller names it is said in
``api/activation.py``, and what it computes in the contract of the kernels.
"""

from __future__ import annotations

from typing import NamedTuple

from ._kernels import ACTIVATIONS

COST_CLASSES = ("none", "slope", "exp")
"""What follows the sums, as far as it costs time of its own: nothing but the store, another pass
over the tile, or one with exponentials. Plans are searched and remembered for each class."""

IN_STORE = 0
"""What the loops are told where no pass follows the store."""


class Kind(NamedTuple):
    """One kind of activation.

    Parameters
    ----------
    cost : str
        One of `COST_CLASSES`.
    code : int
        What the loops are told (``Tensors.activation``): `IN_STORE`, or a value of the contract.
    """

    cost: str
    code: int


KINDS = {
    "none": Kind("none", IN_STORE),
    "clip": Kind("none", IN_STORE),
    "leaky_relu": Kind("slope", ACTIVATIONS["LEAKY"]),
    # Rows of the tile or columns: the loops know where channels lie, and change it to suit.
    "prelu": Kind("slope", ACTIVATIONS["PRELU_ROW"]),
    "hardswish": Kind("slope", ACTIVATIONS["HARDSWISH"]),
    "sigmoid": Kind("exp", ACTIVATIONS["SIGMOID"]),
    "silu": Kind("exp", ACTIVATIONS["SILU"]),
}

TRIED = {"none": "none", "slope": "leaky_relu", "exp": "silu"}
"""Which kind stands for a class in the trials of a search: one that reads no more than a single
slope, as trials have no channels' slopes."""
