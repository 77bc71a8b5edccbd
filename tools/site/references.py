"""What a name in a docstring means that is no name of this project.

A name in single backticks must lead to something in the reference, or warnings make the build fail.
Names of other projects, of Python's own library, and of parts of pplconv that are not public are
no mistakes: they stand as code.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes

# The first part of a dotted name.
_OTHERS = {"numpy", "np", "scipy", "torch", "onnx", "onnxruntime", "skimage", "cv2", "dask", "ray"}


def connect(app: Any) -> None:
    """Have Sphinx ask `_resolve` about each reference that leads nowhere."""
    app.connect("missing-reference", _resolve)


def _resolve(app: Any, env: Any, node: Any, content: Any) -> nodes.Node | None:
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or target.partition(".")[0] not in _OTHERS:
        return None
    return nodes.literal(target, target)
