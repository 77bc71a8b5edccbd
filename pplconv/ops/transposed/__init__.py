"""Transposed convolutions in terms of ordinary ones.

======================  ==========================================================================
``transposed_problem``  arguments, checked and made into a problem
``phases``              the ordinary convolutions that a transposed one consists of, in numbers
``tap_runs``            runs of neighbouring taps, for strides larger than the kernel
``transposed_ways``     ways to compute it, with the arrays of each
``transposing``         the cheapest way, and its plans
``transposed_report``   `TransposedPlan`: the plan, for people
``transposed``          weights packed, and steps compiled for one team
======================  ==========================================================================
"""
