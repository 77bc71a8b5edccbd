/* Bytes by a table of 256: what an element-wise function of one quantized array comes to. */
#include "lookup.h"

INLINE void look_up_row(const uint8_t *table, const uint8_t *src, uint8_t *dst, int64_t columns) {
    int64_t i = 0;
#if !PPLCONV_NO_PACKING
    for (; i + (int64_t)sizeof(quads) <= columns; i += sizeof(quads)) {
        quads bytes;
        memcpy(&bytes, src + i, sizeof bytes);
        store_quads(dst + i, looked_up(table, bytes));
    }
#endif
    for (; i < columns; i++) dst[i] = table[src[i]];
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_lookup_args *a = argument;
    for (int64_t r = 0; r < a->rows; r++) {
        look_up_row(a->table, AT_CONST(uint8_t, a->src, r * a->src_rs),
                    AT(uint8_t, a->dst, r * a->dst_rs), a->columns);
    }
    clean_registers();
}
