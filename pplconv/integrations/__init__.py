"""pplconv in other packages: their operators replaced, their clusters served.

Each module here needs packages that pplconv itself does not, uses nothing of pplconv but its public
API, and is imported by the user, or by a command, never by pplconv's other rooms:

=================  ===============================================================================
module             what it is for
=================  ===============================================================================
`torch`            convolutions and linear layers of PyTorch's modules
`onnx_reference`   operators of the ONNX project's NumPy evaluator, `onnx.reference`
`dask`             pictures larger than memory, as dask arrays; `tiles`: how they are cut
`ray_serve`        replicas on a Ray cluster, on packed weights that lie once on each node
`asgi`             sessions over HTTP, on Starlette
`npy`              arrays as ``.npy`` files in memory, from whoever sends them
=================  ===============================================================================
"""
