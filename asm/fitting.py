"""Tiles that do not fit an instruction set: one place where all generators refuse them."""

from __future__ import annotations

from collections.abc import Collection

from asm.registry import ISAS, Kernel

VECTORS = "vector registers"


def require(kernel: Kernel, needed: int, there: int | None = None, kind: str = VECTORS) -> None:
    """Refuse a kernel whose tile needs more registers than there are.

    Every generator calls it as soon as it knows how many registers of a kind the tile takes.

    Parameters
    ----------
    kernel : Kernel
        The kernel that is to be generated.
    needed : int
        Registers that its tile takes.
    there : int, optional
        Registers that the generator may use for the tile; by default, all vector registers of the
        instruction set.
    kind : str, optional
        Name of these registers in the message.

    Raises
    ------
    ValueError
        If `needed` is more than `there`.
    """
    if there is None:
        there = ISAS[kernel.isa].vector_registers
    if needed > there:
        raise ValueError(f"{_tile(kernel)} needs {needed} {kind}, and there are {there}")


def require_vectors(kernel: Kernel, allowed: Collection[int]) -> None:
    """Refuse a kernel if its instructions do not support its number of vectors a row.

    Parameters
    ----------
    kernel : Kernel
        The kernel that is to be generated.
    allowed : collection of int
        Numbers of vectors a row that the instructions support.

    Raises
    ------
    ValueError
        If the kernel's number of vectors is not in `allowed`.
    """
    if kernel.vectors not in allowed:
        numbers = ", ".join(map(str, allowed))
        raise ValueError(f"{_tile(kernel)} is none of those with {numbers} vectors a row")


def _tile(kernel: Kernel) -> str:
    vectors = f"{kernel.vectors} vector{'s' * (kernel.vectors > 1)} a row"
    tile = f"a tile of {kernel.mr} x {kernel.nr} ({vectors}) on {kernel.isa}"
    return f"{kernel.symbol}: {tile}"
