"""Memory: the caller's arrays, and what the loops borrow.

=====================  =========================================================================
``arrays``             arrays taken, checked and held as plain memory; aligned new ones
``array_like``         tensors, lists and exporters of memory, taken as plain `ndarray`s
``dlpack``             memory of bfloat16, which NumPy does not know, from tensors
``dtypes``             NumPy's type for each name of a type
``workspace``          aligned scratch, borrowed and given back
=====================  =========================================================================
"""
