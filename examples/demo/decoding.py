"""From the networks' probabilities to characters, and to whether a line is upside down."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from examples.demo.errors import DemoError

__all__ = ["LEAST_TURNED", "alphabet_of", "decode", "stands_on_its_head"]

LEAST_TURNED = 0.9
"""Probability above which a line counts as upside down."""


def alphabet_of(path: Path) -> tuple[str, ...]:
    """Read the characters of a recogniser out of its model file.

    Parameters
    ----------
    path : Path
        An ONNX file whose metadata has them, one in each line, under ``character``.

    Returns
    -------
    tuple of str
        The text of each class: nothing (CTC's blank), the characters, a space.

    Raises
    ------
    DemoError
        If the model has no such metadata.
    """
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    for entry in model.metadata_props:
        if entry.key == "character":
            # Some characters are ends of lines to `str.splitlines`.
            return ("", *entry.value.removesuffix("\n").split("\n"), " ")
    raise DemoError(f"{path} does not say which characters it knows")


def decode(probabilities: np.ndarray, alphabet: Sequence[str]) -> tuple[str, float]:
    """Read a line: the likeliest class at each place, repetitions and blanks left out.

    That is the greedy decoding of connectionist temporal classification (Graves et al., 2006).

    Parameters
    ----------
    probabilities : ndarray of shape (places, classes)
        From left to right.
    alphabet : sequence of str
        The text of each class; the first is the blank.

    Returns
    -------
    text : str
        The text.
    score : float
        Mean probability of its characters; 0 if there are none.

    Raises
    ------
    DemoError
        If there are more or fewer classes than the alphabet has.
    """
    if probabilities.shape[1] != len(alphabet):
        raise DemoError(
            f"the recogniser knows {probabilities.shape[1]} classes, its alphabet {len(alphabet)}"
        )
    best = probabilities.argmax(axis=1)
    kept = best != 0
    kept[1:] &= best[1:] != best[:-1]
    text = "".join(alphabet[index] for index in best[kept])
    score = float(probabilities[kept, best[kept]].mean()) if kept.any() else 0.0
    return text, score


def stands_on_its_head(probabilities: np.ndarray) -> bool:
    """Tell whether a line must be turned by 180 degrees.

    Parameters
    ----------
    probabilities : ndarray of shape (2,)
        That it stands upright, and that it does not.

    Returns
    -------
    bool
    """
    return bool(probabilities[1] > LEAST_TURNED)
