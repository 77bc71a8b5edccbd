"""Chains of layers that run band by band, so that what lies between them stays in a core's cache.

``members``
    The steps that can run band by band: the rows of the operators' table say which rows of its
    operands an operator reads for some rows of its result (`operators.row_rules`).
``rows``
    The rows that each band of a group computes.
``groups``
    Which steps of a network form a group.
``lowering``
    A group as three kinds of bands: the first, those between, which are a repeat, and the last.

A band is a small graph of the same nodes: images of fewer rows, and no padding at an edge that is
not the image's. So an operator is lowered for a band as for a whole image, by the same function.
"""
