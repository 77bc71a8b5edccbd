"""The planner: which algorithm, kernel, blocks and team a problem gets.

===================  ===========================================================================
``plan.py``          `Plan`, the frozen answer
``estimating.py``    `make_plan`: candidates, estimated, the best of them
===================  ===========================================================================
"""

from __future__ import annotations

from .estimating import check_algorithm, check_search, make_plan
from .plan import Plan

__all__ = ["Plan", "check_algorithm", "check_search", "make_plan"]
