"""Pickles of version 0.2.0 look here for `TransposedPlan`."""

from ..ops.transposed.transposed_report import TransposedPlan

__all__ = ["TransposedPlan"]
