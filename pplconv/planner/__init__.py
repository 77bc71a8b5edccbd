"""The planner: which algorithm, kernel, blocks and team a problem gets.

=====================  ===========================================================================
``plan.py``            `Plan`, the frozen answer; ``plan_fields.py``: its fields
``planning.py``        `make_plan`: wisdom first, else the estimate or a search
``defaults.py``        what a call has that names no team or tolerance
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

from typing import TYPE_CHECKING

from .._lazy import on_demand

if TYPE_CHECKING:
    from ..algorithms import asked_in_turn
    from ..machine import current as current_machine
    from .defaults import (
        SEARCHES,
        check_search,
        default_tolerance,
        environment,
        share,
        team_and_settings,
        team_size,
    )
    from .estimating import (
        Request,
        best_isa,
        brain_isa,
        check_algorithm,
        default_context,
        paying_team,
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
    from .target import Target, moves_lanes

__all__ = [
    "SEARCHES",
    "SEARCH_CONTEXTS",
    "SEARCH_SECONDS",
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
    "moves_lanes",
    "narrowing_cycles",
    "paying_team",
    "plan_problem",
    "share",
    "staying_cycles",
    "team_and_settings",
    "team_size",
    "turning_cycles",
]

_NAMES = {
    ".algorithms": "asked_in_turn",
    "defaults": (
        "SEARCHES check_search default_tolerance environment share team_and_settings team_size"
    ),
    "estimating": "Request best_isa brain_isa check_algorithm default_context paying_team",
    "plan": "Plan as_run_here",
    "planning": (
        "Planned SEARCH_CONTEXTS SEARCH_SECONDS check_search_context make_cheapest_plan "
        "make_plan plan_problem"
    ),
    "pricing": (
        "band_bytes converting_cycles kept_bytes least_cycles narrowing_cycles staying_cycles "
        "turning_cycles"
    ),
    "target": "Target current_machine moves_lanes",
}

if not TYPE_CHECKING:
    __getattr__ = on_demand(__name__, _NAMES)
