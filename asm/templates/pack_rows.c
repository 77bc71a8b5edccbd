/* im2col from a channels-last image: a row per output pixel, k = (kh, kw, channel) along it. The
 * taps of one image row are neighbours in memory unless dilation, or channels that are not packed,
 * separate them. In the packed row they are neighbours unless channels of another source come
 * between them. */
#include "lanes.h"

static inline void copy(element *dst, const element *src, int64_t n) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        *(unaligned_vector *)(dst + i) = *(const unaligned_vector *)(src + i);
    }
    if (i == n) return;
    if (PREFER_WHOLE && i) {
        *(unaligned_vector *)(dst + n - LANES) = *(const unaligned_vector *)(src + n - LANES);
    } else {
        copy_lanes(dst + i, src + i, n - i);
    }
}

static inline int64_t clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* Elements begin .. end - 1 of a span of `span` elements, of which inside_begin .. inside_end - 1
 * come from the image (src points at the span's element 0) and the others are padding. */
static inline void emit(element *dst, const element *src, int64_t begin, int64_t end,
                        int64_t inside_begin, int64_t inside_end) {
    const int64_t low = clamp(inside_begin, begin, end), high = clamp(inside_end, low, end);
    clear(dst, low - begin);
    copy(dst + (low - begin), src + low, high - low);
    clear(dst + (high - begin), end - high);
}

/* Taps of at most a vector of channels, whole, of which those from column 0 up to `columns` come
 * from the image. */
static inline void pack_narrow(char *dst, int64_t dst_step, const char *src, int64_t src_step,
                               int64_t column, int64_t dilation, int64_t columns, int64_t channels,
                               int64_t taps) {
    const vector zero = {0};
    for (int64_t i = 0; i < taps; i++) {
        const int inside = column >= 0 && column < columns;
        store_lanes((element *)dst, inside ? load_lanes((const element *)src, channels) : zero,
                    channels);
        column += dilation;
        src += src_step;
        dst += dst_step;
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pack_rows_args *a = argument;
    const struct pplconv_geometry *g = a->geometry;
    const int64_t size = sizeof(element), channels = a->channels, span = g->kw * channels;
    const int together =
        g->dilation_w == 1 && a->src_ps == channels * size && a->dst_ts == channels * size;
    /* Offset of k_begin in the packed row, counted from tap 0. */
    const int64_t origin = a->k_begin / channels * a->dst_ts + a->k_begin % channels * size;
    const int64_t first_tap = a->k_begin / channels, end_tap = a->k_end / channels;
    const int narrow =
        channels <= LANES && first_tap * channels == a->k_begin && end_tap * channels == a->k_end;
    const int64_t area = g->oh * g->ow;
    int64_t image = a->first / area, oh = a->first % area / g->ow, ow = a->first % g->ow;

    for (int64_t p = 0; p < a->pixels; p++) {
        char *dst = AT(char, a->dst, p * a->dst_rs);
        const char *src = AT_CONST(char, a->src, image * a->src_ns);
        const int64_t iw = ow * g->stride_w - g->pad_left;
        for (int64_t kh = a->k_begin / span; kh * span < a->k_end; kh++) {
            const int64_t begin = clamp(a->k_begin - kh * span, 0, span);
            const int64_t end = clamp(a->k_end - kh * span, 0, span);
            const int64_t ih = oh * g->stride_h - g->pad_top + kh * g->dilation_h;
            const int64_t columns = ih >= 0 && ih < g->ih ? g->iw : 0; /* no row: all padding */
            const int64_t row = ih * g->iw, place = kh * g->kw * a->dst_ts - origin;
            if (together) {
                emit(AT(element, dst, place + begin * size),
                     AT_CONST(element, src, (row + iw) * a->src_ps), begin, end, -iw * channels,
                     columns ? (columns - iw) * channels : 0);
                continue;
            }
            if (narrow) {
                const int64_t low = clamp(first_tap - kh * g->kw, 0, g->kw);
                const int64_t high = clamp(end_tap - kh * g->kw, 0, g->kw);
                const int64_t column = iw + low * g->dilation_w;
                pack_narrow(dst + place + low * a->dst_ts, a->dst_ts,
                            src + (row + column) * a->src_ps, g->dilation_w * a->src_ps, column,
                            g->dilation_w, columns, channels, high - low);
                continue;
            }
            for (int64_t kw = begin / channels; kw * channels < end; kw++) {
                const int64_t column = iw + kw * g->dilation_w;
                const int inside = column >= 0 && column < columns;
                const int64_t low = clamp(begin - kw * channels, 0, channels);
                const int64_t high = clamp(end - kw * channels, 0, channels);
                emit(AT(element, dst, place + kw * a->dst_ts + low * size),
                     AT_CONST(element, src, (row + column) * a->src_ps), low, high, 0,
                     inside ? channels : 0);
            }
        }
        if (++ow == g->ow) {
            ow = 0;
            if (++oh == g->oh) {
                oh = 0;
                image++;
            }
        }
    }
}
