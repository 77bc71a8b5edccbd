/* The table that pack_pixels follows: which pixels lie side by side in a row of the image and
 * in the packed panel. It is the same for every channel, so it is made once for a segment. */
#include "pplconv_kernels.h"

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* Which of the output columns ow .. ow + lanes - 1 lie inside the image, for one tap. */
static void inside_columns(const struct pplconv_geometry *g, int64_t ow, int64_t lanes, int64_t kw,
                           int64_t *begin, int64_t *end) {
    const int64_t shift = kw * g->dilation_w - g->pad_left; /* iw = ow * stride_w + shift */
    const int64_t room = g->iw - shift;                     /* inside: ow * stride_w < room */
    const int64_t low = shift < 0 ? (-shift + g->stride_w - 1) / g->stride_w : 0;
    const int64_t high = room <= 0 ? 0 : (room + g->stride_w - 1) / g->stride_w;
    *begin = clamp(low - ow, 0, lanes);
    *end = clamp(high - ow, *begin, lanes);
}

static void set_run(struct pplconv_run *run, int64_t src, int64_t dst, int64_t begin, int64_t end,
                    int64_t lanes) {
    run->src = (int32_t)src;
    run->dst = (int32_t)dst;
    run->load_mask = (uint16_t)(((1u << end) - 1u) & ~((1u << begin) - 1u));
    run->store_mask = (uint16_t)((1u << lanes) - 1u);
    run->begin = (uint8_t)begin;
    run->end = (uint8_t)end;
    run->lanes = (uint8_t)lanes;
    run->room = (uint8_t)lanes;
}

/* The runs of one panel for one tap. */
static struct pplconv_run *panel_runs(const struct pplconv_geometry *g, int64_t first,
                                      int64_t pixels, int64_t lanes, int64_t dst, int64_t kh,
                                      int64_t kw, struct pplconv_run *run) {
    int64_t oh = first / g->ow, ow = first % g->ow, done = 0;
    while (done < pixels) {
        int64_t count = g->ow - ow, begin = 0, end = 0;
        if (count > lanes) count = lanes;
        if (count > pixels - done) count = pixels - done;
        const int64_t ih = oh * g->stride_h - g->pad_top + kh * g->dilation_h;
        const int64_t iw = ow * g->stride_w - g->pad_left + kw * g->dilation_w;
        if (ih >= 0 && ih < g->ih) inside_columns(g, ow, count, kw, &begin, &end);
        /* A run without pixels keeps an offset inside the plane. */
        set_run(run++, begin < end ? ih * g->iw + iw : 0, dst + done, begin, end, count);
        done += count;
        ow += count;
        if (ow == g->ow) {
            ow = 0;
            oh++;
        }
    }
    const int64_t rest = (lanes - pixels % lanes) % lanes;
    if (rest) set_run(run++, 0, dst + done, 0, 0, rest);
    return run;
}

__attribute__((visibility("hidden"))) int64_t pplconv_pixel_runs(const struct pplconv_geometry *g,
                                                                 int64_t first, int64_t pixels,
                                                                 int64_t lanes, int64_t width,
                                                                 int64_t panel_elements,
                                                                 struct pplconv_run *runs) {
    struct pplconv_run *run = runs;
    for (int64_t done = 0; done < pixels; done += width) {
        const int64_t count = pixels - done < width ? pixels - done : width;
        const int64_t panel = done / width * panel_elements;
        for (int64_t kh = 0; kh < g->kh; kh++) {
            for (int64_t kw = 0; kw < g->kw; kw++) {
                const int64_t dst = panel + (kh * g->kw + kw) * width;
                run = panel_runs(g, first + done, count, lanes, dst, kh, kw, run);
            }
        }
    }
    /* A vector at most: whoever stores one need not know where the next run begins. */
    for (struct pplconv_run *before = run - 2; before >= runs; before--) {
        if (before[1].dst != before->dst + before->lanes) continue;
        const int64_t room = before->lanes + before[1].room;
        before->room = (uint8_t)(room < lanes ? room : lanes);
    }
    return run - runs;
}
