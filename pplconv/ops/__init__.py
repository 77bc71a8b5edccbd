"""Prepared operators: plans with packed weights, and the code that runs them. Users call `api`.

====================  ============================================================================
``prepared``          a compiled plan and its packed weights, and one run of it
``ready``             compiled plans and packed weights of a layer, kept per input shape
``program``           steps that one team runs, in networks and transposed convolutions
``keys``              caches of plans, and arguments that can stand in a key
``border``, ``taps``  outputs at the border, for weights that are infinite or NaN
``extension``         padding made of the image's own pixels, which ``edges`` chooses
``placing``           plans for arrays with gaps, such as parts of larger arrays
``strided_copies``    copies between strided arrays
``blocked``           `to_blocked`, `from_blocked`
``matrices``          products of matrices as problems
``volume_images``       convolutions of volumes as convolutions of images: ``slabs`` says of which,
                      and ``folds`` which axes become one
``plan_of_parts``       what the plans of such operators have in common
``transposed/``       transposed convolutions in terms of ordinary ones
``quantized/``        operators of integers
``sparse/``           sparse weights
====================  ============================================================================
"""
