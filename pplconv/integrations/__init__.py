"""pplconv in other packages: replacements for their operators, and serving on their clusters.

Each module here needs packages that pplconv itself does not need, and uses only the public API of
pplconv. Users or a command import it; no other part of pplconv does:

=================  ===============================================================================
module             purpose
=================  ===============================================================================
`torch`            convolutions and linear layers of PyTorch's modules
`onnx_reference`   operators of the ONNX project's NumPy evaluator, `onnx.reference`
`dask`             pictures larger than memory, as dask arrays; `tiles`: how they are cut
`ray_serve`        replicas on a Ray cluster, with one copy of packed weights on each node
`asgi`             sessions over HTTP, on Starlette
`missing`          what to install where a package is missing
`npy`              arrays as ``.npy`` files in memory, also from untrusted senders
=================  ===============================================================================
"""
