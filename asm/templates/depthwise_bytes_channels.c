/* Depthwise convolution of channels-last bytes, vectors along channels. */
#include "depthwise_bytes_channels_any.h"
#include "depthwise_bytes_channels_square.h"

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_depthwise_bytes_channels_args *a = argument;
    struct call s = {
        .g = *(const struct pplconv_geometry *)a->geometry,
        .src = a->src,
        .dst = a->dst,
        .src_rs = a->src_rs,
        .src_ps = a->src_ps,
        .dst_rs = a->dst_rs,
        .dst_ps = a->dst_ps,
        .row_end = a->first_row + a->rows,
        .column = a->first_column,
        .columns = a->columns,
        .multiplier = a->multiplier,
        .phase = a->phase,
    };
    memset(s.pad, (int)a->x_zero, sizeof(s.pad));
    const struct packed *unit = a->weights;
    for (int64_t channel = 0; channel < a->channels; channel += UNIT) {
        const int64_t n = least(a->channels - channel, UNIT);
        (unit->format == TAPS ? any : by_size)(&s, unit, channel, n, a->first_row);
        unit = AT_CONST(struct packed, unit, a->weights_us);
    }
    clean_registers();
}
