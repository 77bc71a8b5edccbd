/* Convolution of channels-last pixels in groups of one channel or of few, vectors along channels.
 */
#include "depthwise_channels_any.h"
#include "depthwise_channels_groups.h"
#include "depthwise_channels_large.h"
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
        .depth = a->depth,
        .taps = g->kh * g->kw,
    };
    const int64_t end = a->first_row + a->rows;
    const enum reading reading = reading_of(a->depth);
    if (reading != OWN) {
        groups_function *const groups = groups_of(g, reading);
        if (groups) {
            groups(&s, a->first_row, end, a->channels);
        } else {
            any(&s, a->first_row, end, a->channels, 1, 0);
        }
        clean_registers();
        return;
    }
    square_function *const square = a->multiplier == 1 ? square_of(g) : 0;
    if (square) {
        square(&s, a->first_row, end, a->channels);
    } else if (a->multiplier == 1 && s.taps >= MANY_TAPS) {
        large(&s, a->first_row, end, a->channels);
    } else {
        any(&s, a->first_row, end, a->channels, a->multiplier, a->phase);
    }
    /* Code for size, as double has it, does not end its functions so. */
    clean_registers();
}
