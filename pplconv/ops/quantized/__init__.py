"""Operators of integers.

=========================  =======================================================================
``quantization``           scales, zero points and biases, checked
``quantized_description``  arguments of quantized operators, checked together
``quantized_output``       from int32 sums to outputs: multipliers, clamps, residuals
``quantized_matrices``     scales and zero points of products of matrices
``pairs``                  whether pairs of products of bytes fit 16 bits
``rescaling``              offsets and multipliers of a plan, in the loops' format
``quantized_run``          `QuantizedKernel`: packed weights of integers, and calls
=========================  =======================================================================
"""
