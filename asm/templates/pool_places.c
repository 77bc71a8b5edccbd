/* Pooling of channels that lie side by side: the largest element of each window and its place. */
#include "template.h"

#if PPLCONV_F64
#define LOWEST (-DBL_MAX)
#else
#define LOWEST (-FLT_MAX)
#endif

static void first_tap(const element *src, element *dst, int64_t *places, int64_t channels,
                      int64_t place, int64_t step) {
    for (int64_t c = 0; c < channels; c++) {
        dst[c] = src[c];
        places[c] = place + c * step;
    }
}

static void next_tap(const element *restrict src, element *restrict dst, int64_t *restrict places,
                     int64_t channels, int64_t place, int64_t step) {
    for (int64_t c = 0; c < channels; c++) {
        const element x = src[c], best = dst[c];
        /* Both are NaN or none is: the comparison decides. */
        const int better = (x > best) | ((x != x) & (best == best));
        dst[c] = better ? x : best;
        places[c] = better ? place + c * step : places[c];
    }
}

static void no_tap(element *dst, int64_t *places, int64_t channels) {
    for (int64_t c = 0; c < channels; c++) {
        dst[c] = LOWEST;
        places[c] = -1;
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pool_places_args *a = argument;
    for (int64_t p = 0; p < a->pixels; p++) {
        element *dst = AT(element, a->dst, p * a->dst_ps);
        int64_t *places = AT(int64_t, a->places, p * a->places_ps);
        const int64_t first = a->place + p * a->place_ps;
        int more = a->more != 0;
        for (int64_t i = 0; i < a->rows; i++) {
            for (int64_t j = 0; j < a->columns; j++) {
                const element *src =
                    AT_CONST(element, a->src, p * a->src_ps + i * a->src_rs + j * a->src_cs);
                const int64_t place = first + i * a->place_rs + j * a->place_cs;
                if (more) next_tap(src, dst, places, a->channels, place, a->place_channel);
                else first_tap(src, dst, places, a->channels, place, a->place_channel);
                more = 1;
            }
        }
        if (!more) no_tap(dst, places, a->channels);
    }
}
