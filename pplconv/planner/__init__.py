"""The planner: which algorithm, kernel, blocks and team a problem gets.

=====================  ===========================================================================
``plan.py``            `Plan`, the frozen answer; ``plan_fields.py``: its fields
``planning.py``        `make_plan`: wisdom first, else the estimate or a search
``estimating.py``      candidates, ranked by the cost model
``describing.py``      a ranked candidate as a plan
``pricing.py``         least costs, for choices between plans
``sparsity_gains.py``  dense against sparse candidates: the gain of leaving zeros out
``target.py``          `Target`: machine and kernels that plans are made for
``searching.py``       candidates, measured
``racing.py``          timing candidates in turns: which ones, for how long, which one wins
``measuring.py``       a plan found among this process's candidates, and timed
``roofs.py``           lower bounds of a plan's time
``showing.py``         a plan as bars
=====================  ===========================================================================
"""

from __future__ import annotations

from ..algorithms import WITHOUT_ZEROS, asked_in_turn
from ..machine import current as current_machine
from .estimating import (
    SEARCHES,
    Request,
    best_isa,
    brain_isa,
    check_algorithm,
    check_search,
    default_context,
    default_tolerance,
    environment,
    paying_team,
    share,
    team_and_settings,
    team_size,
)
from .plan import Plan, as_run_here
from .planning import (
    SEARCH_CONTEXTS,
    SEARCH_SECONDS,
    Planned,
    check_search_context,
    make_cheapest_plan,
    make_plan,
    plan_problem,
)
from .pricing import (
    band_bytes,
    converting_cycles,
    kept_bytes,
    least_cycles,
    narrowing_cycles,
    staying_cycles,
    turning_cycles,
)
from .target import Target

__all__ = [
    "SEARCHES",
    "SEARCH_CONTEXTS",
    "SEARCH_SECONDS",
    "WITHOUT_ZEROS",
    "Plan",
    "Planned",
    "Request",
    "Target",
    "as_run_here",
    "asked_in_turn",
    "band_bytes",
    "best_isa",
    "brain_isa",
    "check_algorithm",
    "check_search",
    "check_search_context",
    "converting_cycles",
    "current_machine",
    "default_context",
    "default_tolerance",
    "environment",
    "kept_bytes",
    "least_cycles",
    "make_cheapest_plan",
    "make_plan",
    "narrowing_cycles",
    "paying_team",
    "plan_problem",
    "share",
    "staying_cycles",
    "team_and_settings",
    "team_size",
    "turning_cycles",
]
