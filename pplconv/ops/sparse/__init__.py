"""Sparse weights.

===================  =============================================================================
``sparse_weights``   how sparse weights are: zeros counted in blocks
``sparse_matrices``  sparse matrices of other libraries as dense weights
===================  =============================================================================
"""
