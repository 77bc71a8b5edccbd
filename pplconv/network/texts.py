"""Quotes texts of model files in messages."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: object) -> str:
    r"""Escape what moves a terminal's cursor, changes its colours or ends a line.

    Parameters
    ----------
    text : object
        A name of a model file, or an error of others that may quote one.

    Returns
    -------
    str
        Its text, with escapes such as ``\x1b`` in place of what is no printable character.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in shown
    )
