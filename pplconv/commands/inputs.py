"""Inputs of networks on command lines: shapes that are said there, and numbers at random."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .shape_texts import shapes_of

if TYPE_CHECKING:
    from ..network.interface import NodeArg

_DTYPES = {"tensor(float)": "float32", "tensor(double)": "float64"}


def add_shapes(parser: argparse.ArgumentParser) -> None:
    """Describe ``--shape`` to `parser`, which gives pairs of a name and a shape."""
    parser.add_argument(
        "--shape", type=_pairs, action="extend", default=[], metavar="NAME=1x3x640x640[,...]",
        help="shape of an input; once for each that has open sizes",
    )  # fmt: skip


def random_feed(
    inputs: Sequence[NodeArg], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, np.ndarray[Any, Any]]:
    """Make an array for each input: normal numbers, or zeros for types other than floats.

    Parameters
    ----------
    inputs : sequence of NodeArg
        Inputs, as the session lists them.
    shapes : mapping of str to tuple of int
        Shapes of inputs with open sizes, and of any other inputs.

    Returns
    -------
    dict of str to ndarray

    Raises
    ------
    ValueError
        If a size is not known, or a shape belongs to no input.
    """
    names = [value.name for value in inputs]
    for name in shapes:
        if name not in names:
            raise ValueError(f"--shape: the network has no input {name!r}, only {names}")
    random = np.random.default_rng(0)
    feed: dict[str, np.ndarray[Any, Any]] = {}
    for value in inputs:
        shape = shapes.get(value.name)
        if shape is None:
            known = tuple(size for size in value.shape if isinstance(size, int))
            if len(known) != len(value.shape):
                sizes = ",".join(
                    str(size) if isinstance(size, int) else "?" for size in value.shape
                )
                raise ValueError(
                    f"input {value.name!r} has open sizes: say --shape {value.name}={sizes} "
                    "with a number for each ?"
                )
            shape = known
        kind = value.type.removeprefix("tensor(").removesuffix(")")
        dtype = np.dtype(_DTYPES.get(value.type, kind))
        if dtype.kind == "f":
            feed[value.name] = random.standard_normal(shape, np.float32).astype(dtype, copy=False)
        else:
            feed[value.name] = np.zeros(shape, dtype)
    return feed


def _pairs(text: str) -> list[tuple[str, tuple[int, ...]]]:
    return list(shapes_of(text).items())


def check_writable(path: Path | None) -> None:
    """Refuse a file that could not be written, before there is anything to write.

    Raises
    ------
    ValueError
        If it is a folder, or if its folder does not exist.
    """
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"cannot write {path}: it is a folder")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"cannot write {path}: there is no folder {path.absolute().parent}")


def positive(words: str) -> int:
    """Read a count from a command line."""
    value = int(words) if words.isascii() and words.isdigit() else 0
    if not 1 <= value <= 65536:
        raise argparse.ArgumentTypeError(f"{words!r}: expected an integer from 1 to 65536")
    return value
