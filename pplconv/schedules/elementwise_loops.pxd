"""The loops of element-wise programs compiled: see ``elementwise_loops.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_instruction, pplconv_kernel, pplconv_stream
from pplconv.schedules.work cimport Work


cdef enum:
    MOST_DIMS = 5
    MOST_STREAMS = 24
    MOST_CODE = 96
    # How many integers are converted at once, into scratch that stays in L1.
    TILE_ELEMENTS = 2048
    # Instructions of a program that runs tile by tile, and their operands.
    MOST_STEPS = 8
    OPERANDS = 3
    # Of the numbers that convert integers: a scale, then a zero point.
    SCALE_BYTES = 4


cdef struct StreamField:
    # An array: its strides in bytes, its number, and the bytes of an element.
    int64_t strides[MOST_DIMS]
    int64_t array, element
    # Converts integers on their way to or from tile number `tile` of scratch, by a scale and a zero
    # point that are neighbours in array `numbers`. NULL if elements have the computed type.
    pplconv_kernel convert
    int64_t numbers, tile


cdef struct TileStep:
    # An instruction on whole tiles: the number of a stream for each operand, or, from MOST_STREAMS
    # on, that of a tile of scratch; the tile of its result; a program that computes it.
    int64_t operands[OPERANDS]
    int64_t tile
    pplconv_instruction code


cdef struct Rescaling:
    # A program that one call of `rescale` computes: numbers of the streams of its operands, -1 for
    # none, and how the kernel reads them.
    pplconv_kernel kernel
    int64_t src, factor, addend, low, high
    int64_t src_kind, factor_kind, addend_kind


cdef struct ElementwiseJob:
    pplconv_kernel kernel
    # Rows are counted over all dimensions; one call of the kernel runs over the last one of `dims`.
    # A task is a rectangle of rows and columns.
    int64_t dims[MOST_DIMS]
    int64_t columns, rows, row_segment, column_segment, column_segments
    int64_t element
    # Rows that are converted at once; 0 where none are.
    int64_t tile_rows
    # Instructions that run one after the other on whole tiles; none if the kernel runs them all.
    int64_t step_count
    TileStep steps[MOST_STEPS]
    # Runs the program instead of `kernel`, if its own kernel is set.
    Rescaling rescaling
    # Number of the array of 256 bytes in which `kernel` looks bytes up; -1 if there is a program.
    int64_t table
    # Whether there is nothing but one conversion of integers, from input to output.
    bint only_converts
    int64_t input_count, output_count, code_count
    StreamField fields[MOST_STREAMS]
    pplconv_stream streams[MOST_STREAMS]
    pplconv_instruction code[MOST_CODE]


cdef class Elementwise(Work):
    cdef ElementwiseJob own

    cdef int check_table(self, dict fields, int64_t tiles) except -1
    cdef bint rescales(self, list streams, list code, str isa) except -1
    cdef int64_t in_steps(self, list streams, list code, int64_t tiles) except -1
    cdef int convert(self, int stream, str dtype, int64_t numbers, str computed,
                     str isa) except -1
