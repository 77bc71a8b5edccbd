/* Depthwise convolution of channel planes, vectors along output columns. */
#include "depthwise_pixels_any.h"
#include "depthwise_pixels_square.h"

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_depthwise_pixels_args *a = argument;
    const struct pplconv_geometry *g = a->geometry;
    const struct planes s = {
        .g = *g,
        .epilogue = epilogue_of(a->flags, a->clip),
        .src = a->src,
        .residual = a->residual,
        .weights = a->weights,
        .bias = a->flags & PPLCONV_BIAS_ROW ? a->bias : 0,
        .dst = a->dst,
        .src_cs = a->src_cs,
        .dst_cs = a->dst_cs,
        .residual_cs = a->residual_cs,
        .first = a->first_row,
        .end = a->first_row + a->rows,
        .channels = a->channels,
        .multiplier = a->multiplier,
    };
    const int square_taps =
        g->kh == g->kw && g->stride_h == g->stride_w && g->dilation_h == 1 && g->dilation_w == 1;
    const int64_t size = square_taps ? g->kh : 0, stride = g->stride_h;
#if PPLCONV_VECTOR_BYTES == 64
    /* Two rows of a small image lie in one vector, if they do so in both images. */
    if (stride == 1 && g->iw == g->ow && 2 * g->ow <= LANES) {
        if (size == 3) return square_3_1_2(&s);
        if (size == 5) return square_5_1_2(&s);
    }
#endif
    if (size == 3 && stride == 1) return square_3_1_1(&s);
    if (size == 3 && stride == 2) return square_3_2_1(&s);
    if (size == 5 && stride == 1) return square_5_1_1(&s);
    if (size == 5 && stride == 2) return square_5_2_1(&s);
    any(&s);
}
