"""Drop-in replacements for the convolutions of other packages.

Each module here needs the package that it is named after, uses nothing of pplconv but its public
API, and is imported by the user, never by pplconv itself:

=================  ===============================================================================
module             what it replaces
=================  ===============================================================================
`onnx_reference`   ``Conv`` of the ONNX project's NumPy evaluator, `onnx.reference`
=================  ===============================================================================
"""
