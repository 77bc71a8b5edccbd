"""``border=``: values of the pixels around an image."""

from __future__ import annotations

from .._checks import one_of

__all__ = ["BORDERS", "BORDERS_AS_MODES", "check_border"]

BORDERS = ("reflect101", "reflect", "replicate", "wrap", "constant")
"""Its values; docs/imaging.md has their names in other libraries."""

# Of SciPy, NumPy, scikit-image, PyTorch and OpenCV.
_OTHERS = {
    "mirror": "reflect101",
    "border_reflect_101": "reflect101",
    "symmetric": "reflect",
    "symm": "reflect",
    "grid-mirror": "reflect",
    "border_reflect": "reflect",
    "nearest": "replicate",
    "edge": "replicate",
    "extend": "replicate",
    "border_replicate": "replicate",
    "grid-wrap": "wrap",
    "circular": "wrap",
    "border_wrap": "wrap",
    "zeros": "constant",
    "fill": "constant",
    "grid-constant": "constant",
    "border_constant": "constant",
}
_HERE = {word: f"border={here!r}" for word, here in _OTHERS.items()}
BORDERS_AS_MODES = {**_HERE, **{word: f"border={word!r}" for word in BORDERS}}
"""Words of other libraries' ``mode=``, and the arguments that they are here."""


def check_border(border: object) -> str:
    """Return `border` if it is a known border.

    Raises
    ------
    ValueError
        Otherwise.
    """
    return one_of("border", border, BORDERS, others=_HERE)
