"""Layers of networks on a command line: texts, and files of them."""

from __future__ import annotations

import re
from pathlib import Path

from ..matrix_problem import MatrixProblem
from ..problem import ConvProblem, Problem, split_name


def read_convolutions(shapes: list[str], dtype: str) -> list[tuple[str, ConvProblem]]:
    """Read layers as `read_layers` does, and refuse matrix products.

    Raises
    ------
    OSError, ValueError
        As `read_layers`.
    """
    found = []
    for name, problem in read_layers(shapes, dtype):
        if not isinstance(problem, ConvProblem):
            raise ValueError(f"{name!r} is a matrix product: expected convolutions")
        found.append((name, problem))
    return found


def read_layers(shapes: list[str], dtype: str) -> list[tuple[str, Problem]]:
    """Read layers and files of layers.

    Parameters
    ----------
    shapes : list of str
        Convolutions as oneDNN's benchdnn writes them and matrix products such as m64n512k256, or
        files with one in each line; blank lines and lines that begin with # are left out.
    dtype : str
        Type of all layers.

    Returns
    -------
    list of (str, Problem)
        Names and problems; a layer without a name is named by its sizes.

    Raises
    ------
    OSError, ValueError
        If a file cannot be read, or a text is no layer; the message says where.
    """
    found = []
    for text in shapes:
        path = Path(text)
        if not path.is_file():
            try:
                found.append(_layer(text, dtype))
            except ValueError as error:
                raise ValueError(f"{text!r} is no file and no layer: {error}") from None
            continue
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            raise ValueError(f"{text} is no file of layers: it is not UTF-8") from None
        for number, line in enumerate(lines, start=1):
            if not line.strip() or line.strip().startswith("#"):
                continue
            try:
                found.append(_layer(line, dtype))
            except ValueError as error:
                raise ValueError(f"{text}, line {number}: {error}") from None
    return found


def _layer(text: str, dtype: str) -> tuple[str, Problem]:
    sizes, name = split_name(text)
    if re.fullmatch(r"(?:mb\d+)?(?:g\d+)?m\d.*", sizes):  # no field of a convolution is called m
        return name or sizes, MatrixProblem.parse(sizes, dtype)
    return name or sizes, ConvProblem.parse(text, dtype)
