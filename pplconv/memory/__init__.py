"""Memory: the caller's arrays, and scratch that the loops borrow.

=====================  =========================================================================
``arrays``             arrays checked and held as plain memory; new aligned arrays
``array_like``         tensors, lists and exporters of memory, taken as plain `ndarray`s
``dlpack``             memory of bfloat16, which NumPy does not know, from tensors
``dtypes``             NumPy's type for each name of a type
``workspace``          aligned scratch, borrowed and given back
``mapping``            files as arrays; arrays whose memory goes back to the system
``namespaces``         results in the library of the caller's arrays
=====================  =========================================================================
"""
