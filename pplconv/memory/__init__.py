"""Memory: the caller's arrays, and what the loops borrow.

=====================  =========================================================================
``arrays``             arrays taken, checked and held as plain memory; aligned new ones
``array_like``         what is no plain `ndarray`, as one: tensors, lists, exporters of memory
``dtypes``             NumPy's type for each name of a type
``workspace``          aligned scratch, borrowed and given back
=====================  =========================================================================
"""
