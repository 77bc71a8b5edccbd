/* Depthwise convolution of channel planes of bytes, vectors along output columns. */
#include "depthwise_bytes_pixels_any.h"
#include "depthwise_bytes_pixels_square.h"

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_depthwise_bytes_pixels_args *a = argument;
    const struct pplconv_geometry g = *(const struct pplconv_geometry *)a->geometry;
    const struct inset inset = inset_of(&g, a->first_row, a->rows);
    const int64_t lines = (a->rows - 1) * g.stride_h + (g.kh - 1) * g.dilation_h + 1;
    const struct slab slab = {a->slab, a->slab_rs};
    const int zero = ((int)a->x_zero & 0xff) ^ (FLIPS ? 0x80 : 0);
    const struct packed *weights = a->weights;
    const int64_t channels = a->rows > 0 && g.ow > 0 ? a->channels : 0;
    /* Planes are copied into the middle only: the padding stays the same for all of them. */
    if (channels > 0) memset(a->slab, zero, (size_t)(lines * a->slab_rs));
    for (int64_t channel = 0, next = 0; channel < channels; channel++) {
        if (channel == next) {
            const int64_t plane = channel / a->multiplier;
            copy_plane(a->slab, slab.rs, AT_CONST(uint8_t, a->src, plane * a->src_cs), g.iw,
                       &inset);
            next += a->multiplier;
        }
        int32_t *dst = AT(int32_t, a->dst, channel * a->dst_cs);
        (weights->format == TAPS ? any : by_size)(&slab, &g, dst, a->rows, weights);
        weights = AT_CONST(struct packed, weights, a->weights_us);
    }
    clean_registers();
}
