/* Filters of 3x3 and 5x5 in floating point, of whole rows of an image.
 *
 * With AVX-512 they go down strips of columns: what a row of pixels gives to all results that see
 * it is added to sums in registers. Strips of AVX2's fewer registers would be a line of a cache
 * wide, and rows some KiB apart share few sets of L1. So there they go along the rows: taps of a
 * row and a column leave their sums along rows in L1, and others make three rows of results
 * together.
 *
 * Pixels outside are put into the first vector of a row and the last one, where they are loaded;
 * pixels beside are moved into place in registers. With AVX-512, strips of grey pixels are made so,
 * too: a load across two lines of a cache takes twice as long. */
#include "lanes.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 10")

#define ALONG_ROWS (PPLCONV_VECTOR_BYTES < 64)

/* Vectors of a strip, the most rows and columns of its taps, pixels outside that a row sees, and
 * how many vectors are left to be summed up one by one. */
enum {
    STRIP = ALONG_ROWS ? 1 : 4,
    MOST_SIDE = 5,
    MOST_BORDER = 2 * (MOST_SIDE - 1),
    FEW = 2,
    KEPT = 10
};

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
    if (!border || (at >= 0 && at + LANES <= a->numbers)) return e;
    const int64_t end = a->count + (a->side - 1) * a->step - a->left;
    for (int64_t first = -a->left; first < end; first += a->step) {
        if (first == 0) first = a->numbers;
        if (first >= end) break;
        if (first + a->step > at && first < at + LANES) {
            e.lanes[e.count] = lanes_between(first - at, first + a->step - at);
            e.from[e.count++] = (*border - (first - at)) * (int64_t)sizeof(element);
        }
        border++;
    }
    return e;
}

INLINE vector splat(element x) {
    const vector zero = {0};
    return x - zero;
}

/* Lanes of memory, others of a vector. */
INLINE vector masked(vector otherwise, const element *p, lane_mask lanes) {
#if PPLCONV_VECTOR_BYTES == 64
    return (vector)_mm512_mask_loadu_ps((__m512)otherwise, lanes, p);
#else
    return select_lanes(lanes, load_masked(p, lanes), otherwise);
#endif
}

/* A vector at some place of a row, and what is outside. */
INLINE vector load_ends(const element *row, int64_t at, const struct ends *e, arguments *a) {
    vector x = masked(splat(*(const element *)a->value), row + at, e->inside);
    _Pragma("GCC unroll 1") for (int64_t k = 0; k < e->count; k++) {
        x = masked(x, AT_CONST(element, row, e->from[k]), e->lanes[k]);
    }
    return x;
}

/* How the pixels of a tap come to the lanes of their results: of any number of lanes, of one lane,
 * each from memory, or from vectors that are stored first, as their lanes would come from three. */
enum { MOVED, MOVED_GREY, LOADED, STORED };

/* Lanes of a vector and the next one from pixel t on. */
INLINE vector ahead(vector x, vector next, const int t, const vector_bits *by, const int how) {
#if PPLCONV_VECTOR_BYTES == 64
    const __m512i low = (__m512i)x, high = (__m512i)next;
    /* Takes a register for each tap, and a copy of the vector. */
    if (how == MOVED)
        return (vector)_mm512_permutex2var_ps((__m512)x, (__m512i)by[t], (__m512)next);
    switch (t) {
    case 1:
        return (vector)_mm512_alignr_epi32(high, low, 1);
    case 2:
        return (vector)_mm512_alignr_epi32(high, low, 2);
    case 3:
        return (vector)_mm512_alignr_epi32(high, low, 3);
    case 4:
        return (vector)_mm512_alignr_epi32(high, low, 4);
    default:
        return x;
    }
#else
    (void)how;
    const vector low = (vector)_mm256_permutevar8x32_ps((__m256)x, (__m256i)by[t]);
    const vector high = (vector)_mm256_permutevar8x32_ps((__m256)next, (__m256i)by[t]);
    return select_lanes(by[t] < LANES, low, high);
#endif
}

/* Whether registers hold the weights. */
#define KEEPS(side, product) ((side) == 3 && ((product) || PPLCONV_VECTOR_BYTES == 64))

/* Add the products of a row of pixels to sums: those in `parts[j]` see the row by row j of their
 * taps. */
INLINE void add_row(vector (*parts)[STRIP], const vector *pixels, const element *src, arguments *a,
                    const vector *kept, const vector_bits *by, const int side, const int product,
                    const int many, const int how) {
    const vector zero = {0};
    const element *weights = a->weights, *down = a->down;
    const int keeps = KEEPS(side, product);
    vector sums[STRIP], x[STRIP];
    UNROLL for (int t = 0; t < side; t++) {
        const element *row = how == STORED ? (const element *)pixels : src;
        const unaligned_vector *from = (const unaligned_vector *)(row + t * a->step);
        UNROLL for (int v = 0; v < many; v++) {
            if (how == LOADED || how == STORED) x[v] = from[v];
            else x[v] = ahead(pixels[v], pixels[v + 1], t, by, how);
        }
        if (product) {
            const vector weight = keeps ? kept[t] : splat(weights[t]);
            UNROLL for (int v = 0; v < many; v++)
                sums[v] = multiply_add(weight, x[v], t ? sums[v] : zero);
        }
        UNROLL for (int j = 0; j < side && !product; j++) {
            const vector weight = keeps ? kept[j * side + t] : splat(weights[j * side + t]);
            UNROLL for (int v = 0; v < many; v++)
                parts[j][v] = multiply_add(weight, x[v], j || t ? parts[j][v] : zero);
        }
    }
    UNROLL for (int j = 0; j < side && product; j++) {
        const vector weight = keeps ? kept[side + j] : splat(down[j]);
        UNROLL for (int v = 0; v < many; v++)
            parts[j][v] = multiply_add(weight, sums[v], j ? parts[j][v] : zero);
    }
}

/* Some vectors of all rows of results, from result i on. If pixels are loaded, all of them lie in
 * the image. */
INLINE void filter_strip(arguments *a, int64_t i, const int side, const int product, const int many,
                         const int how, const int64_t stream) {
    const vector zero = {0};
#if PPLCONV_VECTOR_BYTES == 64
    const vector_bits lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#else
    const vector_bits lane = {0, 1, 2, 3, 4, 5, 6, 7};
#endif
    const int64_t at = i - a->left;
    const struct ends first = ends_of(a, at), last = ends_of(a, at + many * LANES);
    struct ends behind;
    if (how == STORED) behind = ends_of(a, at + 2 * LANES);
    const element *weights = a->weights, *down = a->down;
    vector parts[MOST_SIDE][STRIP], kept[KEPT];
    vector_bits by[MOST_SIDE];
    UNROLL for (int t = 0; t < KEPT; t++) {
        if (product && t < side) {
            kept[t] = splat(weights[t]);
            kept[side + t] = splat(down[t]);
        } else if (!product && t < side * side) {
            kept[t] = splat(weights[t]);
        }
    }
    UNROLL for (int j = 0; j < side; j++) {
        by[j] = lane + (int32_t)(j * a->step);
        UNROLL for (int v = 0; v < many; v++)
            parts[j][v] = zero;
    }
    element *dst = (element *)a->dst + i;
    for (int64_t r = 0; r < a->lines + side - 1; r++) {
        const element *row = ((const element *const *)a->rows)[r];
        if (many > 1 && a->far) {
            /* CPUs do not foresee short pieces of many rows: the next strip is asked for. */
            UNROLL for (int v = 0; v < many; v++)
                __builtin_prefetch(row + at + (many + 1 + v) * LANES);
        }
        vector pixels[STRIP + 2];
        if (how != LOADED) {
            pixels[0] = load_ends(row, at, &first, a);
            UNROLL for (int v = 1; v < many; v++)
                pixels[v] = *(const unaligned_vector *)(row + at + v * LANES);
            pixels[many] = load_ends(row, at + many * LANES, &last, a);
            if (how == STORED) pixels[many + 1] = load_ends(row, at + 2 * LANES, &behind, a);
        }
        add_row(parts, pixels, row + at, a, kept, by, side, product, many, how);
        UNROLL for (int v = 0; v < many; v++) {
            if (r >= side - 1) {
                element *to = dst + v * LANES;
                if (many == 1 && a->count - i < LANES)
                    store_lanes(to, parts[side - 1][v], a->count - i);
                else store_past(to, parts[side - 1][v], stream);
            }
            UNROLL for (int j = side - 1; j > 0; j--)
                parts[j][v] = parts[j - 1][v];
        }
        if (r >= side - 1) dst = AT(element, dst, a->dst_rs);
    }
}

#if ALONG_ROWS
/* Vectors of results that are made in each row before the next one: the sums of the newest rows
 * stay in L1, or not far from it. Vectors that are summed up together: of one row of sums, and of
 * each of three rows of results. Bytes after which addresses have the same lowest bits. */
enum { PIECE = 504, TOGETHER = 4, LINES = 3, BESIDE = 3, WHOLE = 12, PAGE = 4096 };

/* Sums along a row of pixels, from vector v on. If they are the newest row of a column, `older` has
 * the sums of its other rows, and the results are made. */
INLINE void product_group(arguments *a, const element *src, vector *newest,
                          const vector *const *older, element *dst, const vector *kept, int64_t v,
                          const int side, const int64_t stream) {
    const vector zero = {0};
    vector sums[TOGETHER], parts[TOGETHER];
    UNROLL for (int t = 0; t < side; t++) {
        const unaligned_vector *from = (const unaligned_vector *)(src + t * a->step) + v;
        UNROLL for (int k = 0; k < TOGETHER; k++)
            sums[k] = multiply_add(kept[t], from[k], t ? sums[k] : zero);
    }
    UNROLL for (int k = 0; k < TOGETHER; k++)
        newest[v + k] = sums[k];
    if (!older) return;
    UNROLL for (int j = 0; j < side; j++) {
        UNROLL for (int k = 0; k < TOGETHER; k++) {
            const vector x = j < side - 1 ? older[j][v + k] : sums[k];
            parts[k] = multiply_add(kept[side + j], x, j ? parts[k] : zero);
        }
    }
    UNROLL for (int k = 0; k < TOGETHER; k++)
        store_past(dst + (v + k) * LANES, parts[k], stream);
}

/* Ask for vectors of a row that is far away: CPUs foresee too few of its lines. */
INLINE void ask_for(const element *from, const int many) {
    UNROLL for (int k = 0; k < many * LANES; k += CACHE_LINE / (int)sizeof(element))
        __builtin_prefetch(from + k);
}

/* Some vectors of all rows of results, from result i on, of a row and a column of taps. */
INLINE void product_rows(arguments *a, int64_t i, int64_t count, const int side,
                         const int64_t stream) {
    vector ring[MOST_SIDE][PIECE], kept[KEPT];
    UNROLL for (int t = 0; t < side; t++) {
        kept[t] = splat(((const element *)a->weights)[t]);
        kept[side + t] = splat(((const element *)a->down)[t]);
    }
    element *dst = (element *)a->dst + i;
    int64_t at = 0;
    for (int64_t r = 0; r < a->lines + side - 1; r++) {
        const element *src = ((const element *const *)a->rows)[r] + i - a->left;
        const vector *older[MOST_SIDE];
        vector *newest = ring[at];
        at = at + 1 < side ? at + 1 : 0;
        /* The oldest row is the next one in the ring. */
        UNROLL for (int j = 0; j < side - 1; j++)
            older[j] = ring[at + j < side ? at + j : at + j - side];
        const int64_t next = a->far && r + 1 < a->lines + side - 1;
        const element *coming = ((const element *const *)a->rows)[r + next] + i - a->left;
        for (int64_t v = 0; v < count; v += TOGETHER) {
            const int reaches = v + TOGETHER > count;
            if (reaches) v = count - TOGETHER;
            if (next) ask_for(coming + v * LANES, TOGETHER);
            if (r < side - 1) product_group(a, src, newest, NULL, dst, kept, v, side, 0);
            else product_group(a, src, newest, older, dst, kept, v, side, reaches ? 0 : stream);
        }
        if (r >= side - 1) dst = AT(element, dst, a->dst_rs);
    }
}

/* Vectors of one row of results or of three, from vector v on, of a square of taps. */
INLINE void square_group(arguments *a, const element *const *rows, element *dst, int64_t v,
                         const int side, const int lines, const int64_t stream) {
    const vector zero = {0};
    const element *weights = a->weights;
    vector parts[LINES][BESIDE], x[BESIDE];
    UNROLL for (int r = 0; r < side + lines - 1; r++) {
        UNROLL for (int t = 0; t < side; t++) {
            const unaligned_vector *from = (const unaligned_vector *)(rows[r] + t * a->step) + v;
            UNROLL for (int k = 0; k < BESIDE; k++)
                x[k] = from[k];
            UNROLL for (int l = 0; l < lines; l++) {
                if (r < l || r >= l + side) continue;
                const vector weight = splat(weights[(r - l) * side + t]);
                UNROLL for (int k = 0; k < BESIDE; k++)
                    parts[l][k] = multiply_add(weight, x[k], r > l || t ? parts[l][k] : zero);
            }
        }
    }
    UNROLL for (int l = 0; l < lines; l++) {
        element *to = AT(element, dst, l * a->dst_rs) + v * LANES;
        UNROLL for (int k = 0; k < BESIDE; k++)
            store_past(to + k * LANES, parts[l][k], stream);
    }
}

/* Some vectors of all rows of results, from result i on, of a square of taps. */
INLINE void square_rows(arguments *a, int64_t i, int64_t count, const int side,
                        const int64_t stream) {
    const element *rows[MOST_SIDE + LINES - 1];
    element *dst = (element *)a->dst + i;
    for (int64_t r = 0, lines; r < a->lines; r += lines) {
        lines = a->lines - r < LINES ? 1 : LINES;
        for (int64_t k = 0; k < side + lines - 1; k++)
            rows[k] = ((const element *const *)a->rows)[r + k] + i - a->left;
        for (int64_t v = 0; v < count; v += BESIDE) {
            const int reaches = v + BESIDE > count;
            if (reaches) v = count - BESIDE;
            if (lines == LINES) square_group(a, rows, dst, v, side, LINES, reaches ? 0 : stream);
            else square_group(a, rows, dst, v, side, 1, reaches ? 0 : stream);
        }
        dst = AT(element, dst, lines * a->dst_rs);
    }
}
#endif

/* Parts of rows of results: a vector, or more. */
#define PART(name, ...)                                                                            \
    static __attribute__((noinline)) void name(arguments *a, int64_t i, int64_t count,             \
                                               const int64_t stream) {                             \
        __VA_ARGS__;                                                                               \
    }
typedef void part(arguments *a, int64_t i, int64_t count, const int64_t stream);

#define ONE_OF(name, side, product, how)                                                           \
    PART(name, filter_strip(a, i, side, product, 1, how, 0); (void)count; (void)stream)
ONE_OF(one_square_3, 3, 0, MOVED)
ONE_OF(one_square_5, 5, 0, MOVED)
ONE_OF(one_product_3, 3, 1, MOVED)
ONE_OF(one_product_5, 5, 1, MOVED)
#if ALONG_ROWS
ONE_OF(wide_square_5, 5, 0, STORED)
ONE_OF(wide_product_5, 5, 1, STORED)
PART(some_square_3, square_rows(a, i, count, 3, stream))
PART(some_square_5, square_rows(a, i, count, 5, stream))
PART(some_product_3, product_rows(a, i, count, 3, stream))
PART(some_product_5, product_rows(a, i, count, 5, stream))
#else
#define STRIPS_OF(name, side, product)                                                             \
    PART(grey_##name, filter_strip(a, i, side, product, STRIP, MOVED_GREY, stream); (void)count)   \
    PART(some_##name, filter_strip(a, i, side, product, STRIP, LOADED, stream); (void)count)
STRIPS_OF(square_3, 3, 0)
STRIPS_OF(square_5, 5, 0)
STRIPS_OF(product_3, 3, 1)
STRIPS_OF(product_5, 5, 1)
#endif

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    static part *const parts[2][2][2] = {
        {{one_square_3, some_square_3}, {one_square_5, some_square_5}},
        {{one_product_3, some_product_3}, {one_product_5, some_product_5}},
    };
    arguments *a = argument;
    const int product = a->down != NULL, larger = a->side == 5;
    part *one = parts[product][larger][0];
#if ALONG_ROWS
    if ((a->side - 1) * a->step > LANES) one = product ? wide_product_5 : wide_square_5;
#endif
    part *some = parts[product][larger][1];
    int grey = 0;
#if !ALONG_ROWS
    static part *const greys[2][2] = {{grey_square_3, grey_square_5},
                                      {grey_product_3, grey_product_5}};
    grey = a->step == 1 && a->moves;
    if (grey) some = greys[product][larger];
#endif
    /* These parts make the results from `begin` up to `end`; loaded pixels all lie in the image. */
    const int64_t begin = grey ? 0 : a->left;
    const int64_t end = grey ? a->count : a->left + a->numbers - (a->side - 1) * a->step;
    int64_t i = 0, start = before_line(a->dst);
    while (start < begin) start += CACHE_LINE / sizeof(element);
    const int stream = a->stream && a->dst_rs % CACHE_LINE == 0 && start + STRIP * LANES <= end;
    for (; i < (stream ? start : begin); i += LANES) one(a, i, 1, 0);
    if (stream) i = start;
#if ALONG_ROWS
    /* Pieces of like size. All but the last piece end with a cache line, and are whole groups of
     * vectors: no group reaches back. */
    const int64_t vectors = (end - i) / LANES, pieces = (vectors + PIECE - 1) / PIECE;
    const int64_t most = pieces ? (vectors / pieces + WHOLE) / WHOLE * WHOLE : 0;
    for (int64_t left = vectors, count; left >= TOGETHER; left -= count) {
        count = left < most ? left : most;
        if (count > PIECE) count = PIECE;
        /* Loads that have the lowest bits of the address of a store on its way past the caches
         * wait for it: of a square of taps, where rows are pages apart. */
        some(a, i, count, stream && (product || a->dst_rs % PAGE));
        i += count * LANES;
    }
#else
    /* If much is left, the last strip reaches back. */
    const int64_t few = end - begin < STRIP * LANES ? a->count : FEW * LANES;
    for (; end - i > few; i += STRIP * LANES) {
        const int reaches = i + STRIP * LANES > end;
        if (reaches) i = end - STRIP * LANES;
        some(a, i, STRIP, reaches ? 0 : stream);
    }
#endif
    for (; i < a->count; i += LANES) one(a, i, 1, 0);
    if (a->stream) _mm_sfence();
    clean_registers();
}
