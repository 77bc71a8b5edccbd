"""Sparse weights.

===================  =============================================================================
``sparse_weights``   sparsity of weights: zeros counted in blocks
``sparse_matrices``  sparse matrices of other libraries as dense weights
===================  =============================================================================
"""
