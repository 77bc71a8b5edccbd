"""One case: the call made, and what came of it judged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

import pplconv
from pplconv.planner import estimating
from tests.api.buffers import GuardedOutput, untouched
from tests.api.candidates import TINY
from tests.api.problems import stated_by
from tests.fuzz import refusals
from tests.fuzz.arrays import dress
from tests.fuzz.case import Case, Finding, Spoiled
from tests.fuzz.wisdom_files import wisdom_file
from tests.reference import HALF_ULP

# Teams are worth it from so few operations on, or tiny problems would not have any.
LEAST_SHARE = 2_000.0  # flops of a thread: even small problems have teams
# Outputs from which on the bounds that plans state are promised (docs/accuracy.md).
ENOUGH_FOR_BOUNDS = 1000


@dataclass(frozen=True)
class Outcome:
    """What a case was, for the figures.

    Parameters
    ----------
    algorithm : str
        Of the plan; of a call that shows none, ``"not shown"``.
    refusal : str or None
        Why it was refused.
    teams : int
        How many teams computed it.
    """

    algorithm: str
    refusal: str | None = None
    teams: int = 1


@contextmanager
def _other_machine(tiny: bool) -> Iterator[None]:
    """Let plans be made for tiny problems as they are for large ones."""
    real, least = estimating._context, estimating.least_share

    estimating.least_share = lambda around, start: LEAST_SHARE
    if tiny:
        estimating._context = _small(real)
    try:
        yield
    finally:
        estimating._context, estimating.least_share = real, least


@lru_cache(maxsize=1)
def _small(real: Any) -> Any:
    @lru_cache(maxsize=256)
    def small(*arguments: Any) -> Any:
        around = real(*arguments)
        return around and replace(around, machine=replace(around.machine, **TINY))

    return small


def check(case: Case) -> Outcome:
    """Make the call of a case.

    Raises
    ------
    Finding
        If anything about it is not as documented.
    """
    with ExitStack() as stack:
        stack.enter_context(_other_machine(case.tiny and not case.keeps_plans))
        stack.enter_context(case.around())
        try:
            bits = stack.enter_context(wisdom_file(case)) if case.wisdom else None
            return _check(case, bits)
        except Finding:
            raise
        except AssertionError as error:
            raise Finding(str(error)) from error
        except Exception as error:
            raise Finding(f"{type(error).__name__}: {error}") from error


def _check(case: Case, bits: str | None) -> Outcome:
    operands = {name: dress(a, case.forms[name]) for name, a in case.operands().items()}
    guarded = None
    if case.out is not None:
        guarded = GuardedOutput(case.output_shape, case.problem.dtype, case.out)
    out = None if guarded is None else guarded.array
    arguments = {**case.arguments}
    spoiled = refusals.spoil(case, operands, arguments, out) if case.spoiled else None
    if spoiled is not None:
        out = spoiled.out
    inputs = [a for a in operands.values() if hasattr(a, "tobytes")]
    before = out.tobytes() if spoiled is not None and isinstance(out, np.ndarray) else None
    try:
        with untouched(*inputs):
            y, plan = _call(case, operands, arguments, out)
    except (TypeError, ValueError) as error:
        if guarded is not None:
            guarded.assert_margins_intact()
        if before is not None and out.tobytes() != before:
            raise Finding(f"out was written by a call that was refused: {error}") from error
        return Outcome("refused", refusal=_refusal(case, spoiled, error))
    if spoiled is not None:
        raise Finding(f"taken in spite of {case.spoiled}: {spoiled}")
    if (reason := case.predicted()) is not None:
        raise Finding(f"taken, but {reason.text}")
    if guarded is not None:
        guarded.assert_margins_intact()
        if y is not out:
            raise Finding("out was given and something else returned")
    _check_result(case, y, plan)
    if plan is not None and bits is not None and plan.bits != bits:
        raise Finding(f"wisdom says {bits}, the plan {plan.bits}")
    teams = 1
    if case.other_team is not None:
        teams = 2
        _check_team(case, operands, y, plan)
    return Outcome("not shown" if plan is None else plan.algorithm, teams=teams)


def _call(
    case: Case, operands: dict[str, Any], arguments: dict[str, Any], out: Any
) -> tuple[np.ndarray, pplconv.Plan | None]:
    return case.make(operands, arguments, out)


def _check_result(case: Case, y: np.ndarray, plan: pplconv.Plan | None) -> None:
    if type(y) is not np.ndarray or y.dtype != case.problem.dtype or y.shape != case.output_shape:
        raise Finding(f"gives {type(y).__name__} of {y.dtype} and {y.shape}")
    if not (y.flags.c_contiguous and y.flags.aligned and y.flags.writeable):
        raise Finding("gives an array that is not plain")
    if plan is not None:
        _check_plan(case, plan)
    y, expected = case.in_order(y), case.expected()
    wrong = expected.difference(y, 0.0)
    if wrong is not None:
        # Most are direct sums: only here is it worth asking for a plan that was not shown.
        plan = plan or case.plan()
        stated = _stated(plan)
        if not stated or (wrong := expected.difference(y, stated)) is not None:
            raise Finding(f"{wrong}\n{plan}")
    if plan is not None and case.ordinary and y.size >= ENOUGH_FOR_BOUNDS:
        error = expected.error(y)
        if error > plan.error_bound:
            raise Finding(f"an error of {error:.3g} where {plan.error_bound:.3g} is stated\n{plan}")


def _stated(plan: pplconv.Plan | None) -> float:
    """What a plan says of its error, if its sums are not to be judged by their length."""
    if plan is None:
        return 0.0
    return plan.error_bound if plan.compute == "f16" else stated_by(plan)


def _check_plan(case: Case, plan: pplconv.Plan) -> None:
    options = case.problem.options
    algorithm, most = options.get("algorithm", "auto"), options.get("max_workspace")
    tolerance = options.get("tolerance", 1e-5)
    if algorithm not in ("auto", plan.algorithm):
        raise Finding(f"computed by {plan.algorithm}")
    if most is not None and plan.scratch_bytes > most:
        raise Finding(f"scratch of {plan.scratch_bytes} bytes with max_workspace={most}")
    if options["threads"] is not None and plan.threads > options["threads"]:
        raise Finding(f"a team of {plan.threads} threads")
    # The tolerance does not cover the rounding of the result.
    rounding = HALF_ULP * (1 + tolerance) if plan.dtype == "f16" else 0.0
    if plan.algorithm == "winograd" and plan.error_bound > tolerance + rounding:
        raise Finding(f"states an error of {plan.error_bound}")


def _check_team(
    case: Case, operands: dict[str, Any], y: np.ndarray, plan: pplconv.Plan | None
) -> None:
    """The same call with another team: the same bits, by plan and by bytes."""
    options = {**case.problem.options, "threads": case.other_team}
    other = replace(case, problem=replace(case.problem, options=options), out=None)
    again, another = _call(other, operands, {**other.arguments}, None)
    if plan is not None and another is not None and another.bits != plan.bits:
        raise Finding(f"{plan.threads} threads: {plan.bits}; {another.threads}: {another.bits}")
    if again.tobytes() != y.tobytes():
        raise Finding(f"other bytes with another team\n{plan}\n\n{another}")


def _refusal(case: Case, spoiled: Spoiled | None, error: Exception) -> str:
    """Why a call was refused, if it should have been."""
    text = str(error)
    reason = case.predicted()
    for fits in (spoiled, reason):
        if (
            fits is not None
            and isinstance(error, fits.error)
            and re.search(rf"\b(?:{fits.names})\b", text)
        ):
            return fits.text
    if reason is None:
        if isinstance(error, ValueError) and "its stated error is" in text:
            return "tolerance"
        least = re.match(r"max_workspace must be at least (\d+) bytes", text)
        most = case.problem.options.get("max_workspace")
        if least and most is not None and most < int(least[1]):
            if spoiled is None:  # else it was said of other arguments than the case's
                _check_least(case, int(least[1]))
            return "max_workspace"
    expected = spoiled or reason
    raise Finding(f"refused: {type(error).__name__}: {text}\nexpected: {expected}")


def _check_least(case: Case, least: int) -> None:
    """A workspace that is said to be enough must be enough."""
    try:
        plan = case.plan(max_workspace=least)
    except ValueError as error:
        raise Finding(f"max_workspace={least} was said to do, and then: {error}") from error
    if plan is not None and plan.scratch_bytes > least:
        raise Finding(
            f"max_workspace={least} was said to do, and the plan uses {plan.scratch_bytes}"
        )
