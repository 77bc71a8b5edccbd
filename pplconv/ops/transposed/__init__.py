"""Transposed convolutions in terms of ordinary ones.

======================  ==========================================================================
``transposed_problem``  arguments, checked and made into a problem
``phases``              the ordinary convolutions that a transposed one consists of, in numbers
``tap_runs``            taps that lie in a row, for strides larger than the kernel
``transposed_ways``     ways to compute it, and where arrays of each lie
``transposing``         the cheapest way, and its plans
``transposed_report``   `TransposedPlan`: how it is computed, for people
``transposed``          weights packed, and steps compiled for one team
======================  ==========================================================================
"""
