"""The names that a file has for open sizes, kept with its inputs and outputs."""

from __future__ import annotations

import json

from .onnx_later import ir

__all__ = ["keep_names", "kept_names"]

# Of a value's metadata.
_NAMES = "pplconv.sizes"


def keep_names(value: ir.Value, count: int = 0) -> None:
    """Keep the names of a value's open sizes, as the file has them, with the value.

    Parameters
    ----------
    value : ir.Value
        Whose shape is about to change.
    count : int
        Number that its first open size gets.
    """
    names: list[str | None] = []
    numbered: dict[str, str] = {}
    for size in value.shape or ():
        name = None if isinstance(size, int) else size.value
        names.append(name)
        if not isinstance(size, int) or size < 0:
            if name:
                numbered[f"size_{count}"] = name
            count += 1
    value.metadata_props[_NAMES] = json.dumps([names, numbered])


def kept_names(value: ir.Value) -> tuple[list[str | None], dict[str, str]]:
    """Give the names of open sizes by axis, and those of an input by what `forget_shapes` named."""
    text = value.metadata_props.get(_NAMES)
    if text is None:
        return [], {}
    names, numbered = json.loads(text)
    return names, numbered
