/* Filters of 3x3 and 5x5 in floating point, of whole rows of an image, down strips of columns.
 *
 * Each vector of pixels is loaded once: those beside it are moved into place in registers, as a
 * load across two lines of a cache takes twice as long. What a row of pixels gives to all results
 * that see it is added to sums in registers. Pixels outside are put into the first vector of a row
 * and the last one, where they are loaded. */
#include "lanes.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

/* Vectors of a strip; the most rows and columns of its taps, and weights that registers hold. */
enum { STRIP = 4, MOST_SIDE = 5, KEPT = 10, MOST_BORDER = 2 * (MOST_SIDE - 1), FEW = 2 };

typedef const struct pplconv_filter_strips_args arguments;

/* Lanes of a vector of a row: those of pixels in the image, and for pixels outside their lanes, and
 * bytes from the row to a vector that has their numbers there. */
struct ends {
    lane_mask inside, lanes[MOST_BORDER];
    int64_t from[MOST_BORDER], count;
};

/* Lanes of the vector whose first number is `at`. */
INLINE struct ends ends_of(arguments *a, int64_t at) {
    struct ends e = {.inside = lanes_between(-at, a->numbers - at)};
    const int64_t *border = a->border;
    if (!border || e.inside == (lane_mask)-1) return e;
    const int64_t beside = (a->side - 1) * a->step;
    for (int64_t first = -a->left; first < a->count + beside - a->left; first += a->step) {
        if (first == 0) first = a->numbers;
        if (first >= a->count + beside - a->left) break;
        const lane_mask lanes = lanes_between(first - at, first + a->step - at);
        if (lanes) {
            e.lanes[e.count] = lanes;
            e.from[e.count++] = (*border - (first - at)) * (int64_t)sizeof(element);
        }
        border++;
    }
    return e;
}

INLINE vector masked(vector otherwise, const element *p, lane_mask lanes) {
    return (vector)_mm512_mask_loadu_ps((__m512)otherwise, lanes, p);
}

/* A vector at some place of a row, and what is outside. */
INLINE vector load_ends(const element *row, int64_t at, const struct ends *e, vector value) {
    vector x = masked(value, row + at, e->inside);
    for (int64_t k = 0; k < e->count; k++)
        x = masked(x, AT_CONST(element, row, e->from[k]), e->lanes[k]);
    return x;
}

/* Numbers `by` lanes further on, of a vector and the next one. */
INLINE vector ahead(vector x, vector next, vector_bits by) {
    return (vector)_mm512_permutex2var_ps((__m512)x, (__m512i)by, (__m512)next);
}

/* Some vectors of all rows of results, from result i on. `parts[j]` are the sums of results that
 * see the next row of pixels by row j of their taps. */
INLINE void filter_strip(arguments *a, int64_t i, const int side, const int product, const int many,
                         const int64_t stream) {
    const vector zero = {0}, value = *(const element *)a->value - zero;
    const vector_bits lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const element *weights = a->weights, *down = a->down;
    const int64_t at = i - a->left;
    const struct ends first = ends_of(a, at), last = ends_of(a, at + many * LANES);
    vector parts[MOST_SIDE][STRIP], kept[KEPT];
    vector_bits by[MOST_SIDE];
    const int keeps = product || side * side < KEPT;
    UNROLL for (int j = 0; j < side; j++) {
        by[j] = lane + (int32_t)(j * a->step);
        UNROLL for (int v = 0; v < many; v++)
            parts[j][v] = zero;
        if (product) {
            kept[j] = weights[j] - zero;
            kept[side + j] = down[j] - zero;
        } else if (keeps) {
            UNROLL for (int t = 0; t < side; t++)
                kept[j * side + t] = weights[j * side + t] - zero;
        }
    }
    element *dst = (element *)a->dst + i;
    for (int64_t r = 0; r < a->lines + side - 1; r++) {
        const element *row = ((const element *const *)a->rows)[r];
        vector sums[STRIP], pixels[STRIP + 1];
        pixels[0] = load_ends(row, at, &first, value);
        UNROLL for (int v = 1; v < many; v++)
            pixels[v] = *(const unaligned_vector *)(row + at + v * LANES);
        pixels[many] = load_ends(row, at + many * LANES, &last, value);
        UNROLL for (int v = 0; v < many; v++)
            sums[v] = zero;
        UNROLL for (int t = 0; t < side; t++) {
            vector x[STRIP];
            UNROLL for (int v = 0; v < many; v++) {
                x[v] = t ? ahead(pixels[v], pixels[v + 1], by[t]) : pixels[v];
                if (product) sums[v] = multiply_add(kept[t], x[v], sums[v]);
            }
            UNROLL for (int j = 0; j < side && !product; j++) {
                const int tap = j * side + t;
                vector weight = weights[tap] - zero;
                if (keeps) weight = kept[tap];
                UNROLL for (int v = 0; v < many; v++)
                    parts[j][v] = multiply_add(weight, x[v], parts[j][v]);
            }
        }
        UNROLL for (int v = 0; v < many; v++) {
            UNROLL for (int j = 0; j < side && product; j++)
                parts[j][v] = multiply_add(kept[side + j], sums[v], parts[j][v]);
            if (r >= side - 1) {
                element *to = dst + v * LANES;
                if (many == 1 && a->count - i < LANES)
                    store_lanes(to, parts[side - 1][v], a->count - i);
                else if (stream) _mm512_stream_si512((void *)to, (__m512i)parts[side - 1][v]);
                else *(unaligned_vector *)to = parts[side - 1][v];
            }
            UNROLL for (int j = side - 1; j > 0; j--)
                parts[j][v] = parts[j - 1][v];
            parts[0][v] = zero;
        }
        if (r >= side - 1) dst = AT(element, dst, a->dst_rs);
    }
}

typedef void part(arguments *a, int64_t i, const int64_t stream);
#define PART(name, ...)                                                                            \
    static __attribute__((noinline)) void name(arguments *a, int64_t i, const int64_t stream) {    \
        __VA_ARGS__;                                                                               \
    }
#define STRIP_OF(side, kind, product)                                                              \
    PART(one_##kind##_##side, filter_strip(a, i, side, product, 1, 0); (void)stream)               \
    PART(some_##kind##_##side, filter_strip(a, i, side, product, STRIP, stream))
STRIP_OF(3, square, 0)
STRIP_OF(5, square, 0)
STRIP_OF(3, product, 1)
STRIP_OF(5, product, 1)

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    arguments *a = argument;
    part *const one = a->side == 3 ? (a->down ? one_product_3 : one_square_3)
                                   : (a->down ? one_product_5 : one_square_5);
    part *const some = a->side == 3 ? (a->down ? some_product_3 : some_square_3)
                                    : (a->down ? some_product_5 : some_square_5);
    int64_t i = 0, stream = 0;
    if (a->stream && a->dst_rs % PPLCONV_VECTOR_BYTES == 0) {
        /* Stores that pass by the caches are of whole vectors. */
        stream = 1;
        i = -(uintptr_t)a->dst % PPLCONV_VECTOR_BYTES / sizeof(element);
        if (i) one(a, 0, 0);
    }
    /* If much is left, the last strip reaches back. */
    const int64_t few = a->count < STRIP * LANES ? a->count : FEW * LANES;
    for (; a->count - i > few; i += STRIP * LANES) {
        const int reaches = i + STRIP * LANES > a->count;
        if (reaches) i = a->count - STRIP * LANES;
        some(a, i, reaches ? 0 : stream);
    }
    for (; i < a->count; i += LANES) one(a, i, 0);
    if (a->stream) _mm_sfence();
    clean_registers();
}
