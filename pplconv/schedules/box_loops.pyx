# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Calls of kernels whose results are as many as the data say: boxes that overlap, best elements."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport (
    find,
    pplconv_kernel,
    pplconv_suppress_args,
    pplconv_top_columns_args,
)
from pplconv.memory.arrays cimport address_of

import numpy as np

cdef enum:
    # Rows of the boxes taken: their coordinates and areas, in whole vectors.
    PARTS = 5
    VECTOR = 16
    ELEMENT = 4


def suppress(object corners, object threshold, int64_t most, str isa):
    """Take boxes in their order, without those that overlap one taken before.

    Parameters
    ----------
    corners : ndarray of float32
        Shape (4, boxes), contiguous: y and x of one corner, then those of the opposite one.
    threshold : number
        Overlaps that are left out are larger: the intersection over the union.
    most : int
        Boxes to take, at most.
    isa : str
        Which kernel to call.

    Returns
    -------
    ndarray of int64
        Numbers of the boxes taken.
    """
    cdef pplconv_suppress_args a
    cdef pplconv_kernel kernel = find("suppress", "f32", isa)
    cdef int64_t found = 0, room
    limit = np.array([threshold], np.float32)
    if corners.ndim != 2 or corners.shape[0] != 4 or corners.dtype != np.float32 or (
            not corners.flags.c_contiguous):
        raise ValueError("boxes have four rows of coordinates")
    a.count = corners.shape[1]
    a.most = min(max(most, 0), a.count)
    room = (a.most // VECTOR + 1) * VECTOR
    taken = np.empty((PARTS, room), np.float32)
    places = np.empty(a.most, np.int64)
    a.boxes, a.threshold = address_of(corners, NULL), address_of(limit, NULL)
    a.found = &found
    a.taken, a.taken_rs = <char *> address_of(taken, NULL), room * ELEMENT
    a.places = <char *> address_of(places, NULL)
    with nogil:
        kernel(&a)
    return places[:found]


def top(object rows, int64_t count, int64_t kind, str dtype, str isa):
    """Find the largest or smallest elements of rows, in order; of equal ones the first comes first.

    Parameters
    ----------
    rows : ndarray
        Two dimensions, contiguous.
    count : int
        Elements to find of each row.
    kind : int
        ``PPLCONV_REDUCE_MAX`` or ``PPLCONV_REDUCE_MIN``.
    dtype : str
        Name of the type of the elements.
    isa : str
        Which kernel to call.

    Returns
    -------
    values, places : ndarray
        Shape (rows, count).
    """
    cdef pplconv_top_columns_args a
    cdef pplconv_kernel kernel = find("top_columns", dtype, isa)
    if rows.ndim != 2 or not rows.flags.c_contiguous or not 0 <= count <= rows.shape[1]:
        raise ValueError("rows have the elements to find")
    values = np.empty((rows.shape[0], count), rows.dtype)
    places = np.empty(values.shape, np.int64)
    a.rows, a.columns, a.count, a.kind = rows.shape[0], rows.shape[1], count, kind
    a.src_rs, a.values_rs = a.columns * rows.itemsize, count * rows.itemsize
    a.places_rs = count * sizeof(int64_t)
    a.src, a.values = address_of(rows, NULL), <char *> address_of(values, NULL)
    a.places = <char *> address_of(places, NULL)
    with nogil:
        kernel(&a)
    return values, places
