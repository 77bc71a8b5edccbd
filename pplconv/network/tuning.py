"""The plans of a network, for searches that find better ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._records import record
from ..problem import ConvProblem
from .session import InferenceSession

__all__ = ["Search", "searches"]


@record(frozen=True)
class Search:
    """One plan of a network.

    Parameters
    ----------
    problem : ConvProblem
        The problem, in the network's layout.
    algorithm : str
        The only permitted algorithm, or ``"auto"``.
    epilogue : str
        Cost class of the epilogue.
    threads : int or None
        Size of the team.
    """

    problem: ConvProblem
    algorithm: str
    epilogue: str
    threads: int | None


def searches(session: InferenceSession, inputs: Mapping[str, Any]) -> list[Search]:
    """List the plans that a network needs, each once.

    Parameters
    ----------
    session : InferenceSession
        The network.
    inputs : mapping of str to tuple of int or array_like
        As `InferenceSession.plan_for` takes them.
    """
    session.plan_for(inputs)
    compiled, _ = next(reversed(session._network.programs.values()))
    return [Search(*key) for key in compiled.planned]
