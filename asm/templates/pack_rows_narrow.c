/* im2col from a channels-last image for items of one or two bytes: a row per output pixel, k = (kh,
 * kw, channel) along it. A run is a piece that is contiguous in the image and in the packed row:
 * the taps of one line, or one tap where dilation or channels that are not packed separate them.
 * Pixels of one line of the output have runs of the same width, a step apart. So the copy is chosen
 * by width once for all pixels whose run lies wholly in the image; only runs at its sides are
 * shortened. */
#include "bytes.h"

#if defined(__AVX512BW__) && defined(__AVX512VL__)
enum { WIDEST = 64 };
#elif defined(__AVX2__)
enum { WIDEST = 32 };
#else
enum { WIDEST = 16 };
#endif

/* `width` bytes, a power of two up to WIDEST. */
INLINE void move(char *dst, const char *src, const int width) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    if (width == 64) _mm512_storeu_si512(dst, _mm512_loadu_si512(src));
#endif
#if defined(__AVX2__)
    if (width == 32) {
        _mm256_storeu_si256((__m256i *)dst, _mm256_loadu_si256((const __m256i *)src));
    }
#endif
    if (width == 16) store_piece(dst, load_piece(src));
    if (width <= 8) memcpy(dst, src, (size_t)width);
}

/* Runs of `width` to 2 * `width` bytes: two moves that overlap. */
INLINE void copy_twice(char *dst, int64_t dst_step, const char *src, int64_t src_step,
                       int64_t count, int64_t bytes, const int width) {
    const int64_t rest = bytes - width;
    for (int64_t i = 0; i < count; i++, dst += dst_step, src += src_step) {
        move(dst, src, width);
        move(dst + rest, src + rest, width);
    }
}

/* Runs of more than WIDEST bytes, the last of which are moved by a vector that reaches back. */
INLINE void copy_long(char *dst, int64_t dst_step, const char *src, int64_t src_step, int64_t count,
                      int64_t bytes) {
    for (int64_t i = 0; i < count; i++, dst += dst_step, src += src_step) {
        int64_t at = 0;
        for (; at + 2 * WIDEST <= bytes; at += 2 * WIDEST) {
            move(dst + at, src + at, WIDEST);
            move(dst + at + WIDEST, src + at + WIDEST, WIDEST);
        }
        if (at + WIDEST <= bytes) move(dst + at, src + at, WIDEST);
        if (bytes % WIDEST) move(dst + bytes - WIDEST, src + bytes - WIDEST, WIDEST);
    }
}

#if defined(__AVX512BW__) && defined(__AVX512VL__)

/* Runs of up to WIDEST bytes: one move under a mask for any number of bytes. */
INLINE void copy_short(char *dst, int64_t dst_step, const char *src, int64_t src_step,
                       int64_t count, int64_t bytes) {
    const uint64_t mask = _bzhi_u64(~0ULL, (unsigned)bytes);
    if (bytes <= 16) {
        for (int64_t i = 0; i < count; i++, dst += dst_step, src += src_step) {
            const __m128i v = _mm_maskz_loadu_epi8((__mmask16)mask, src);
            _mm_mask_storeu_epi8(dst, (__mmask16)mask, v);
        }
    } else if (bytes <= 32) {
        for (int64_t i = 0; i < count; i++, dst += dst_step, src += src_step) {
            const __m256i v = _mm256_maskz_loadu_epi8((__mmask32)mask, src);
            _mm256_mask_storeu_epi8(dst, (__mmask32)mask, v);
        }
    } else {
        for (int64_t i = 0; i < count; i++, dst += dst_step, src += src_step) {
            _mm512_mask_storeu_epi8(dst, mask, _mm512_maskz_loadu_epi8(mask, src));
        }
    }
}

#else

INLINE void copy_short(char *dst, int64_t dst_step, const char *src, int64_t src_step,
                       int64_t count, int64_t bytes) {
    if (bytes >= 16) {
        copy_twice(dst, dst_step, src, src_step, count, bytes, 16);
    } else if (bytes >= 8) {
        copy_twice(dst, dst_step, src, src_step, count, bytes, 8);
    } else if (bytes >= 4) {
        copy_twice(dst, dst_step, src, src_step, count, bytes, 4);
    } else if (bytes >= 2) {
        copy_twice(dst, dst_step, src, src_step, count, bytes, 2);
    } else if (bytes) {
        for (int64_t i = 0; i < count; i++) dst[i * dst_step] = src[i * src_step];
    }
}

#endif

static void copy_runs(char *dst, int64_t dst_step, const char *src, int64_t src_step, int64_t count,
                      int64_t bytes) {
    if (bytes > 2 * WIDEST) {
        copy_long(dst, dst_step, src, src_step, count, bytes);
    } else if (bytes >= WIDEST) {
        copy_twice(dst, dst_step, src, src_step, count, bytes, WIDEST);
    } else {
        copy_short(dst, dst_step, src, src_step, count, bytes);
    }
}

static void fill_run(char *dst, int64_t bytes, piece padding) {
    if (bytes < 16) {
        store_part(dst, padding, bytes);
        return;
    }
    for (int64_t at = 0; at + 16 <= bytes; at += 16) store_piece(dst + at, padding);
    store_piece(dst + bytes - 16, padding);
}

INLINE int64_t clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* Source of a run: items begin .. end - 1, counted from some column of a line. */
struct run {
    const char *line; /* the first pixel of the line, or beyond the image */
    int64_t columns;  /* of the line; 0 beyond the image */
    int64_t channels; /* of a pixel */
    int64_t pixel;    /* from one to the next */
    int64_t begin, end;
};

/* A run of which only a part may lie in the image. */
static void emit(char *dst, const struct run *r, int64_t column, piece padding) {
    const int64_t low = clamp(-column * r->channels, r->begin, r->end);
    const int64_t high = clamp((r->columns - column) * r->channels, low, r->end);
    fill_run(dst, (low - r->begin) * SIZE, padding);
    if (high > low) {
        copy_runs(dst + (low - r->begin) * SIZE, 0, r->line + column * r->pixel + low * SIZE, 0, 1,
                  (high - low) * SIZE);
    }
    fill_run(dst + (high - r->begin) * SIZE, (r->end - high) * SIZE, padding);
}

/* The run of `count` pixels, `step` columns apart, the first of which begins in `column`. */
static void pack_runs(char *dst, int64_t dst_step, const struct run *r, int64_t column,
                      int64_t step, int64_t count, piece padding) {
    const int64_t limit = r->columns * r->channels - r->end;
    int64_t i = 0;
    for (; i < count && (column * r->channels + r->begin < 0 || !r->columns); i++) {
        emit(dst, r, column, padding);
        column += step;
        dst += dst_step;
    }
    int64_t inside = count - i;
    if ((column + (inside - 1) * step) * r->channels > limit) {
        const int64_t room = limit - column * r->channels;
        inside = room < 0 ? 0 : room / (step * r->channels) + 1;
    }
    copy_runs(dst, dst_step, r->line + column * r->pixel + r->begin * SIZE, step * r->pixel, inside,
              (r->end - r->begin) * SIZE);
    for (i += inside; i < count; i++) {
        emit(dst + inside * dst_step, r, column + inside * step, padding);
        column += step;
        dst += dst_step;
    }
}

/* Pixels whose lines all lie in the image, one after the other. Each line of taps is one move of
 * `width` bytes, a power of two, which may copy more bytes than the line has; the next line's move
 * overwrites the excess, and the last line is moved exactly. So packed rows are written from front
 * to back, and bytes read in excess lie in the image, whose lines are no shorter than a move. */
INLINE void pack_pixels(char *dst, int64_t dst_rs, const char *src, int64_t src_step,
                        int64_t src_line, int64_t lines, int64_t bytes, int64_t count,
                        const int width) {
    for (int64_t i = 0; i < count; i++, dst += dst_rs, src += src_step) {
        const char *from = src;
        char *to = dst;
        for (int64_t kh = 1; kh < lines; kh++, from += src_line, to += bytes) move(to, from, width);
        copy_short(to, 0, from, 0, 1, bytes);
    }
}
static void pack_short_lines(char *dst, int64_t dst_rs, const char *src, int64_t src_step,
                             int64_t src_line, int64_t lines, int64_t bytes, int64_t count) {
#define PIXELS(width) pack_pixels(dst, dst_rs, src, src_step, src_line, lines, bytes, count, width)
    if (bytes <= 4) PIXELS(4);
    else if (bytes <= 8) PIXELS(8);
    else if (bytes <= 16) PIXELS(16);
    else if (WIDEST >= 32) PIXELS(32);
#undef PIXELS
}

/* Packs `count` neighbours of one line of the output. */
static void pack_line(const struct pplconv_pack_rows_args *a, int64_t image, int64_t oh, int64_t ow,
                      int64_t count, char *dst, piece padding) {
    const struct pplconv_geometry *g = a->geometry;
    const int64_t channels = a->channels, span = g->kw * channels;
    const int together =
        g->dilation_w == 1 && a->src_ps == channels * SIZE && a->dst_ts == channels * SIZE;
    /* Offset of k_begin in the packed row, counted from tap 0. */
    const int64_t origin = a->k_begin / channels * a->dst_ts + a->k_begin % channels * SIZE;
    const int64_t column = ow * g->stride_w - g->pad_left;
    struct run r = {.channels = channels, .pixel = a->src_ps};

    for (int64_t kh = a->k_begin / span; kh * span < a->k_end; kh++) {
        const int64_t begin = clamp(a->k_begin - kh * span, 0, span);
        const int64_t end = clamp(a->k_end - kh * span, 0, span);
        const int64_t ih = oh * g->stride_h - g->pad_top + kh * g->dilation_h;
        char *to = dst + kh * g->kw * a->dst_ts - origin;
        r.columns = ih >= 0 && ih < g->ih ? g->iw : 0;
        r.line = AT_CONST(char, a->src, image * a->src_ns + ih * g->iw * a->src_ps);
        if (together) {
            r.begin = begin;
            r.end = end;
            pack_runs(to + begin * SIZE, a->dst_rs, &r, column, g->stride_w, count, padding);
            continue;
        }
        for (int64_t kw = begin / channels; kw * channels < end; kw++) {
            r.begin = clamp(begin - kw * channels, 0, channels);
            r.end = clamp(end - kw * channels, 0, channels);
            pack_runs(to + kw * a->dst_ts + r.begin * SIZE, a->dst_rs, &r,
                      column + kw * g->dilation_w, g->stride_w, count, padding);
        }
    }
}

/* The same, where short lines of taps can be moved together. */
static void pack_neighbours(const struct pplconv_pack_rows_args *a, int64_t image, int64_t oh,
                            int64_t ow, int64_t count, char *dst, piece padding) {
    const struct pplconv_geometry *g = a->geometry;
    const int64_t pixel = a->channels * SIZE, bytes = g->kw * pixel;
    const int64_t top = oh * g->stride_h - g->pad_top, line = g->iw * a->src_ps;
    const int64_t widest = WIDEST < 32 ? WIDEST : 32, whole = g->kh * g->kw * a->channels;
    int64_t first = ow, end = ow;
    if (g->dilation_w == 1 && a->src_ps == pixel && a->dst_ts == pixel && bytes <= widest &&
        line >= widest && bytes >= 3 && a->k_begin == 0 && a->k_end == whole && top >= 0 &&
        top + (g->kh - 1) * g->dilation_h < g->ih) {
        const int64_t last = (line - bytes) / pixel + g->pad_left;
        first = clamp((g->pad_left + g->stride_w - 1) / g->stride_w, ow, ow + count);
        end = clamp(last / g->stride_w + 1, first, ow + count);
    }
    if (end == first) {
        pack_line(a, image, oh, ow, count, dst, padding);
        return;
    }
    if (first > ow) pack_line(a, image, oh, ow, first - ow, dst, padding);
    pack_short_lines(
        AT(char, dst, (first - ow) * a->dst_rs), a->dst_rs,
        AT_CONST(char, a->src,
                 image * a->src_ns + top * line + (first * g->stride_w - g->pad_left) * pixel),
        g->stride_w * pixel, g->dilation_h * line, g->kh, bytes, end - first);
    if (end < ow + count) {
        pack_line(a, image, oh, end, ow + count - end, AT(char, dst, (end - ow) * a->dst_rs),
                  padding);
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pack_rows_args *a = argument;
    const struct pplconv_geometry *g = a->geometry;
    const uint64_t fill = (item)a->fill * (~0ULL / (item)~0U);
    const int64_t area = g->oh * g->ow;
    int64_t image = a->first / area, oh = a->first % area / g->ow, ow = a->first % g->ow;

    for (int64_t p = 0, count; p < a->pixels; p += count, ow = 0) {
        count = least(a->pixels - p, g->ow - ow);
        pack_neighbours(a, image, oh, ow, count, AT(char, a->dst, p * a->dst_rs),
                        piece_of(fill, fill));
        if (++oh == g->oh) {
            oh = 0;
            image++;
        }
    }
    clean_registers();
}
