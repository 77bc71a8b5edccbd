"""Arguments of layers and functions: their forms, checked, named in every message.

====================  ============================================================================
``signatures``        the table: defaults, types, checks and texts of arguments, and who takes them
``checks``            integers, pairs, padding, layouts, precision; the problem of a convolution
``activation``        the forms of ``activation=``
``settings``          settings of the planner, checked
``input_shapes``      ``input_shape=``, and hints where a shape is mistaken for something else
``other_words``       names of arguments in other libraries, and which they are here
``argument_names``    messages with the names of a function's own arguments
====================  ============================================================================
"""
