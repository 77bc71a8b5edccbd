"""Arguments of layers and functions: their forms, checked, named in every message.

====================  ============================================================================
``checks``            integers, pairs, padding, layouts, precision; the problem of a convolution
``activation``        the forms of ``activation=``
``settings``          what may be asked of the planner, and its place in pickles
``input_shapes``      ``input_shape=``, and hints where a shape is taken for something else
``argument_names``    messages with the names that a function has for its arguments
====================  ============================================================================
"""
