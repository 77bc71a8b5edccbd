"""The public face: what users call.

=======================  =========================================================================
``function``             `conv2d`, with its cache of plans
``conv``                 `Conv2d`, and its pickles
``conv1d``               `conv1d`, on images of one row
``linear``, ``matmul``   `Linear`; `matmul`, with its cache of plans
``transposed_function``  `conv_transpose2d`, with its cache of plans; what its calls and those
                         of `ConvTranspose2d` have in common
``transposed_layer``     `ConvTranspose2d`; ``transposed_plan`` is for old pickles
``function_operands``    how functions read arrays, and what the code around a call says
``layer``                what `Conv2d`, `ConvTranspose2d` and `Linear` have in common
``quantized_function``   `qconv2d`, `conv2d_integer`
``quantized_layer``      `QConv2d`; ``quantizing`` makes one of a `Conv2d` and samples
``quantized_matmul``     `qmatmul`, `matmul_integer`
``quantized_keeping``    keeps and shows scales and zero points
``call_signature``       what `inspect.signature` finds on a `Conv2d`
=======================  =========================================================================

Arguments are checked by `pplconv.arguments`; prepared operators lie in `pplconv.ops`.
"""
