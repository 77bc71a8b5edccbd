/* The terms of one panel of sparse weights: each k at which any of its channels has a weight that
 * is not zero. The bits of an element are tested, so that subnormal numbers count in every mode of
 * the machine, and zeros of either sign do not. */
#include "template.h"

#if PPLCONV_TYPE_U8
typedef uint8_t item;
#define IS_ZERO(x) ((x) == 0)
#elif PPLCONV_TYPE_S16
typedef uint16_t item;
#define IS_ZERO(x) ((x) == 0)
#else
#if PPLCONV_F64
typedef uint64_t item;
#elif PPLCONV_F16
typedef uint16_t item;
#else
typedef uint32_t item;
#endif
#define IS_ZERO(x) ((item)((x) << 1) == 0)
#endif

/* Channel and tap of k. */
struct source {
    int64_t channel, tap;
};

static inline struct source source_of(const struct pplconv_pack_sparse_args *a, int64_t k) {
    const int64_t together = a->channel_block, size = together * a->taps;
    const struct source s = {k / size * together + k % together, k / together % a->taps};
    return s;
}

/* Address of the weight of the panel's first channel; NULL where the last block has no channel. */
static inline const char *weight_at(const struct pplconv_pack_sparse_args *a, struct source s) {
    if (s.channel >= a->ic) return NULL;
    return AT_CONST(char, a->src, (s.channel * a->taps + s.tap) * a->src_ks);
}

/* Position of the input that is multiplied by the weight. */
static inline int64_t place_of(const struct pplconv_pack_sparse_args *a, struct source s) {
    const int64_t h = s.tap / a->kw * a->row_dilation, w = s.tap % a->kw * a->column_dilation;
    return s.channel * a->channel_step + h / a->row_stride * a->row_step +
           h % a->row_stride * a->row_phase + w / a->column_stride * a->column_step +
           w % a->column_stride * a->column_phase;
}

/* Whether any channel has a weight here that is not zero. */
static inline int is_term(const struct pplconv_pack_sparse_args *a, const char *weights) {
    for (int64_t r = 0; weights != NULL && r < a->rows; r++) {
        item x;
        memcpy(&x, weights + r * a->src_os, sizeof x);
        if (!IS_ZERO(x)) return 1;
    }
    return 0;
}

/* Put term `index` into its place, as far as there is room. */
static void put(const struct pplconv_pack_sparse_args *a, int64_t index, int64_t step,
                const char *weights) {
    if (index >= a->room) return;
    const int64_t kr = a->kr, width = a->width;
    item *dst = (item *)a->values + index / kr * kr * width + index % kr;
    ((int32_t *)a->steps)[index] = (int32_t)step;
    for (int64_t r = 0; r < width; r++) {
        item x = 0;
        if (weights != NULL && r < a->rows) memcpy(&x, weights + r * a->src_os, sizeof x);
        memcpy(dst + r * kr, &x, sizeof x);
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pack_sparse_args *a = argument;
    int64_t count = 0, last = place_of(a, source_of(a, a->k_begin));
    for (int64_t k = a->k_begin; k < a->k_end; k++) {
        const struct source source = source_of(a, k);
        const char *weights = weight_at(a, source);
        if (!is_term(a, weights)) continue;
        if (a->steps != NULL) {
            const int64_t place = place_of(a, source);
            put(a, count, place - last, weights);
            last = place;
        }
        count++;
    }
    for (; count % a->kr; count++) {
        if (a->steps != NULL) put(a, count, 0, NULL);
    }
    *(int64_t *)a->count = count;
}
