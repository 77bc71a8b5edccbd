"""Prepared operators: plans with their packed weights, and what runs them. Users call `api`.

====================  ============================================================================
``prepared``          a compiled plan and its packed weights, and one run of it
``ready``             compiled plans and packed weights of a layer, kept per input shape
``program``           steps that one team runs, in networks and transposed convolutions
``keys``              caches of plans, and arguments that can stand in a key
``border``, ``taps``  outputs at the border, for weights that are infinite or NaN
``extension``         padding made of the image's own pixels; ``edges`` says which
``placing``           plans for arrays that lie in larger ones
``strided_copies``    copies between arrays that lie in larger ones
``blocked``           `to_blocked`, `from_blocked`
``matrices``          products of matrices as problems
``transposed/``       transposed convolutions in terms of ordinary ones
``quantized/``        operators of integers
``sparse/``           sparse weights
====================  ============================================================================
"""
