/* The table that pack_pixels follows: which pixels lie side by side in a row of the image and
 * in the packed panel. It is the same for every channel, so it is made once for a segment. */
#include "pplconv_kernels.h"

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* Output columns that see the image through one tap: begin .. end - 1. */
struct seen {
    int64_t begin, end;
};
static struct seen columns_seen(const struct pplconv_geometry *g, int64_t kw) {
    const int64_t shift = kw * g->dilation_w - g->pad_left; /* iw = ow * stride_w + shift */
    const int64_t room = g->iw - shift;                     /* inside: ow * stride_w < room */
    const struct seen s = {shift < 0 ? (-shift + g->stride_w - 1) / g->stride_w : 0,
                           room <= 0 ? 0 : (room + g->stride_w - 1) / g->stride_w};
    return s;
}

/* Divisions would take longer than everything else, so they are done once for each tap of a row. */
enum { MOST_KEPT = 16, MOST_VECTORS = 65535 };

static inline void set_run(struct pplconv_run *run, int64_t src, int64_t dst, int64_t begin,
                           int64_t end, int64_t lanes) {
    const struct pplconv_run r = {
        .src = (int32_t)src,
        .dst = (int32_t)dst,
        .load_mask = (uint16_t)(((1u << end) - 1u) & ~((1u << begin) - 1u)),
        .store_mask = (uint16_t)((1u << lanes) - 1u),
        .vectors = 1,
        .lanes = (uint8_t)lanes,
        .room = (uint8_t)lanes,
    };
    *run = r;
}

/* The runs of one panel for one tap, from output pixel oh, ow on. `whole` is a run of one vector,
 * 1 << `shift` pixels, that all see the image. The geometry comes by value: through a pointer, it
 * would be read again after every run that is written. */
static inline struct pplconv_run *panel_runs(struct pplconv_geometry g, struct pplconv_run whole,
                                             int64_t oh, int64_t ow, int64_t pixels, int shift,
                                             int64_t dst, int64_t kh, int64_t kw, struct seen seen,
                                             struct pplconv_run *run) {
    int64_t ih = oh * g.stride_h - g.pad_top + kh * g.dilation_h;
    int64_t src = ih * g.iw + ow * g.stride_w + kw * g.dilation_w - g.pad_left, done = 0;
    const int64_t lanes = (int64_t)1 << shift;
    while (done < pixels) {
        const int64_t left = least(g.ow - ow, pixels - done);
        int64_t count = least(left, lanes);
        const int inside = ih >= 0 && ih < g.ih;
        if (inside && count == lanes && ow >= seen.begin && ow + count <= seen.end) {
            whole.src = (int32_t)src;
            whole.dst = (int32_t)(dst + done);
            whole.vectors = (uint16_t)least(least(left, seen.end - ow) >> shift, MOST_VECTORS);
            *run++ = whole;
            count = (int64_t)whole.vectors << shift;
        } else {
            const int64_t begin = inside ? clamp(seen.begin - ow, 0, count) : 0;
            const int64_t end = inside ? clamp(seen.end - ow, begin, count) : 0;
            /* A run without pixels keeps an offset inside the plane. */
            set_run(run++, begin < end ? src : 0, dst + done, begin, end, count);
        }
        done += count;
        ow += count;
        src += count * g.stride_w;
        if (ow == g.ow) {
            ow = 0;
            ih += g.stride_h;
            src += g.stride_h * g.iw - g.ow * g.stride_w;
        }
    }
    const int64_t rest = (lanes - pixels % lanes) % lanes;
    if (rest) set_run(run++, 0, dst + done, 0, 0, rest);
    return run;
}

__attribute__((visibility("hidden"))) int64_t
pplconv_pixel_runs(const struct pplconv_geometry *geometry, int64_t first, int64_t pixels,
                   int64_t lanes, int64_t width, int64_t panel_elements, struct pplconv_run *runs) {
    const struct pplconv_geometry g = *geometry;
    struct pplconv_run *run = runs, whole;
    struct seen kept[MOST_KEPT];
    const int shift = __builtin_ctzll((unsigned long long)lanes);
    set_run(&whole, 0, 0, 0, lanes, lanes);
    for (int64_t kw = 0; kw < g.kw && kw < MOST_KEPT; kw++) kept[kw] = columns_seen(&g, kw);
    for (int64_t done = 0; done < pixels; done += width) {
        const int64_t count = least(pixels - done, width);
        const int64_t oh = (first + done) / g.ow, ow = (first + done) % g.ow;
        int64_t dst = done / width * panel_elements;
        for (int64_t kh = 0; kh < g.kh; kh++) {
            for (int64_t kw = 0; kw < g.kw; kw++) {
                const struct seen seen = kw < MOST_KEPT ? kept[kw] : columns_seen(&g, kw);
                run = panel_runs(g, whole, oh, ow, count, shift, dst, kh, kw, seen, run);
                dst += width;
            }
        }
    }
    /* `room` is at most a vector, so that a store of one need not know where the next run
     * begins. */
    for (struct pplconv_run *before = run - 2; before >= runs; before--) {
        if (before[1].dst != before->dst + (before->vectors - 1) * lanes + before->lanes) continue;
        const int64_t room = before->lanes + before[1].room;
        before->room = (uint8_t)(room < lanes ? room : lanes);
    }
    return run - runs;
}
