"""The loops of element-wise programs compiled: see ``elementwise.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_instruction, pplconv_kernel, pplconv_stream
from pplconv.schedules.work cimport Work


cdef enum:
    MOST_DIMS = 5
    MOST_STREAMS = 24
    MOST_CODE = 96
    # Of integers so many are converted at once, into scratch that stays in L1.
    TILE_ELEMENTS = 2048


cdef struct StreamField:
    # An array: from one index of each dimension to the next so many bytes.
    int64_t strides[MOST_DIMS]
    int64_t array, element
    # Integers are converted on their way to registers, or from them, by a scale and a zero point
    # that lie one behind the other in another array. NULL where elements are as they are computed.
    pplconv_kernel convert
    int64_t numbers


cdef struct ElementwiseJob:
    pplconv_kernel kernel
    # Rows are counted over all dimensions; `dims` ends with those that one call of the kernel runs
    # over. A task is a rectangle of rows and columns.
    int64_t dims[MOST_DIMS]
    int64_t columns, rows, row_segment, column_segment, column_segments
    int64_t element
    # Rows that are converted at once; 0 where none are.
    int64_t tile_rows
    # Number of the array with 256 bytes that bytes are looked up in, by `kernel`; -1 if there is a
    # program instead.
    int64_t table
    int64_t input_count, output_count, code_count
    StreamField fields[MOST_STREAMS]
    pplconv_stream streams[MOST_STREAMS]
    pplconv_instruction code[MOST_CODE]


cdef class Elementwise(Work):
    cdef ElementwiseJob own

    cdef int check_table(self, dict fields, int64_t tiles) except -1
    cdef int convert(self, int stream, str dtype, int64_t numbers, str computed,
                     str isa) except -1
