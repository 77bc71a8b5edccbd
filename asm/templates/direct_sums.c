/* Direct sums in place of outputs that Winograd's transforms made infinite or NaN. Vectors run over
 * output channels, and only the pixels of a tile that need it are computed. This is rare, so
 * nothing is packed for it: weights are gathered from their array. */
#if PPLCONV_F64
#include "lanes.h"
#else
#include "half.h"
#endif

#define INLINE static inline __attribute__((always_inline))

enum { MOST_PIXELS = 6, MOST_TAPS = 5 /* of a row at a time */ };
/* Arrays of two bytes; else they have elements. */
enum { HALF = 1, BFLOAT = 2 };

/* A pixel to compute again: its wanted lanes, its taps inside the image, and its sum. */
struct pixel {
    vector_bits wanted;
    vector sum;
    int64_t row, column, row_begin, row_end, column_begin, column_end;
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* One number of the arrays, in every lane. Weights mapped from a file may be unaligned. */
INLINE vector everywhere(const char *from, int halves) {
    const vector zero = {0};
    element number;
#if !PPLCONV_F64
    if (halves == HALF) {
        half line[LANES] = {0};
        __builtin_memcpy(line, from, sizeof(half));
        return zero + load_half(line)[0];
    }
    if (halves == BFLOAT) {
        uint16_t upper;
        __builtin_memcpy(&upper, from, sizeof upper);
        const uint32_t bits = (uint32_t)upper << 16;
        __builtin_memcpy(&number, &bits, sizeof number);
        return zero + number;
    }
#endif
    (void)halves;
    __builtin_memcpy(&number, from, sizeof number);
    return zero + number;
}

/* Some taps of one input channel for a vector of output channels, zeros behind the last channel. */
INLINE void gather(const char *from, int64_t filter, int64_t taps, int64_t channels, int halves,
                   vector *weights) {
    element lines[MOST_TAPS][LANES];
    for (int64_t o = 0; o < LANES; o++) {
        const char *first = from + o * filter;
        for (int64_t t = 0; t < taps; t++) {
            if (o >= channels) lines[t][o] = 0;
            else if (halves) lines[t][o] = everywhere(first + 2 * t, halves)[0];
            else lines[t][o] = everywhere(first + t * (int64_t)sizeof(element), 0)[0];
        }
    }
    for (int64_t t = 0; t < taps; t++) weights[t] = *(const unaligned_vector *)lines[t];
}

/* All sums of one vector of output channels, input channel after input channel. */
INLINE void add_channels(const struct pplconv_direct_sums_args *a, int64_t first, int64_t channels,
                         struct pixel *pixels, int64_t count, int halves) {
    const int64_t size = halves ? 2 : (int64_t)sizeof(element);
    const int64_t row_size = a->kw * size, filter = a->ic * a->kh * row_size;
    for (int64_t row = 0; row < a->ic * a->kh; row++) {
        const int64_t c = row / a->kh, i = row % a->kh;
        const char *src = (const char *)a->src + c / a->block * a->src_bs + c % a->block * size;
        const char *from = (const char *)a->weights + first * filter + row * row_size;
        for (int64_t j0 = 0; j0 < a->kw; j0 += MOST_TAPS) {
            const int64_t taps = least(a->kw - j0, MOST_TAPS);
            vector weights[MOST_TAPS];
            gather(from + j0 * size, filter, taps, channels, halves, weights);
            for (struct pixel *p = pixels; p < pixels + count; p++) {
                if (i < p->row_begin || i >= p->row_end) continue;
                const char *window = src + (p->row + i) * a->src_rs + p->column * a->src_ps;
                const int64_t end = least(j0 + taps, p->column_end);
                vector sum = p->sum;
                for (int64_t j = most(j0, p->column_begin); j < end; j++) {
                    const vector x = everywhere(window + j * a->src_ps, halves);
                    sum = multiply_add(weights[j - j0], x, sum);
                }
                p->sum = sum;
            }
        }
    }
}

/* List the pixels with infinite or NaN lanes in one vector of output channels. */
static int64_t find_pixels(const struct pplconv_direct_sums_args *a, int64_t first,
                           int64_t channels, struct pixel *pixels) {
    const vector zero = {0};
    int64_t count = 0;
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t c = 0; c < a->columns; c++) {
            const int64_t at = r * a->sums_rs + c * a->sums_ps;
            const vector v = load_lanes(AT_CONST(element, a->sums, at) + first, channels);
            /* x - x is zero for finite x, and NaN for any other. */
            const vector_bits wanted = ~(vector_bits)(v - v == zero);
            element_bits any = 0;
            for (int i = 0; i < LANES; i++) any |= wanted[i];
            if (!any) continue;
            const struct pixel found = {
                wanted,
                zero,
                r,
                c,
                most(a->row_begin - r, 0),
                least(a->row_end - r, a->kh),
                most(a->column_begin - c, 0),
                least(a->column_end - c, a->kw),
            };
            pixels[count++] = found;
        }
    }
    return count;
}

/* The epilogue of one pixel, and the store of its wanted lanes. */
static void store_pixel(const struct pplconv_direct_sums_args *a, int64_t first, int64_t channels,
                        const struct pixel *p) {
    const int64_t offset = first * (int64_t)sizeof(element);
    element *to = AT(element, a->dst, p->row * a->dst_rs + p->column * a->dst_ps + offset);
    vector sum = p->sum;
    if (a->flags & PPLCONV_BIAS_COLUMN) {
        sum += load_lanes((const element *)a->bias + first, channels);
    }
    if (a->flags & PPLCONV_RESIDUAL) {
        const int64_t at = p->row * a->residual_rs + p->column * a->residual_ps + offset;
        sum += load_lanes(AT_CONST(element, a->residual, at), channels);
    }
    if (a->flags & PPLCONV_CLIP) {
        const element *bounds = a->clip;
        const vector zero = {0};
        sum = at_most(at_least(sum, zero + bounds[0]), zero + bounds[1]);
    }
    store_lanes(to, select_lanes(p->wanted, sum, load_lanes(to, channels)), channels);
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_direct_sums_args *a = argument;
    for (int64_t first = 0; first < a->channels; first += LANES) {
        const int64_t channels = least(a->channels - first, LANES);
        struct pixel pixels[MOST_PIXELS * MOST_PIXELS];
        const int64_t count = find_pixels(a, first, channels, pixels);
        if (!count) continue;
#if !PPLCONV_F64
        if (a->halves == BFLOAT) add_channels(a, first, channels, pixels, count, BFLOAT);
        else if (a->halves) add_channels(a, first, channels, pixels, count, HALF);
        else add_channels(a, first, channels, pixels, count, 0);
#else
        add_channels(a, first, channels, pixels, count, 0);
#endif
        for (int64_t i = 0; i < count; i++) store_pixel(a, first, channels, &pixels[i]);
    }
}
