"""The calling contracts: one argument struct per operation, described once.

Every kernel of an operation takes one pointer to the operation's argument struct and
returns nothing. The C header, the compile-time offset checks, the offsets that the
assembly generators use, the Cython declarations, and the ``ctypes`` mirror in the tests are all
derived from the tables in this package, so no member is written down twice.

All strides are in bytes. Each field begins on a multiple of eight bytes, on machines with
pointers of four bytes, too, so that an offset is eight times an index.

``fields``       the parts of a contract
``constants``    flags, instructions, reductions, the longest chain in half precision
``gemm``, ``packing``, ``indices``, ``winograd``, ``depthwise``, ``elementwise``, ``windows``,
``reductions``, ``quantized``, ``sparse``
                 the argument structs
``operations``   all of them, by operation
``records``      structs that arguments point to, and rows of the library's tables
``header``       the C header
``declarations`` the same for Cython: each build writes ``pplconv/_contracts.pxd``
"""

from asm.contract.constants import CURVES, FLAGS, HALF_CHAIN, INSTRUCTIONS, POOLINGS, REDUCTIONS
from asm.contract.declarations import declarations_text
from asm.contract.elementwise import CURVE
from asm.contract.fields import INT, Contract, Field
from asm.contract.gemm import FMA_PEAK, GEMM
from asm.contract.header import header_text
from asm.contract.operations import CONTRACTS
from asm.contract.records import STREAM
from asm.contract.sparse import SPARSE_CHANNELS, SPARSE_PIXELS

__all__ = [
    "CONTRACTS",
    "CURVE",
    "CURVES",
    "FLAGS",
    "FMA_PEAK",
    "GEMM",
    "HALF_CHAIN",
    "INSTRUCTIONS",
    "INT",
    "POOLINGS",
    "REDUCTIONS",
    "SPARSE_CHANNELS",
    "SPARSE_PIXELS",
    "STREAM",
    "Contract",
    "Field",
    "declarations_text",
    "header_text",
]
