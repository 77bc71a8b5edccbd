"""pplconv in other packages: replacements for their operators, and serving on their clusters.

Each module here needs packages that pplconv itself does not need, and uses only the public API of
pplconv. Users or a command import it; no other part of pplconv does:

=================  ===============================================================================
module             purpose
=================  ===============================================================================
`torch`            convolutions and linear layers of PyTorch's modules
`onnx_reference`   operators of the ONNX project's NumPy evaluator, `onnx.reference`
`dask`             pictures larger than memory, as dask arrays; `tiles`: how they are cut
`ray_serve`        replicas on a Ray cluster, with one copy of packed weights on each node
`asgi`             sessions over HTTP, on Starlette
`npy`              arrays as ``.npy`` files in memory, also from untrusted senders
=================  ===============================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["told"]


@contextmanager
def told(module: str, requirement: str) -> Iterator[None]:
    """Have errors of imports say what to install for a module of this room."""
    try:
        yield
    except ImportError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "pplconv"):
            raise  # a broken installation; no package mends that
        raise type(error)(
            f"pplconv.integrations.{module} needs {name}: pip install '{requirement}'", name=name
        ) from error
