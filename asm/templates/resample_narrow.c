/* Resampling of bytes, which are copied. */
#include "copied_pixels.h"

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_resample_args *a = argument;
    if (a->channels > 0) copy_pixels(a, 1);
#if defined(__AVX__)
    __builtin_ia32_vzeroupper();
#endif
}
