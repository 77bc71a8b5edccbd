# cython: boundscheck=False, wraparound=False, initializedcheck=False, binding=True
"""``to_blocked`` and ``from_blocked``: arrays in layout NCHWc from and to NCHW."""

from cpython.buffer cimport PyBUF_ND, PyBUF_WRITABLE
from libc.stdint cimport int64_t

from pplconv.memory.arrays cimport (
    View,
    as_array,
    as_given,
    batched_shape,
    dtype_name,
    hold,
    hold_plain,
    new_array,
    release,
)
from pplconv.schedules.relayout cimport Planes, Relayout
from pplconv.schedules.team cimport leave_team, take_team

import math

from pplconv.arguments import checks
from pplconv import planner
from pplconv.memory.dtypes import DTYPES
from pplconv.planner.defaults import LARGEST_TEAM
from pplconv.problem import LARGEST_BLOCK, LARGEST_PRODUCT

# With fewer bytes of output for each thread, starting a team costs more than it saves.
cdef enum:
    BYTES_PER_THREAD = 1 << 18

cdef dict relayouts = {}


cdef Relayout relayout_for(str dtype, str isa):
    cdef Relayout found = relayouts.get((dtype, isa))
    if found is None:
        found = relayouts[dtype, isa] = Relayout(dtype, isa)
    return found


cdef int team_for(int64_t threads, int64_t nbytes):
    """Number of threads that the bytes to be written justify."""
    return <int> max(1, min(threads, nbytes // BYTES_PER_THREAD, LARGEST_TEAM))


cdef object relayout(object x, str dtype, tuple shape, const Planes *planes, object around,
                     bint to_blocks):
    """Write `x` in the other layout into a new array of `shape`."""
    cdef View source, target
    cdef int team
    cdef Relayout loops
    native = DTYPES[dtype]
    nbytes = math.prod(shape) * native.itemsize
    if nbytes >= LARGEST_PRODUCT:
        raise ValueError(f"x is too large: the result's shape would be {shape}")
    loops = relayout_for(dtype, around.isa)
    source.held = target.held = False
    try:
        x = hold_plain(x, native, &source)
        result = new_array(shape, native)
        hold(result, &target, PyBUF_ND | PyBUF_WRITABLE)
        if nbytes == 0:
            return result
        team = take_team(team_for(around.threads, nbytes), around.threads)
        with nogil:
            if to_blocks:
                loops.to_blocks(planes, <const char *> source.buffer.buf,
                                <char *> target.buffer.buf, team)
            else:
                loops.from_blocks(planes, <const char *> source.buffer.buf,
                                  <char *> target.buffer.buf, team)
            leave_team(team)
        return result
    finally:
        release(&source)
        release(&target)


def to_blocked(x, block=None):
    """Convert images from layout NCHW to NCHWc, with blocks of channels.

    Parameters
    ----------
    x : array_like, shape (N, C, H, W) or (C, H, W)
        float16, float32 or float64. Anything that `numpy.asarray` or DLPack on the CPU takes.
    block : int, optional
        Channels of one block, 1 to 64. None: as many as a vector of this machine's widest
        instruction set holds (float32 and float16: 16 with AVX-512, 8 with AVX2, 4 otherwise;
        float64: half as many), or of the one that ``PPLCONV_MAX_ISA`` allows.

    Returns
    -------
    ndarray
        Shape (N, ceil(C / block), H, W, block) or (ceil(C / block), H, W, block), of the dtype
        of `x` in native byte order: element [n, b, h, w, i] is channel ``b * block + i``, and
        zero where there is no such channel.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it.
    MemoryError
        If memory for the result cannot be had.

    See Also
    --------
    from_blocked : the way back.
    conv2d : computes on such arrays with ``layout="NCHWc"``.

    Notes
    -----
    The layout is the one that the OpenPPL slides call NBCX, and oneDNN nChw8c or nChw16c.
    A signalling NaN in float16 becomes a quiet one.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> x = np.ones((1, 20, 32, 32), np.float32)
    >>> pplconv.to_blocked(x, 8).shape
    (1, 3, 32, 32, 8)
    """
    cdef Planes planes
    cdef object given = x
    if block is not None:
        block = checks.check_block(block)
    x = as_array(x, "x")
    cdef str dtype = dtype_name(x, "x")
    n, c, h, w = batched_shape(x, "x", 4)
    around = planner.default_context(dtype)
    if block is None:
        block = around.lanes
    shape = (n, -(-c // block), h, w, block)
    planes.images, planes.channels, planes.pixels, planes.block = n, c, h * w, block
    y = relayout(x, dtype, shape if x.ndim == 4 else shape[1:], &planes, around, True)
    return as_given(given, y, None)


def from_blocked(x, channels=None):
    """Convert images from layout NCHWc, with blocks of channels, to NCHW.

    Parameters
    ----------
    x : array_like, shape (N, B, H, W, block) or (B, H, W, block)
        float16, float32 or float64, block 1 to 64. Anything that `numpy.asarray` or DLPack on
        the CPU takes.
    channels : int, optional
        How many channels there are: the last of them lies in the last block, so
        ``(B - 1) * block < channels <= B * block``. None: all ``B * block``.

    Returns
    -------
    ndarray
        Shape (N, channels, H, W) or (channels, H, W), of the dtype of `x` in native byte order.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it.
    MemoryError
        If memory for the result cannot be had.

    See Also
    --------
    to_blocked : the way there.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> x = np.ones((1, 3, 32, 32, 8), np.float32)
    >>> pplconv.from_blocked(x, 20).shape
    (1, 20, 32, 32)
    """
    cdef Planes planes
    cdef object given = x
    if channels is not None:
        channels = checks.integer("channels", channels, 0)
    x = as_array(x, "x")
    cdef str dtype = dtype_name(x, "x")
    n, blocks, h, w, block = batched_shape(x, "x", 5)
    if not 1 <= block <= LARGEST_BLOCK:
        raise ValueError(
            f"x must have blocks of 1 to {LARGEST_BLOCK} channels in its last dimension, "
            f"got shape {x.shape}"
        )
    if channels is None:
        channels = blocks * block
    elif -(-channels // block) != blocks:
        raise ValueError(
            f"channels must lie in the last of {blocks} blocks of {block}, more than "
            f"{(blocks - 1) * block} and at most {blocks * block}, got {channels}"
        )
    shape = (n, channels, h, w)
    planes.images, planes.channels, planes.pixels, planes.block = n, channels, h * w, block
    y = relayout(x, dtype, shape if x.ndim == 5 else shape[1:], &planes,
                 planner.default_context(dtype), False)
    return as_given(given, y, None)
