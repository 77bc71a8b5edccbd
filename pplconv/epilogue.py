"""The table of activations: what each costs a plan, and what kernels call it.

Bias and residual are no part of it: they happen in the store, whatever comes after. The rooms above
need to know no more of a kind than this; ``api/activation.py`` says how a caller names it, and the
contract of the kernels says what it computes.
"""

from __future__ import annotations

from typing import NamedTuple

from ._kernels import INSTRUCTIONS

COST_CLASSES = ("none", "slope", "exp")
"""Classes of epilogues by what they cost: nothing but the store, another pass over the tile, or a
pass with exponentials. Plans are searched and remembered for each class."""

IN_STORE = 0
"""Instruction that tells the loops that no pass follows the store."""


class Kind(NamedTuple):
    """One kind of activation.

    Parameters
    ----------
    cost : str
        One of `COST_CLASSES`.
    code : int
        Instruction of the program that follows the store (``Follow.code``), or `IN_STORE`.
    """

    cost: str
    code: int


KINDS = {
    "none": Kind("none", IN_STORE),
    "clip": Kind("none", IN_STORE),
    "leaky_relu": Kind("slope", INSTRUCTIONS["SLOPE"]),
    "prelu": Kind("slope", INSTRUCTIONS["SLOPE"]),
    "hardswish": Kind("slope", INSTRUCTIONS["HARDSWISH"]),
    "sigmoid": Kind("exp", INSTRUCTIONS["SIGMOID"]),
    "silu": Kind("exp", INSTRUCTIONS["SILU"]),
}

TRIED = {"none": "none", "slope": "leaky_relu", "exp": "silu"}
"""The kind that stands for a class in the trials of a search. It reads one slope at most, as trials
have no slopes for channels."""
