"""All that is known of each operator, and what its nodes become: steps, or views of what is there.

====================  ============================================================================
``table``             one row for each operator: whoever asks what an operator does asks the table
``table_row``         the fields of a row
``families``          rows of a kind, with what they have in common
``batch_rules``       rules of rows: whether images of a batch are computed apart
``costs``             rules of rows: floating-point operations
``moving``            rules of rows: whether elements are moved alone
``decompositions``    operators in terms of others
``convolution``       Conv, fused nodes included
``epilogue``          what follows the sums of a convolution
``transposed_steps``  ConvTranspose as several convolutions
``linear_steps``      products with matrices that are known beforehand
``product_steps``     products of two computed matrices
``elementwise_steps`` programs for chains of element-wise operators
``expressions``       what each element-wise operator computes, and its registers
``movement``          views, Concat, Pad with a constant, changes of type, blocks of pixels
``result_placement``  results written where they are wanted
``border_pads``       Pad with an image's own elements
``window_steps``      pooling and Resize
``resampling``        Resize in Python
``integer_steps``     products of integers, and conversions from and to them
``integer_products``  convolutions of integers, as plans
``integer_windows``   pools and Resize of integers
``recurrent``         LSTM and GRU
``row_steps``         reductions, softmax, layer normalization
``unfused``           fused nodes in ONNX's operators, for those that run in Python
====================  ============================================================================
"""
