"""The public face: what users call, and how their arguments become a plan and pointers.

=========================  =========================================================================
``function``               `conv2d`, with its cache of plans
``conv``                   `Conv2d`, and its pickles
``conv1d``                 `conv1d`, on images of one row
``linear``, ``matmul``     `Linear`; `matmul`, with its cache of plans
``transposed_function``    `conv_transpose2d`, with its cache of plans; what its calls and those
                           of `ConvTranspose2d` have in common
``transposed_layer``       `ConvTranspose2d`
``layer``                  what `Conv2d`, `ConvTranspose2d` and `Linear` have in common
``ready``                  the plans and packed weights that a `Conv2d` has ready
``prepared``               a plan made ready, and one run of it
``program``                steps that one team runs, in networks and transposed convolutions
``placing``, ``copying``   plans for arrays that lie in larger ones; copies between such
``phases``                 a transposed convolution as ordinary ones, in numbers alone
``transposed_problem``     its arguments, checked and made into a problem
``transposed_ways``        ways to compute it, and where arrays of each lie
``transposing``            the cheapest way, and its plans
``transposed``             its weights packed, its steps compiled; ``transposed_plan`` says how
``extension``              padding made of the image's own pixels; ``edges`` says which
``border``, ``taps``       outputs at the border, for weights that are infinite or NaN
``blocked``                `to_blocked`, `from_blocked`
``quantized_function``     `qconv2d`, `conv2d_integer`
``quantized_layer``        `QConv2d`; ``quantizing`` makes one of a `Conv2d` and samples
``quantized_matmul``       `qmatmul`, `matmul_integer`; ``quantized_matrices`` knows their numbers
``quantized_description``  arguments of quantized operators, checked together
``quantization``           scales, zero points and biases; ``quantized_output`` what follows sums
``quantized_run``          what computes them; ``quantized_keeping`` keeps and shows their numbers
``banded``                 one or two convolutions of an image, in bands that stay in a cache
``pairs``                  whether pairs of products of bytes fit 16 bits
``sparse_weights``         how sparse weights are: zeros counted in blocks
``sparse_matrices``        sparse matrices of other libraries as dense weights
``argument_names``         names of arguments in messages
``arguments``              checks of arguments; every message names its argument
``settings``               what may be asked of the planner, and its place in pickles
``shapes``                 hints where a shape or a size is taken for something else
``activation``             the forms of ``activation=``
``call_signature``         what `inspect.signature` finds on a `Conv2d`
=========================  =========================================================================
"""
