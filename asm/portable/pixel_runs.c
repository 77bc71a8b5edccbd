/* The table that pack_pixels follows: for each tap and vector of output pixels, the runs of
 * pixels that lie side by side in a row of the image. Padding is what no run covers. */
#include <string.h>

#include "pplconv_kernels.h"

/* Append the pixels first .. first + count - 1 of output row `oh`, clipped to the image;
 * a run that continues its predecessor in memory and in the vector is merged with it. */
static struct pplconv_run *append_row(const struct pplconv_geometry *g, struct pplconv_run *run,
                                      const struct pplconv_run *begin, int64_t oh, int64_t first,
                                      int64_t count, int64_t lane, int64_t kh, int64_t kw) {
    const int64_t ih = oh * g->stride_h - g->pad_top + kh * g->dilation_h;
    const int64_t shift = kw * g->dilation_w - g->pad_left; /* iw = ow * stride_w + shift */
    if (ih < 0 || ih >= g->ih) return run;
    int64_t low = first, high = first + count;
    if (shift < 0) {
        const int64_t inside = (-shift + g->stride_w - 1) / g->stride_w;
        if (low < inside) low = inside;
    }
    const int64_t room = g->iw - shift; /* ow * stride_w < room */
    const int64_t end = room <= 0 ? 0 : (room + g->stride_w - 1) / g->stride_w;
    if (high > end) high = end;
    if (low >= high) return run;
    const int64_t start = lane + (low - first), length = high - low;
    const int64_t offset = ih * g->iw + low * g->stride_w + shift - start * g->stride_w;
    const uint16_t mask = (uint16_t)(((1u << length) - 1u) << start);
    if (run != begin && run[-1].offset == offset && run[-1].start + run[-1].length == start) {
        run[-1].length = (uint8_t)(run[-1].length + length);
        run[-1].mask |= mask;
        return run;
    }
    run->offset = (int32_t)offset;
    run->mask = mask;
    run->start = (uint8_t)start;
    run->length = (uint8_t)length;
    return run + 1;
}

__attribute__((visibility("hidden"))) void
pplconv_pixel_runs(const struct pplconv_geometry *g, int64_t first, int64_t pixels, int64_t lanes,
                   int64_t vectors, int64_t runs_per_vector, struct pplconv_run *runs) {
    memset(runs, 0, (size_t)(g->kh * g->kw * vectors * runs_per_vector) * sizeof *runs);
    for (int64_t kh = 0; kh < g->kh; kh++) {
        for (int64_t kw = 0; kw < g->kw; kw++) {
            int64_t left = pixels, oh = first / g->ow, ow = first % g->ow;
            for (int64_t v = 0; v < vectors; v++, runs += runs_per_vector) {
                struct pplconv_run *run = runs;
                for (int64_t lane = 0; lane < lanes && left > 0;) {
                    int64_t count = g->ow - ow;
                    if (count > lanes - lane) count = lanes - lane;
                    if (count > left) count = left;
                    run = append_row(g, run, runs, oh, ow, count, lane, kh, kw);
                    lane += count;
                    left -= count;
                    ow += count;
                    if (ow == g->ow) {
                        ow = 0;
                        oh++;
                    }
                }
            }
        }
    }
}
