"""Kernels: everything that loops over tensor elements, and the build that makes them.

``registry``   which kernels exist (the single truth)
``contract``   their argument structs
``build``      sources, flags and the dispatch table for ``setup.py``
``kept``       files that a build keeps for the next one
``modules``    Cython modules to C, in parallel
``aarch64``    assembly generators (NEON, half precision)
``aarch32``    the same for 32-bit Arm: GEMM and the FMA ceiling
``x86_64``     assembly generators (AVX-512, AVX2)
``templates``  C templates with the same contracts: any machine, and the reference in tests

This package is used when pplconv is built and tested; it is not installed.
"""
