"""`Settings`: all that a session's plans are made with."""

from __future__ import annotations

from dataclasses import replace

from .. import planner
from .._checks import one_of
from .._records import record
from ..arguments import checks
from ..ops.sparse.sparse_weights import checked_sparse

__all__ = ["FALLBACKS", "Settings"]

FALLBACKS = ("warn", "error", "silent")
"""Words for operators that only ONNX's reference computes."""

_WORDS = [word for word in checks.PRECISIONS if word is not None]


@record(frozen=True)
class Settings:
    """Settings of plans; see `InferenceSession`.

    Parameters
    ----------
    threads : int or None
        Size of the team; None: the process's threads.
    tolerance : float
        Error that plans may trade for speed.
    precision : str
        As of `InferenceSession`.
    search : str
        ``"estimate"``, ``"measure"`` or ``"exhaustive"``.
    max_workspace : int or None
        Bytes of scratch.
    sparse : bool or str
        ``"auto"``, or False to multiply zero weights like all others.
    max_memory : int or None
        Bytes that one run may take.
    """

    threads: int | None = None
    tolerance: float = 1e-5
    precision: str = "auto"
    search: str = "estimate"
    max_workspace: int | None = None
    sparse: bool | str = "auto"
    max_memory: int | None = None

    @classmethod
    def checked(
        cls, threads: object, tolerance: object, precision: str, search: object,
        max_workspace: object, sparse: object, max_memory: object = None,
    ) -> Settings:  # fmt: skip
        """Check the arguments of a session.

        Raises
        ------
        TypeError, ValueError
            If an argument is not as described; the message names it.
        """
        one_of("precision", precision, _WORDS)
        error = checks.check_tolerance(tolerance)
        if sparse is True:
            raise ValueError('sparse must be "auto" or False for a network, got True')
        chosen, _, _ = checked_sparse(sparse, None)
        return cls(
            checks.check_threads(threads),
            planner.default_tolerance() if error is None else error,
            precision, planner.check_search(search), checks.check_max_workspace(max_workspace),
            chosen, None if max_memory is None else checks.integer("max_memory", max_memory, 1),
        )  # fmt: skip

    def in_precision(self, precision: str) -> Settings:
        """Give the same settings with another precision.

        Raises
        ------
        ValueError
            If there is no such precision.
        """
        return replace(self, precision=one_of("precision", precision, _WORDS))
