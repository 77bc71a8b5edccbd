/* One call of depthwise_bytes_pixels, and the padded copy that it makes of each plane. */
#ifndef PPLCONV_DEPTHWISE_BYTES_PIXELS_H
#define PPLCONV_DEPTHWISE_BYTES_PIXELS_H

#include "depthwise_bytes.h"

/* The lines of a plane that some rows of the output see, padded, so that loops need not know where
 * the image ends. */
struct slab {
    const uint8_t *data;
    int64_t rs;
};

/* Copy n bytes; flip their highest bit where vectors take bytes of the other signedness. */
static inline void copy_flipped(uint8_t *dst, const uint8_t *src, int64_t n) {
    typedef uint8_t sixteen __attribute__((vector_size(16), aligned(1), may_alias));
    const uint8_t flip = FLIPS ? 0x80 : 0;
    if (n >= 16) {
        for (int64_t i = 0; i < n; i += 16) {
            const int64_t at = least(i, n - 16);
            *(sixteen *)(dst + at) = *(const sixteen *)(src + at) ^ flip;
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) dst[i] = src[i] ^ flip;
}

/* Place of a plane's bytes in the slab, the same for all planes. */
struct inset {
    struct range lines; /* of the image */
    int64_t columns, to,
        top; /* bytes of a line; of the slab, where a line begins; its first line */
};

static struct inset inset_of(const struct pplconv_geometry *g, int64_t row, int64_t rows) {
    const int64_t top = row * g->stride_h - g->pad_top;
    const int64_t bottom = top + (rows - 1) * g->stride_h + (g->kh - 1) * g->dilation_h + 1;
    const int64_t width = (g->ow - 1) * g->stride_w + (g->kw - 1) * g->dilation_w + 1;
    const struct inset i = {
        .lines = {least(most(top, 0), g->ih), least(most(bottom, 0), g->ih)},
        .columns = most(least(g->iw, width - g->pad_left), 0),
        .to = g->pad_left,
        .top = top,
    };
    return i;
}

static void copy_plane(uint8_t *slab, int64_t rs, const uint8_t *src, int64_t iw,
                       const struct inset *i) {
    for (int64_t y = i->lines.begin; y < i->lines.end; y++) {
        copy_flipped(slab + (y - i->top) * rs + i->to, src + y * iw, i->columns);
    }
}

#endif
