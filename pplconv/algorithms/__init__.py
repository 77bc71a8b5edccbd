"""The algorithms, a module for each, with functions ``supports`` and ``candidates``.

=======================  =======================================================================
``depthwise.py``         one input channel for each output channel
``depthwise_large.py``   cost of such kernels of many taps
``depthwise_bytes.py``   depthwise convolution of bytes, exact
``*_candidate.py``       the cut into tasks that these two share
``winograd.py``          2x2 and larger kernels at stride 1 with fewer products
``direct.py``            any convolution without im2col
``pointwise.py``         1x1 as a matrix product on the user's array
``im2col.py``            any convolution, tiles of pixels packed into scratch
``sparse.py``            any convolution or product whose weights are sparse
``planes.py``            im2col of few channels in NCHW without its copies
``gemm.py``              the matrix product
``tiled.py``             candidates of the GEMM nest: tiles, blocks, segments
``nest.py``              one candidate of the GEMM nest (pointwise, im2col, gemm)
``*_blocking.py``        tile, blocks and segments of one candidate, with their memory
``*_cost.py``            cost estimate of one candidate
``candidate.py``         `Candidate`: the interface of all candidates for planner and loops
``core_model.py``        `CoreModel`: the core as cost estimates see it
``error_bounds.py``      how far each method may be from float64
=======================  =======================================================================

To add an algorithm, add a module and name it in `ALGORITHMS`, most specialised first, or in
`MATRIX_ALGORITHMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from .._lazy import functions_later
from ..matrix_problem import MatrixProblem
from ..numerics import Numerics
from ..problem import ConvProblem, Problem
from ..sparsity import WITHOUT_ZEROS
from . import depthwise, direct, gemm, im2col, pointwise, winograd
from .candidate import Candidate, KernelKey
from .context import PlanContext, SparseTiles
from .core_model import CoreModel
from .depthwise_candidate import BYTE_PRODUCTS
from .nest import Nest

if TYPE_CHECKING:
    from . import sparse as _sparse
else:
    _sparse = functions_later(__package__, "sparse")

# For convolutions; `algorithm=` takes these names.
ALGORITHMS = {
    depthwise.NAME: depthwise,
    WITHOUT_ZEROS: _sparse,
    **{module.NAME: module for module in (pointwise, winograd, direct, im2col)},
}
# For matrix products.
MATRIX_ALGORITHMS = {gemm.NAME: gemm, WITHOUT_ZEROS: _sparse}

_KINDS: dict[str, type[Candidate]] = {
    depthwise.NAME: depthwise.Depthwise,
    pointwise.NAME: Nest,
    winograd.NAME: winograd.Winograd,
    direct.NAME: direct.Direct,
    im2col.NAME: Nest,
    gemm.NAME: Nest,
}


def serving(problem: Problem) -> dict[str, ModuleType]:
    """Return the algorithms that ``"auto"`` may choose for a problem, by name."""
    matrix = isinstance(problem, MatrixProblem)
    found: dict[str, ModuleType] = dict(MATRIX_ALGORITHMS if matrix else ALGORITHMS)
    if problem.sparsity is None:
        del found[WITHOUT_ZEROS]
    if isinstance(problem, MatrixProblem):
        return found
    if not winograd.volunteers(problem):
        del found[winograd.NAME]
    return found


def kind_of(algorithm: str) -> type[Candidate]:
    """Return the class of an algorithm's candidates, for properties of the whole algorithm.

    These are `Candidate.leaves_zeros_out` and `Candidate.transforms`.
    """
    if algorithm == WITHOUT_ZEROS:
        from .sparse import Sparse

        return Sparse
    return _KINDS[algorithm]


def floor_beside(
    name: str, problem: Problem, around: PlanContext, core: CoreModel,
    known: Callable[[str], Iterable[Mapping[str, float]] | None],
) -> float:  # fmt: skip
    """Give a bound of what an algorithm's candidates cost on one thread, from below.

    Parameters
    ----------
    name : str
        The algorithm, which serves the problem.
    problem : Problem
        The problem to compute.
    around : PlanContext
        Machine, kernels and types.
    core : CoreModel
        Of `around`.
    known : callable
        Takes another algorithm's name, and gives the costs of its candidates on one thread, term by
        term; None if they are not known.
    """
    if name == im2col.NAME and isinstance(problem, ConvProblem):
        costs = known(pointwise.NAME)
        if costs is not None:
            return im2col.floor_beside(problem, around, core, costs)
    return 0.0


def only_for(numerics: Numerics) -> str | None:
    """Name the one algorithm that has kernels for a kind of product; None if several have."""
    return depthwise.NAME if numerics.product in BYTE_PRODUCTS else None


def asked_in_turn(wanted: str, finite: bool) -> tuple[str, ...]:
    """Name the algorithms to ask for, in turn, until the loops can walk the caller's arrays.

    Parameters
    ----------
    wanted : str
        A name, or ``"auto"``.
    finite : bool
        Whether all weights are finite. If not, no algorithm is named that may multiply padding.

    Returns
    -------
    tuple of str
        The one after ``"auto"`` takes arrays that other algorithms cannot.
    """
    if not finite and wanted in ("auto", im2col.NAME):
        return (direct.NAME,)
    return (wanted, direct.NAME) if wanted == "auto" else (wanted,)


__all__ = [
    "ALGORITHMS",
    "MATRIX_ALGORITHMS",
    "Candidate",
    "CoreModel",
    "KernelKey",
    "PlanContext",
    "SparseTiles",
    "asked_in_turn",
    "floor_beside",
    "kind_of",
    "only_for",
    "serving",
]
