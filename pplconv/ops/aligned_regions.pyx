# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Regions of images whose channels are neighbours, resampled to one size: RoiAlign.

The weights of an average are those of rows times those of columns. So each row of bins is one call
of the kernel that resamples, with the taps of all points of a bin; points that share a pixel share
a tap. A task is one region, whose weights it computes itself: regions are numbers of a run.
"""

from libc.math cimport ceil
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t
from libc.string cimport memset

from pplconv._kernels cimport (
    PPLCONV_POOL_MAX,
    PPLCONV_POOL_SUM,
    find,
    pplconv_resample_args,
)
from pplconv.schedules.base cimport ceil_div
from pplconv.schedules.work cimport Tensors, Work

from pplconv.memory.dtypes import DTYPES
from pplconv.schedules.work import check_numbers, extent_of

cdef enum:
    # Points of a region, as of `numpy_operators.regions`.
    MOST_POINTS = 1 << 23
    MOST_RATIO_ = 1 << 10
    REFUSAL_BYTES = 8
    CORNERS = 4
    LINE = 64

MOST_RATIO = MOST_RATIO_

ctypedef fused real:
    float
    double


cdef inline void refuse(const Tensors *t, int32_t why, int64_t number) noexcept nogil:
    """Say why the run is refused; threads that do so at once agree on nothing but that."""
    cdef int32_t *refused = <int32_t *> t.arrays[4]
    refused[1] = <int32_t> min(max(number, <int64_t> INT32_MIN), <int64_t> INT32_MAX)
    refused[0] = why


cdef inline int64_t tap(int64_t *places, real *weights, int64_t count, int64_t most,
                        int64_t place, real weight, bint joins) noexcept nogil:
    """Add a tap, or its weight to the tap of the same pixel; -1 without room."""
    if joins and count >= 1 and places[count - 1] == place:
        weights[count - 1] += weight
        return count
    if joins and count >= 2 and places[count - 2] == place:
        weights[count - 2] += weight
        return count
    if count >= most:
        return -1
    places[count], weights[count] = place, weight
    return count + 1


cdef int64_t taps(int64_t *places, real *weights, int64_t most, real start, real each,
                  int64_t bin, int64_t points, int64_t pixels, bint joins) noexcept nogil:
    """List the taps of a bin along one axis, as onnxruntime rounds; -1 without room."""
    cdef int64_t i, low, high, count = 0
    cdef real place, far
    cdef bint outside = False
    for i in range(points):
        place = start + <real> bin * each + (<real> i + <real> 0.5) * each / <real> points
        # NaN is outside, too.
        if not (place >= -1 and place <= <real> pixels):
            outside = True
            continue
        if place <= 0:
            place = 0
        low = <int64_t> place
        if low >= pixels - 1:
            low = high = pixels - 1
            place = <real> low
        else:
            high = low + 1
        far = place - <real> low
        count = tap(places, weights, count, most, low, 1 - far, joins)
        if count >= 0:
            count = tap(places, weights, count, most, high, far, joins)
        if count < 0:
            return -1
    if joins:
        for i in range(count):
            weights[i] /= <real> points
    elif outside:
        # Of such points the largest pixel counts, too: it is 0.
        count = tap(places, weights, count, most, <int64_t> 0, <real> 0, False)
    return count


cdef inline int64_t filled(int64_t *places, real *weights, int64_t count, int64_t wanted,
                           bint sums) noexcept nogil:
    """Repeat the first tap, without a weight in sums."""
    if count == 0:
        places[0], weights[0] = 0, 0
        count = 1
    for count in range(count, wanted):
        places[count] = places[0]
        weights[count] = 0 if sums else weights[0]
    return wanted


cdef inline int64_t points_of(real size, int64_t bins, int64_t ratio) noexcept nogil:
    """Points of a bin along one axis; too many if that is no number."""
    cdef double count
    if ratio > 0:
        return ratio
    count = ceil(<double> (size / <real> bins))
    if not count <= MOST_POINTS:
        return MOST_POINTS + 1
    return <int64_t> max(count, 0.0)


cdef void clear(const RegionsJob *j, char *y) noexcept nogil:
    cdef int64_t row, column
    for row in range(j.oh):
        for column in range(j.ow):
            memset(y + row * j.y.row + column * j.y.pixel, 0, j.channels * j.element)


cdef void region(const RegionsJob *j, const Tensors *t, int64_t number, char *scratch,
                 const real *corners) noexcept nogil:
    cdef pplconv_resample_args a
    cdef int64_t image = (<const int64_t *> t.arrays[3])[number]
    cdef char *y = t.arrays[0] + number * j.y.image
    cdef int64_t *offsets = <int64_t *> (scratch + j.offsets_at)
    cdef real *weights = <real *> (scratch + j.weights_at)
    cdef int64_t *counts = <int64_t *> (scratch + j.counts_at)
    cdef const char **rows = <const char **> (scratch + j.rows_at)
    cdef int64_t *places = <int64_t *> (scratch + j.places_at)
    cdef real *row_weights = <real *> (scratch + j.row_weights_at)
    cdef real scale = <real> j.scale, first = <real> 0.5 if j.half else <real> 0
    cdef real left, top, width, height
    cdef int64_t points_x, points_y, bin, count, i, most_x = 2
    cdef bint sums = j.kind == PPLCONV_POOL_SUM
    if image < 0 or image >= j.images:
        refuse(t, 1, image)
        return
    left, top = corners[0] * scale - first, corners[1] * scale - first
    width, height = corners[2] * scale - first - left, corners[3] * scale - first - top
    if not j.half:
        # As maxima are taken in C++: NaN stays.
        width = 1 if width < 1 else width
        height = 1 if height < 1 else height
    points_x = points_of[real](width, j.ow, j.ratio)
    points_y = points_of[real](height, j.oh, j.ratio)
    if (<double> points_x * <double> j.ow) * (<double> points_y * <double> j.oh) > MOST_POINTS:
        refuse(t, 2, MOST_POINTS)
        return
    if points_x == 0 or points_y == 0:
        clear(j, y)
        return
    for bin in range(j.ow):
        count = taps(offsets + bin * j.most_x, weights + bin * j.most_x, j.most_x, left,
                     width / <real> j.ow, bin, points_x, j.iw, sums)
        if count < 0:
            refuse(t, 2, MOST_POINTS)
            return
        counts[bin] = count
        most_x = max(most_x, count)
    # The kernel takes as many taps of each pixel.
    for bin in range(j.ow):
        for i in range(counts[bin]):
            offsets[bin * most_x + i] = offsets[bin * j.most_x + i]
            weights[bin * most_x + i] = weights[bin * j.most_x + i]
        filled(offsets + bin * most_x, weights + bin * most_x, counts[bin], most_x, sums)
        for i in range(most_x):
            offsets[bin * most_x + i] *= j.x.pixel
    a.rows, a.weight_y, a.taps_x, a.kind = rows, row_weights, most_x, j.kind
    a.offset_x, a.weight_x = offsets, weights
    a.pixels, a.channels, a.dst_ps = j.ow, j.channels, j.y.pixel
    for bin in range(j.oh):
        count = taps(places, row_weights, j.most_y, top, height / <real> j.oh, bin, points_y,
                     j.ih, sums)
        if count < 0:
            refuse(t, 2, MOST_POINTS)
            return
        a.taps_y = filled(places, row_weights, count, max(count, <int64_t> 1), sums)
        for i in range(a.taps_y):
            rows[i] = t.arrays[1] + image * j.x.image + places[i] * j.x.row
        a.dst = y + bin * j.y.row
        j.kernel(&a)


cdef void run_region(const void *job, const Tensors *t, int64_t task,
                     char *scratch) noexcept nogil:
    cdef const RegionsJob *j = <const RegionsJob *> job
    if j.wide:
        region[double](j, t, task, scratch, <const double *> t.arrays[2] + task * CORNERS)
    else:
        region[float](j, t, task, scratch, <const float *> t.arrays[2] + task * CORNERS)


cdef class Regions(Work):
    """RoiAlign compiled: array 1, images, to array 0, by the corners in array 2.

    Parameters
    ----------
    fields : dict
        ``dtype``; ``kind``, of ``PPLCONV_POOL_*``: averages of points, or the largest weighted
        pixel; ``images``, ``channels``, ``ih``, ``iw``; ``regions``, ``oh``, ``ow``; ``x`` and
        ``y``, strides in bytes of image or region, row and pixel; ``ratio``, points of a bin along
        one axis, at most `MOST_RATIO`, or 0: as many as pixels; ``half``, whether coordinates
        begin half a pixel before the first one; ``scale``, of the coordinates. Array 2 has four
        float32 a region, float64 if the images are of it; array 3 an int64 a region, its image;
        array 4 are the refusals of the step.
    isa : str
        Which kernel to call.

    Raises
    ------
    ValueError
        If it is more than the loops take.
    """

    def __cinit__(self, dict fields, str isa):
        cdef RegionsJob *j = &self.own
        cdef int64_t element, number, regions, end = 0
        memset(j, 0, sizeof(RegionsJob))
        check_numbers(fields, frozenset())
        element = DTYPES[fields["dtype"]].itemsize
        j.kernel = find("resample", fields["dtype"], isa)
        j.kind, j.images, j.channels = fields["kind"], fields["images"], fields["channels"]
        j.ih, j.iw, j.oh, j.ow = fields["ih"], fields["iw"], fields["oh"], fields["ow"]
        j.x.image, j.x.row, j.x.pixel = fields["x"]
        j.y.image, j.y.row, j.y.pixel = fields["y"]
        j.ratio, j.half, j.scale = fields["ratio"], fields["half"], fields["scale"]
        regions = fields["regions"]
        if (element < 2 or j.kind not in (PPLCONV_POOL_MAX, PPLCONV_POOL_SUM)
                or min(j.images, j.channels, j.ih, j.iw, j.oh, j.ow, regions) < 1
                or j.ratio > MOST_RATIO_ or min(*fields["x"], *fields["y"]) < 0
                or max(*fields["x"], *fields["y"]) >> 47):
            raise ValueError("regions are of images, and strides are not negative")
        j.element, j.wide = element, element == 8
        number = 8 if j.wide else 4
        # Points lie at least half a pixel apart, unless their number is given; those that share a
        # pixel share a tap of a sum.
        j.most_x, j.most_y = j.iw + 2, j.ih + 2
        if j.kind == PPLCONV_POOL_MAX:
            j.most_x = 2 * j.ratio + 2 if j.ratio else 4 * j.iw + 16
            j.most_y = 2 * j.ratio + 2 if j.ratio else 4 * j.ih + 16
        if max(j.ow, j.oh) * max(j.most_x, j.most_y) >> 27:
            raise MemoryError("regions are beyond what the loops can address")
        j.weights_at = j.ow * j.most_x * 8
        j.row_weights_at = j.weights_at + j.ow * j.most_x * 8
        j.counts_at = j.row_weights_at + j.most_y * 8
        j.rows_at = j.counts_at + j.ow * 8
        j.places_at = j.rows_at + j.most_y * 8
        end = j.places_at + j.most_y * 8
        self.thread_scratch = ceil_div(end, LINE) * LINE
        self.extents[0] = extent_of(j.channels * element, (regions, j.oh, j.ow), fields["y"],
                                    element, True)
        self.extents[1] = extent_of(j.channels * element, (j.images, j.ih, j.iw), fields["x"],
                                    element)
        self.extents[2] = regions * CORNERS * number
        self.extents[3] = regions * 8
        self.extents[4] = REFUSAL_BYTES
        self.units[0] = self.units[1] = element
        self.units[2], self.units[3], self.units[4] = number, 8, sizeof(int32_t)
        self.written = 0b10001
        self.tasks = regions
        self.threads = 1
        self.job = j
        self.one_phase(run_region)
