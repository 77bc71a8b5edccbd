"""An ONNX network, read, rewritten, and run.

==================  ============================================================================
module              content
==================  ============================================================================
`loading`           `load`: a path, bytes or a protobuf as a checked model
`checking`          refusals of parsed models
`tensor_checking`   data of tensors against their shapes
`external_data`     weights in other files: permitted paths, required lengths
`tensors`           weights as arrays, taken out of the protobuf
`preparing`         `prepare`, once a model, and `specialize`, once for each set of input shapes
`opsets`            models of older opsets brought to one
`folding`           computes results of constants, within bounds
`shapes`            shapes that a file claims, and inferred shapes
`node_checks`       contradictions of shapes that ONNX's inference lets pass
`padding`           ``auto_pad`` and ``output_shape`` in numbers
`values`            known facts of a graph's values: constants, shapes, channels
`rules`             the rules of rewriting, one module for each family
`fused_nodes`       our fused nodes: a convolution or product with its epilogue
`integer_nodes`     fused nodes of integers
`channel_affine`    scales and offsets of channels, merged into weights
`session`           `InferenceSession`, the public class
`chain`             `Chain`, the other one: prepared layers as a program
`layer_nodes`       prepared layers as nodes of a graph
`spared_imports`    imports `onnx` and `onnx_ir` without modules that no network needs
`onnx_later`        `onnx_ir` and `onnx`, imported at their first use
`refusals`          all operators that cannot run, in one error
`nodes`             the nodes of a specialised graph as operators see them
`fusion`            element-wise nodes joined into one pass
`attention`         products of queries, keys and values, and the softmax between, as one step
`attention_step`    the arrays, products and programs of that step
`operators`         the table of operators, and their lowering
`collapse`          dimensions merged where all arrays are contiguous over them
`value_copies`      copies between values of different strides or types
`host_steps`        steps that run in Python
`lone_steps`        nodes at a cut that loops compute, for any sizes
`builder`           a program under construction: values, steps, destinations
`storage`           arrays before they have memory: shapes, strides, buffers
`arena`             memory shared by buffers with disjoint lifetimes
`compiling`         from a graph to a program
`report`            `NetworkPlan`: how a network runs, for people
`profile`           `NetworkProfile`: measured times
`comparison`        `NetworkComparison`: outputs and times in two precisions
`low_precision`     what ``precision="low"`` would gain, and networks that cannot have it
`profiling`         the HTML page of a profile
`pruning`           prunes a model's weights, and finds the layers' steps
==================  ============================================================================

Most of it imports `onnx_ir`, of the extra ``pplconv[onnx]``: import these
modules only when a network is used. The compiler (`compiling`, `operators`, `bands` and what they
import) asks for them when it is given a model, and `chain` works without them.
"""
