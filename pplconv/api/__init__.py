"""The public face: what users call.

=======================  =========================================================================
``function``             `conv2d`, with its cache of plans
``conv``                 `Conv2d`, and its pickles
``conv1d``               `conv1d`, on images of one row; ``conv_transpose1d`` likewise, with which
                         it shares ``signals``
``volume_functions``     `conv3d`, `conv_transpose3d`
``volume_layer``         `Conv3d`
``given_arrays``         how functions of signals and volumes read arrays
``linear``, ``matmul``   `Linear`; `matmul`, with its cache of plans
``transposed_function``  `conv_transpose2d`, with its cache of plans; code that it shares with
                         `ConvTranspose2d`
``transposed_layer``     `ConvTranspose2d`; ``transposed_plan`` is for old pickles
``function_operands``    how functions read arrays, and the settings around a call
``layer``                base class of `Conv2d`, `ConvTranspose2d` and `Linear`
``quantized_function``   `qconv2d`, `conv2d_integer`
``quantized_layer``      `QConv2d`; ``quantizing`` makes one from a `Conv2d` and samples
``quantized_matmul``     `qmatmul`, `matmul_integer`
``quantized_keeping``    keeps and shows scales and zero points
``keyword_hints``        errors of unknown keyword arguments, by `pplconv.arguments.other_words`
``call_signature``       the signature that `inspect.signature` finds on a `Conv2d`
=======================  =========================================================================

Arguments are checked by `pplconv.arguments`; prepared operators lie in `pplconv.ops`.
"""
