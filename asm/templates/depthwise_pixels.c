/* Depthwise convolution of channel planes, vectors along output columns. */
#include "depthwise_pixels_any.h"
#include "depthwise_pixels_sorted.h"
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
    const int unstrided = g->stride_h == 1 && g->stride_w == 1;
    square_function *const square = square_of(&s);
    const int wide = g->ow * (int64_t)sizeof(element) >= WIDE_BYTES;
    /* With masks, the ends of rows take a table of the taps. */
    const int in_blocks = unstrided && (!MASKS_ARE_FREE || g->kw <= TABLE_TAPS);
#if PPLCONV_VECTOR_BYTES == 64
    const int64_t vectors = square || unstrided ? 0 : vectors_sorted(&s);
    if (vectors) {
        sorted(&s, vectors);
        return;
    }
#endif
    if (in_blocks && (!square || wide)) {
        blocks(&s);
    } else if (square) {
        square(&s);
    } else {
        any(&s);
    }
}
