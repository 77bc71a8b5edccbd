"""Attention compiled: see ``attention_loops.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_kernel
from pplconv.schedules.base cimport pack_function
from pplconv.schedules.gemm_loops cimport GemmSchedule
from pplconv.schedules.work cimport MOST_ARRAYS, Work, task_function


cdef enum:
    HEADS_AROUND = 4
    # Result, queries, keys and values.
    STORED_ARRAYS = 4
    MOST_PROGRAMS = 8


cdef struct ProductJob:
    # A product whose second matrix is packed at `panels` in a thread's scratch.
    task_function task
    pack_function pack
    const void *job
    int64_t tasks, panels


cdef struct ProgramJob:
    # An element-wise program of a tile.
    task_function task
    const void *job
    int64_t tasks


cdef struct StoredJob:
    # A matrix in memory whose elements have another type than the sums: contiguous lines of
    # `length` elements, `stride` bytes apart. In scratch they are converted, `wide` bytes apart.
    # `kernel` is NULL where elements have the type of the sums.
    pplconv_kernel kernel
    int64_t lines, length, stride, wide


cdef struct AttentionJob:
    # `dims` count the heads; `strides` lead from one to the next, in each array.
    int64_t dims[HEADS_AROUND]
    int64_t strides[MOST_ARRAYS][HEADS_AROUND]
    # From a query to the next, in each array.
    int64_t row[MOST_ARRAYS]
    int64_t array_count
    # A task has some of the tiles of one head. A tile is `rows` queries, with `keys` scores each.
    int64_t queries, keys, rows, tiles, chunks
    ProductJob scores, sums
    # In a thread's scratch: the scores of a tile, whose rows are `score_row` bytes apart; quantized
    # ones; and what the products and programs use.
    int64_t tile_offset, quantized_offset, products_offset, score_row
    # Of the result, queries (a tile of each), keys and values (of a head); and the place in scratch
    # where one of them at a time is converted.
    StoredJob[STORED_ARRAYS] stored
    int64_t room_offset
    pplconv_kernel softmax
    # If products are of a narrower type than their sums: converts the finished scores of a tile,
    # whose rows are then `narrowed_row` bytes apart. Else NULL.
    pplconv_kernel narrow_scores
    int64_t narrowed_offset, narrowed_row
    # What is computed one element at a time: between product and softmax, and behind the softmax.
    ProgramJob[MOST_PROGRAMS] programs
    int before, program_count


cdef class Attention(Work):
    cdef AttentionJob own
    cdef GemmSchedule scores, sums
    cdef tuple programs

    cdef int64_t take_products(self, dict fields, str isa, int64_t tile_bytes) except -1
    cdef int64_t take_stored(self, stored, str dtype, str isa, int64_t *tops) except -1
    cdef int64_t take_programs(self, list before, list behind, int64_t tile_bytes, int64_t *tops,
                               int64_t *units) except -1
