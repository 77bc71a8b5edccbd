"""An ONNX network, read, rewritten, and run.

==================  ============================================================================
module              what lives there
==================  ============================================================================
`loading`           `load`: a path, bytes or a protobuf as a checked model
`checking`          what of a parsed model is refused
`tensor_checking`   whether tensors have the data that their shapes ask for
`external_data`     where weights in other files may lie, and how long they must be
`tensors`           weights taken out of the protobuf that they came in
`preparing`         `prepare`, once a model, and `specialize`, once for each set of input shapes
`opsets`            models of older opsets brought to one
`folding`           what depends on constants alone is computed, within bounds
`shapes`            shapes that a file claims, and those that are inferred
`node_checks`   shapes that contradict one another, where ONNX's inference lets them pass
`padding`           ``auto_pad`` and ``output_shape`` in numbers
`values`            what is known of a graph's values: constants, shapes, channels
`rules`             the rules of rewriting, one module for each family
`fused_nodes`       what nodes of ours mean: a convolution or product, and what follows it
`integer_nodes`     the same of integers
`channel_affine`    scales and offsets of channels, and weights that take them in
`session`           `InferenceSession`: what users see
`refusals`          operators that cannot run, said all at once
`nodes`             the nodes of a specialised graph as operators see them
`fusion`            which element-wise nodes run as one pass
`operators`         what is known of each operator, and what its nodes become
`collapse`          dimensions that arrays run through in one step become one
`value_copies`      copies between values that lie differently
`host_steps`        steps that run in Python
`builder`           a program while it is made: values, steps, where results are wanted
`storage`           arrays before they have memory: shapes, strides, buffers
`arena`             buffers that do not live at the same time share memory
`compiling`         from a graph to a program
`report`            `NetworkPlan`: how a network runs, for people
`profile`           `NetworkProfile`: what it took, measured
`profiling`         the page that is drawn of it
`pruning`           weights of a model pruned, and the steps that its layers become
==================  ============================================================================

Most of it imports `onnx_ir` or `onnxscript`, both of the extra ``pplconv[onnx]``: import these
modules only where a network is asked for.
"""
