/* Bytes through a table of 256: any element-wise function of one quantized array. */
#include "lookup.h"

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_lookup_args *a = argument;
    for (int64_t r = 0; r < a->rows; r++) {
        look_up_row(a->table, AT_CONST(uint8_t, a->src, r * a->src_rs),
                    AT(uint8_t, a->dst, r * a->dst_rs), a->columns);
    }
    clean_registers();
}
