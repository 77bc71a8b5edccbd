"""What can be planned: one module an algorithm, each with ``supports`` and ``candidates``.

=======================  =======================================================================
``depthwise.py``         one input channel for each output channel
``depthwise_bytes.py``   the same of bytes, exact
``*_candidate.py``       what these two share
``winograd.py``          3x3 and 5x5 at stride 1 with fewer products
``direct.py``            any convolution without im2col
``pointwise.py``         1x1 as a matrix product on the user's array
``im2col.py``            any convolution, tiles of pixels packed into scratch
``sparse.py``            any convolution or product whose weights are sparse
``planes.py``            im2col of few channels in NCHW without its copies
``gemm.py``              the matrix product
``tiled.py``             the candidates of these three: tiles, blocks, segments
``nest.py``              one candidate of the GEMM nest
``*_blocking.py``        tile, blocks and segments of one candidate, with their memory
``*_cost.py``            what such a candidate costs
``lazy.py``              `lazy`: an attribute computed when it is first asked for
``candidate.py``         `Candidate`: what planner and loops want to know of any of them
``core_model.py``        `CoreModel`: what the estimates know of a core
``error_bounds.py``      how far each method may be from float64
=======================  =======================================================================

To add an algorithm, add a module and name it in `ALGORITHMS`, most specialised first, or in
`MATRIX_ALGORITHMS`.
"""

from __future__ import annotations

from types import ModuleType

from ..matrix_problem import MatrixProblem
from ..numerics import Numerics
from ..problem import Problem
from . import depthwise, depthwise_bytes, direct, gemm, im2col, pointwise, sparse, winograd
from .candidate import Candidate, KernelKey
from .context import PlanContext, SparseTiles
from .core_model import CoreModel
from .nest import Nest

# For convolutions; `algorithm=` takes these names.
ALGORITHMS = {
    module.NAME: module for module in (depthwise, sparse, pointwise, winograd, direct, im2col)
}
# For matrix products.
MATRIX_ALGORITHMS = {gemm.NAME: gemm, sparse.NAME: sparse}
# The name to ask for where zeros are to be left out.
WITHOUT_ZEROS = sparse.NAME

_KINDS: dict[str, type[Candidate]] = {
    depthwise.NAME: depthwise.Depthwise,
    sparse.NAME: sparse.Sparse,
    pointwise.NAME: Nest,
    winograd.NAME: winograd.Winograd,
    direct.NAME: direct.Direct,
    im2col.NAME: Nest,
    gemm.NAME: Nest,
}


def serving(problem: Problem) -> dict[str, ModuleType]:
    """Return the algorithms that may be chosen for a problem without being asked for, by name."""
    matrix = isinstance(problem, MatrixProblem)
    found: dict[str, ModuleType] = dict(MATRIX_ALGORITHMS if matrix else ALGORITHMS)
    if problem.sparsity is None:
        del found[sparse.NAME]
    if isinstance(problem, MatrixProblem):
        return found
    if not winograd.volunteers(problem):
        del found[winograd.NAME]
    return found


def kind_of(algorithm: str) -> type[Candidate]:
    """Give the kind of candidate that says what holds for a whole algorithm, by its name.

    These are `Candidate.leaves_zeros_out` and `Candidate.transforms`.
    """
    return _KINDS[algorithm]


def only_for(numerics: Numerics) -> str | None:
    """Name the one algorithm that has kernels for a kind of product; None if several have."""
    return depthwise.NAME if numerics.product in depthwise_bytes.PRODUCTS else None


def asked_in_turn(wanted: str, finite: bool) -> tuple[str, ...]:
    """Name the algorithms to ask for, in turn, until the loops can walk the caller's arrays.

    Parameters
    ----------
    wanted : str
        A name, or ``"auto"``.
    finite : bool
        Whether all weights are finite. If not, none is named that may multiply padding.

    Returns
    -------
    tuple of str
        The last one after ``"auto"`` walks arrays that others cannot.
    """
    if not finite and wanted in ("auto", im2col.NAME):
        return (direct.NAME,)
    return (wanted, direct.NAME) if wanted == "auto" else (wanted,)


__all__ = [
    "ALGORITHMS",
    "MATRIX_ALGORITHMS",
    "WITHOUT_ZEROS",
    "Candidate",
    "CoreModel",
    "KernelKey",
    "PlanContext",
    "SparseTiles",
    "asked_in_turn",
    "kind_of",
    "only_for",
    "serving",
]
