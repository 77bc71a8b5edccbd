"""The table of operators, and their lowering to steps or views.

====================  ============================================================================
``table``             one row for each operator: the only source of facts about operators
``table_row``         the fields of a row
``families``          constructors of similar rows, with their common fields
``batch_rules``       rules of rows: whether a node treats images of a batch separately
``costs``             rules of rows: floating-point operations
``moving``            rules of rows: whether a node only moves elements
``decompositions``    operators in terms of others
``convolution``       Conv, fused nodes included
``epilogue``          the operations after the sums of a convolution
``transposed_steps``  ConvTranspose as several convolutions
``transposed_parts``  the geometry of these, for numbers of any type
``linear_steps``      products with constant matrices
``product_steps``     products of two computed matrices
``brain_products``    their kinds and prices in bfloat16
``elementwise_steps`` programs for chains of element-wise operators
``expressions``       element-wise operators as instructions, and registers
``movement``          views, Concat, Pad with a constant, changes of type, blocks of pixels
``result_placement``  results written straight to their destination
``border_pads``       Pad with an image's own elements
``window_steps``      pooling and Resize
``region_steps``      RoiAlign
``resampling``        Resize in Python
``integer_steps``     products of integers, and conversions from and to them
``integer_products``  convolutions of integers, as plans
``integer_transposed`` ConvTranspose of integers
``integer_windows``   pools and Resize of integers
``dynamic_quantization`` DynamicQuantizeLinear
``recurrent``         LSTM, GRU and RNN
``recurrent_gates``   their activations and clip
``row_steps``         reductions, softmax, layer normalization
``unfused``           fused nodes as ONNX's operators, to run them in Python
====================  ============================================================================
"""
