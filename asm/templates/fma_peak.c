/* The ceiling of portable C: multiplies and adds of baseline vectors in registers. */
#include "template.h"

enum { CHAINS = 8 };

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_fma_peak_args *args = argument;
    *(int64_t *)args->operations = 2 * CHAINS * LANES;
    vector chain[CHAINS] = {{0}};
    vector x = {0}, y = {0};
    for (int64_t i = 0; i < args->iterations; i++) {
        __asm__ volatile("" : "+m"(x), "+m"(y)); /* keeps the product inside the loop */
        const vector a = x, b = y;
        for (int c = 0; c < CHAINS; c++) chain[c] = chain[c] * a + b;
        __asm__ volatile("" : "+m"(chain));
    }
}
