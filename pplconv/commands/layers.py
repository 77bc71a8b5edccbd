"""Layers of networks on a command line: texts, and files of them."""

from __future__ import annotations

from pathlib import Path

from ..problem import ConvProblem, split_name


def read_layers(shapes: list[str], dtype: str) -> list[tuple[str, ConvProblem]]:
    """Read layers and files of layers.

    Parameters
    ----------
    shapes : list of str
        Layers as oneDNN's benchdnn writes them, or files with one in each line, blank lines and
        lines that begin with # left out.
    dtype : str
        Of all of them.

    Returns
    -------
    list of (str, ConvProblem)
        Names, the sizes where a layer has none, and problems.

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


def _layer(text: str, dtype: str) -> tuple[str, ConvProblem]:
    sizes, name = split_name(text)
    return name or sizes, ConvProblem.parse(text, dtype)
