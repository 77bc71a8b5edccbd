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
from blocks import lanes_of_no_channel, out_of_blocks
from buffers import GuardedOutput, untouched
from candidates import TINY
from fuzz.arrays import dress
from fuzz.cases import Case
from fuzz.exact import Expected
from fuzz.refusals import Spoiled, predicted, spoil
from fuzz.wisdom_files import wisdom_file
from pplconv.planner import estimating
from problems import stated_by
from reference import HALF_ULP

# Teams are worth it from so few operations on, or tiny problems would not have any.
LEAST_SHARE = 2_000.0  # flops of a thread: even small problems have teams


class Finding(Exception):
    """Something that should not be; the text says what."""


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
    # A plan of `conv2d` is kept for other calls, which are of this machine.
    tiny = case.tiny and case.call != "conv2d"
    with ExitStack() as stack:
        stack.enter_context(_other_machine(tiny))
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
    spoiled = spoil(case, operands, arguments, out) if case.spoiled else None
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
    if (reason := predicted(case)) is not None:
        raise Finding(f"taken, but {reason.text}")
    if guarded is not None:
        guarded.assert_margins_intact()
        if y is not out:
            raise Finding("out was given and something else returned")
    _check_result(case, y, plan)
    if plan is not None and bits is not None and plan.bits != bits:
        raise Finding(f"wisdom says {bits}, the plan {plan.bits}")
    teams = 1
    if case.other_team is not None and plan is not None:
        teams = 2
        _check_team(case, operands, y, plan)
    return Outcome("not shown" if plan is None else plan.algorithm, teams=teams)


def _call(
    case: Case, operands: dict[str, Any], arguments: dict[str, Any], out: Any
) -> tuple[np.ndarray, pplconv.Plan | None]:
    if case.call == "conv2d":
        return pplconv.conv2d(**operands, **arguments, out=out), None
    operands = dict(operands)
    x, residual = operands.pop("input"), operands.pop("residual")
    if case.call == "prepared":
        arguments["input_shape"] = case.input_shape
    conv = pplconv.Conv2d(**operands, **arguments)
    y = conv(x, residual, out)
    return y, conv.plan_for(case.input_shape)


def _check_result(case: Case, y: np.ndarray, plan: pplconv.Plan | None) -> None:
    if type(y) is not np.ndarray or y.dtype != case.problem.dtype or y.shape != case.output_shape:
        raise Finding(f"gives {type(y).__name__} of {y.dtype} and {y.shape}")
    if not (y.flags.c_contiguous and y.flags.aligned and y.flags.writeable):
        raise Finding("gives an array that is not plain")
    if plan is not None:
        _check_plan(case, plan)
    if case.block:
        channels = case.problem.out_channels
        if lanes_of_no_channel(y, channels).any():  # NaN counts
            raise Finding("lanes of no channel are not zero")
        y = out_of_blocks(y, channels)
    expected = Expected(case.problem, case.plain)
    wrong = expected.difference(y, 0.0)
    if wrong is not None:
        # Most are direct sums: only here is it worth asking for a plan that was not shown.
        if plan is None:
            plan = pplconv.Conv2d(case.plain["weight"], **case.arguments).plan_for(case.input_shape)
        stated = stated_by(plan)
        if not stated or (wrong := expected.difference(y, stated)) is not None:
            raise Finding(f"{wrong}\n{plan}")


def _check_plan(case: Case, plan: pplconv.Plan) -> None:
    options = case.problem.options
    algorithm, most = options["algorithm"], options.get("max_workspace")
    tolerance = options.get("tolerance", 1e-5)
    if algorithm not in ("auto", plan.algorithm):
        raise Finding(f"computed by {plan.algorithm}")
    if most is not None and plan.scratch_bytes > most:
        raise Finding(f"scratch of {plan.scratch_bytes} bytes with max_workspace={most}")
    if options["threads"] is not None and plan.threads > options["threads"]:
        raise Finding(f"a team of {plan.threads} threads")
    # The rounding of the result is not what the tolerance is of.
    rounding = HALF_ULP * (1 + tolerance) if plan.dtype == "f16" else 0.0
    if plan.algorithm == "winograd" and plan.error_bound > tolerance + rounding:
        raise Finding(f"states an error of {plan.error_bound}")


def _check_team(case: Case, operands: dict[str, Any], y: np.ndarray, plan: pplconv.Plan) -> None:
    """The same call with another team: the same bits, by plan and by bytes."""
    options = {**case.problem.options, "threads": case.other_team}
    other = replace(case, problem=replace(case.problem, options=options), out=None)
    again, another = _call(other, operands, {**other.arguments}, None)
    if another.bits != plan.bits:
        raise Finding(f"{plan.threads} threads: {plan.bits}; {another.threads}: {another.bits}")
    if again.tobytes() != y.tobytes():
        raise Finding(f"other bytes with another team\n{plan}\n\n{another}")


def _refusal(case: Case, spoiled: Spoiled | None, error: Exception) -> str:
    """Why a call was refused, if it should have been."""
    text = str(error)
    reason = predicted(case)
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
    conv = pplconv.Conv2d(case.plain["weight"], **{**case.arguments, "max_workspace": least})
    try:
        found = conv.plan_for(case.input_shape).scratch_bytes
    except ValueError as error:
        raise Finding(f"max_workspace={least} was said to do, and then: {error}") from error
    if found > least:
        raise Finding(f"max_workspace={least} was said to do, and the plan uses {found}")
