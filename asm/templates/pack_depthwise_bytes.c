/* Weights of depthwise convolution of bytes into the order that their kernels read. */
#include "depthwise_bytes.h"

struct packing {
    const struct pplconv_geometry *g;
    const int16_t *src; /* of all channels */
    int size;           /* of a kernel that has loops of its own, or 0 */
};

static inline int32_t sum_of_taps(const int16_t *w, int64_t taps) {
    int32_t sum = 0;
    for (int64_t i = 0; i < taps; i++) sum += w[i];
    return sum;
}

/* The fastest format that holds the weights of channels begin .. end - 1. */
static int32_t format_of(const struct packing *p, int64_t begin, int64_t end) {
    const int64_t taps = p->g->kh * p->g->kw;
    if (!p->size) return TAPS;
    for (int64_t i = begin * taps; i < end * taps && FAST == QUADS; i++) {
        if (p->src[i] < -128 || p->src[i] > 127) return TAPS;
    }
    return FAST;
}

/* Put a weight into its quad. A format with two parts of a quad has them `step` bytes apart;
 * `place` is the weight's number in the quad. */
static void put(char *quad, int64_t step, int place, int16_t w, int32_t format) {
    if (format == QUADS) {
        quad[place] = (char)w;
    } else {
        memcpy(quad + (place & 1) * step + (place & 2), &w, sizeof(w));
    }
}

/* A unit of channels begin .. end - 1. */
static void pack_unit(const struct packing *p, char *dst, int64_t begin, int64_t end) {
    const struct packed head = {.format = format_of(p, begin, end)};
    const int64_t taps = p->g->kh * p->g->kw;
    const int size = p->size, stride = (int)p->g->stride_w;
    memcpy(dst, &head, sizeof(head));
    dst += UNIT_HEADER;
    for (int64_t c = begin; c < end; c++) {
        const int16_t *w = p->src + c * taps;
        if (head.format == TAPS) {
            for (int64_t t = 0; t < taps; t++) {
                memcpy(dst + (t * UNIT + c - begin) * 2, w + t, sizeof(*w));
            }
            continue;
        }
        const int rows = rows_of(size, stride), quads = quads_of(lines_of(size, stride));
        const int parts = head.format == PAIRS ? 2 : 1;
        char *sum = dst + (c - begin) / LANES * record_of(size, stride, head.format) +
                    (c - begin) % LANES * 4;
        const int32_t start = FLIPS ? -ADDED * sum_of_taps(w, taps) : 0;
        memcpy(sum, &start, sizeof(start));
        for (int kh = 0; kh < size; kh++) {
            for (int kw = 0; kw < size; kw++) {
                for (int r = 0; r < rows; r++) {
                    const int line = kh + r * stride;
                    const int at = 1 + ((kw * rows + r) * quads + line / 4) * parts;
                    put(sum + at * PPLCONV_VECTOR_BYTES, PPLCONV_VECTOR_BYTES, line % 4,
                        w[kh * size + kw], head.format);
                }
            }
        }
    }
}

/* One channel, for vectors along pixels. */
static void pack_channel(const struct packing *p, char *dst, int64_t channel) {
    const int64_t taps = p->g->kh * p->g->kw;
    const int16_t *w = p->src + channel * taps;
    const struct packed head = {
        .format = format_of(p, channel, channel + 1),
        .start = FLIPS ? -ADDED * sum_of_taps(w, taps) : 0,
    };
    memcpy(dst, &head, sizeof(head));
    dst += sizeof(head);
    if (head.format == TAPS) {
        memcpy(dst, w, (size_t)taps * sizeof(*w));
        return;
    }
    const int parts = head.format == PAIRS ? 2 : 1, quads = quads_of(p->size);
    for (int kh = 0; kh < p->size; kh++) {
        for (int kw = 0; kw < p->size; kw++) {
            put(dst + (kh * quads + kw / 4) * parts * 4, 4, kw % 4, w[kh * p->size + kw],
                head.format);
        }
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pack_depthwise_bytes_args *a = argument;
    const struct packing p = {a->geometry, a->src,
                              square_size(a->geometry, a->pixels ? 1 : a->multiplier)};
    const int64_t unit = a->pixels ? 1 : UNIT;
    char *dst = AT(char, a->dst, a->begin / unit * a->dst_us);
    for (int64_t c = a->begin; c < a->end; c += unit, dst += a->dst_us) {
        /* Channels that the last unit lacks, and taps that a quad lacks, are zero. */
        memset(dst, 0, (size_t)a->dst_us);
        if (a->pixels) pack_channel(&p, dst, c);
        else pack_unit(&p, dst, c, least(c + unit, a->end));
    }
    clean_registers();
}
