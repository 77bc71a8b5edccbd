/* Depthwise convolution of channel planes, vectors along output columns. */
#include "depthwise_pixels_any.h"
#include "depthwise_pixels_block.h"
#include "depthwise_pixels_square.h"

/* Least bytes of a row for which blocks are faster with any kernel: few vectors see a row's end. */
enum { WIDE_BYTES = 3584 };

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_depthwise_pixels_args *a = argument;
    const struct pplconv_geometry *g = a->geometry;
    const struct epilogue e = epilogue_of(a->flags, a->clip);
    const int biased = (a->flags & PPLCONV_BIAS_ROW) != 0;
    static const element none = -(element)0; /* which changes no bit of a sum */
    const struct planes s = {
        .g = *g,
        .epilogue = e,
        .plain = !e.residual && !e.low_bound && !e.high_bound,
        .src = a->src,
        .residual = a->residual,
        .weights = a->weights,
        .bias = biased ? a->bias : &none,
        .bias_step = biased,
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
    const int unstrided = g->stride_h == 1 && g->stride_w == 1;
    const int64_t size = square_taps ? g->kh : 0, stride = g->stride_h;
    if (unstrided && g->ow * (int64_t)sizeof(element) >= WIDE_BYTES) return blocks(&s);
#if PPLCONV_VECTOR_BYTES == 64
    if (2 * g->ow <= LANES && a->multiplier == 1) {
        if (size == 3 && stride == 1) return square_3_1_pairs(&s);
        if (size == 3 && stride == 2) return square_3_2_pairs(&s);
        if (size == 5 && stride == 1) return square_5_1_pairs(&s);
        if (size == 5 && stride == 2) return square_5_2_pairs(&s);
    }
#endif
    if (size == 3 && stride == 1) return square_3_1(&s);
    if (size == 3 && stride == 2) return square_3_2(&s);
    if (size == 5 && stride == 1) return square_5_1(&s);
    if (size == 5 && stride == 2) return square_5_2(&s);
    if (unstrided) return blocks(&s);
    any(&s);
}
