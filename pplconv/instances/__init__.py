"""Several instances of a model in one program: requests in, futures out.

===================  ====================================================================