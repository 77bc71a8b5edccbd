"""The planner: which algorithm, kernel, blocks and team a problem gets.

===================  ===========================================================================
``plan.py``          `Plan`, the frozen answer
``planning.py``      `make_plan`: wisdom first, else the estimate or a search
``estimating.py``    candidates, ranked by the cost model
``searching.py``     candidates, measured
===================  ===========================================================================
"""

from __future__ import annotations

from .estimating import check_algorithm, check_search, surroundings
from .plan import Plan
from .planning import SEARCH_SECONDS, make_plan

__all__ = ["SEARCH_SECONDS", "Plan", "check_algorithm", "check_search", "make_plan", "surroundings"]
