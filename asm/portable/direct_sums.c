/* Direct sums in place of those that Winograd's transforms made infinite or NaN: in vectors of
 * output channels, whose weights are gathered as they lie, for all pixels of a tile that need it. */
#if PPLCONV_F64
#include "lanes.h"
#else
#include "half.h"
#endif

enum { MOST_PIXELS = 6, MOST_TAPS = 5 };

/* Up to LANES numbers at a stride, and zeros behind them. */
static inline vector gather(const char *src, int64_t stride, int64_t count, int64_t halves) {
#if !PPLCONV_F64
    if (halves) {
        half narrow[LANES] = {0};
        for (int64_t i = 0; i < count; i++) narrow[i] = *(const half *)(src + i * stride);
        return load_half(narrow);
    }
#endif
    (void)halves;
    element line[LANES] = {0};
    for (int64_t i = 0; i < count; i++) line[i] = *(const element *)(src + i * stride);
    return *(const unaligned_vector *)line;
}

/* Lanes that are infinite or NaN: such a number less itself is not zero. */
static inline vector_bits spoiled_lanes(vector v) {
    const vector zero = {0};
    return ~(vector_bits)(v - v == zero);
}

static inline int any_lane(vector_bits lanes) {
    element_bits any = 0;
    for (int i = 0; i < LANES; i++) any |= lanes[i];
    return any != 0;
}

/* What the taps of one input channel add to the sum of one pixel. */
static inline vector add_taps(const struct pplconv_direct_sums_args *a, const char *src,
                              const vector *weights, int64_t row, int64_t column, vector sum) {
    const vector zero = {0};
    for (int64_t i = 0; i < a->side; i++) {
        if (row + i < a->row_begin || row + i >= a->row_end) continue;
        for (int64_t j = 0; j < a->side; j++) {
            if (column + j < a->column_begin || column + j >= a->column_end) continue;
            const char *from = src + (row + i) * a->src_rs + (column + j) * a->src_ps;
            const vector x = zero + gather(from, 0, 1, a->halves)[0];
            sum = multiply_add(weights[i * a->side + j], x, sum);
        }
    }
    return sum;
}

/* The sums of those pixels of a tile that are `wanted`, for one vector of output channels. */
static void add_channels(const struct pplconv_direct_sums_args *a, int64_t first, int64_t channels,
                         const vector_bits *wanted, vector *sums) {
    const int64_t size = a->halves ? 2 : (int64_t)sizeof(element);
    const int64_t taps = a->side * a->side, filter = a->ic * taps * size;
    for (int64_t c = 0; c < a->ic; c++) {
        const char *from = (const char *)a->weights + first * filter + c * taps * size;
        const char *src =
            (const char *)a->src + c / a->block * a->src_bs + c % a->block * size;
        vector weights[MOST_TAPS * MOST_TAPS];
        for (int64_t t = 0; t < taps; t++) {
            weights[t] = gather(from + t * size, filter, channels, a->halves);
        }
        for (int64_t p = 0; p < a->rows * a->columns; p++) {
            if (any_lane(wanted[p])) {
                sums[p] = add_taps(a, src, weights, p / a->columns, p % a->columns, sums[p]);
            }
        }
    }
}

/* The epilogue and the store, of the lanes that are `wanted`. */
static void store_pixel(const struct pplconv_direct_sums_args *a, int64_t row, int64_t column,
                        int64_t first, int64_t channels, vector_bits wanted, vector sum) {
    const int64_t offset = first * (int64_t)sizeof(element);
    element *to = AT(element, a->dst, row * a->dst_rs + column * a->dst_ps + offset);
    if (a->flags & PPLCONV_BIAS_COLUMN) {
        sum += load_lanes((const element *)a->bias + first, channels);
    }
    if (a->flags & PPLCONV_RESIDUAL) {
        const int64_t at = row * a->residual_rs + column * a->residual_ps + offset;
        sum += load_lanes(AT_CONST(element, a->residual, at), channels);
    }
    if (a->flags & PPLCONV_CLIP) {
        const element *bounds = a->clip;
        const vector zero = {0};
        sum = at_most(at_least(sum, zero + bounds[0]), zero + bounds[1]);
    }
    store_lanes(to, select_lanes(wanted, sum, load_lanes(to, channels)), channels);
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_direct_sums_args *a = argument;
    for (int64_t first = 0; first < a->channels; first += LANES) {
        const int64_t channels = a->channels - first < LANES ? a->channels - first : LANES;
        vector sums[MOST_PIXELS * MOST_PIXELS];
        vector_bits wanted[MOST_PIXELS * MOST_PIXELS];
        int any = 0;
        for (int64_t p = 0; p < a->rows * a->columns; p++) {
            const int64_t at = p / a->columns * a->sums_rs + p % a->columns * a->sums_ps;
            const element *from = AT_CONST(element, a->sums, at) + first;
            const vector zero = {0};
            wanted[p] = spoiled_lanes(load_lanes(from, channels));
            sums[p] = zero;
            any |= any_lane(wanted[p]);
        }
        if (!any) continue;
        add_channels(a, first, channels, wanted, sums);
        for (int64_t p = 0; p < a->rows * a->columns; p++) {
            if (any_lane(wanted[p])) {
                store_pixel(a, p / a->columns, p % a->columns, first, channels, wanted[p], sums[p]);
            }
        }
    }
}
