/* Convolution of channels-last pixels in groups of one channel or of few, vectors along channels.
 */
#include "depthwise_channels_any.h"
#include "depthwise_channels_groups.h"
#include "depthwise_channels_square.h"

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_depthwise_channels_args *a = argument;
    const struct pplconv_geometry *g = a->geometry;
    const struct call s = {
        .g = *g,
        .epilogue = epilogue_of(a->flags, a->clip),
        .src = a->src,
        .residual = a->residual,
        .weights = a->weights,
        .bias = a->flags & PPLCONV_BIAS_COLUMN ? a->bias : 0,
        .dst = a->dst,
        .src_rs = a->src_rs,
        .src_ps = a->src_ps,
        .dst_rs = a->dst_rs,
        .dst_ps = a->dst_ps,
        .residual_rs = a->residual_rs,
        .residual_ps = a->residual_ps,
        .weights_ts = a->weights_ts,
        .depth = a->depth,
        .taps = g->kh * g->kw,
    };
    const int64_t end = a->first_row + a->rows;
    const int square_taps = g->kh == g->kw && g->stride_h == g->stride_w && g->dilation_h == 1 &&
                            g->dilation_w == 1 && a->multiplier == 1;
    const enum reading reading = reading_of(a->depth);
    /* Portable C stays small. */
    const int blocks = PPLCONV_VECTOR_BYTES >= 32 || PPLCONV_NEON;
    if (blocks && reading != OWN && square_taps && g->kh == 3 && g->stride_h <= 2) {
        if (reading == PICKED) {
            (g->stride_h == 1 ? picked_1 : picked_2)(&s, a->first_row, end, a->channels);
        } else {
            (g->stride_h == 1 ? shared_1 : shared_2)(&s, a->first_row, end, a->channels);
        }
    } else if (reading != OWN) {
        any(&s, a->first_row, end, a->channels, 1, 0);
    } else if (square_taps && g->kh == 3 && g->stride_h == 1) {
        square_3_1(&s, a->first_row, end, a->channels);
    } else if (square_taps && g->kh == 3 && g->stride_h == 2) {
        square_3_2(&s, a->first_row, end, a->channels);
    } else if (square_taps && g->kh == 5 && g->stride_h == 1) {
        square_5_1(&s, a->first_row, end, a->channels);
    } else if (square_taps && g->kh == 5 && g->stride_h == 2) {
        square_5_2(&s, a->first_row, end, a->channels);
    } else if (square_taps && g->kh == 7 && g->stride_h == 1) {
        square_7_1(&s, a->first_row, end, a->channels);
    } else {
        any(&s, a->first_row, end, a->channels, a->multiplier, a->phase);
    }
}
