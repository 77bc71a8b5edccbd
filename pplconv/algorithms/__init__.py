"""What can be planned: one module an algorithm, each with ``supports`` and ``candidates``.

===================  ===========================================================================
``pointwise.py``     1x1 as a matrix product on the user's array
``im2col.py``        any convolution, tiles of pixels packed into scratch
``tiled.py``         the candidates of both: tiles, blocks, segments
``nest.py``          one candidate of the GEMM nest, with its memory
===================  ===========================================================================

To add an algorithm, add a module and name it in `ALGORITHMS`, most specialised first.
"""

from __future__ import annotations

from . import im2col, pointwise
from .nest import Nest
from .tiled import Surroundings

ALGORITHMS = {module.NAME: module for module in (pointwise, im2col)}

__all__ = ["ALGORITHMS", "Nest", "Surroundings"]
