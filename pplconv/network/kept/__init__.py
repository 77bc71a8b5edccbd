"""Compiled networks in files: one that the caller names, or the cache's.

=================  =============================================================================
`container`        the file: a header, blocks of bytes that are mapped, and an index that is checked
`written_objects`  objects as values of JSON, and back: a closed list of classes, never code
`records`          a compiled program as such an object
`kept_network`     `KeptNetwork`: the programs of a file, and the model behind them for others
`files`            the files that callers name: `save`, and what a session opens
`cache_folder`     the files of the user's cache
=================  =============================================================================

Reading a file imports neither `onnx` nor `onnx_ir`. Whatever it says goes through the constructors
of works and programs, which refuse what would lead outside an array; see
docs/architecture/kept-networks.md.
"""
