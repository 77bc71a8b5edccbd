/* Sums of pixels times taps in integers of any length, rounded once: for the few results whose
 * rounding the sums in floating point cannot decide.
 *
 * Numbers are digits of 24 bits, the lowest first: a tap has up to four, a pixel at most 17 bits.
 * So products are short, and millions of them are added before digits are carried. */
#include "template.h"

enum {
    BITS = 24,
    MASK = (1 << BITS) - 1,
    /* Exponent field of a double whose last bit is worth one. It is the upper limit of the lowest
     * exponent, so that taps without fractions use units of one. */
    ONE = 1075,
    TAP_DIGITS = 4,
    /* Digits for the highest tap and for the carries beyond it. */
    MORE = TAP_DIGITS + 3,
    LIMBS = PPLCONV_EXACT_LIMBS,
    /* Products between two carries: each adds less than 2^40, and 2^50 for a row of sums. */
    MOST_PIXELS = 1 << 20,
    MOST_ROWS = 1 << 11,
};

/* Exponent fields of the taps: the lowest, and the span to the highest; digits of their sums. */
struct range {
    int64_t lowest, digits, span;
};

struct tap {
    int64_t at, digit[TAP_DIGITS];
};

_Static_assert((2046 - 1) / BITS + MORE + (int)sizeof(struct tap) / 8 <= LIMBS,
               "all of double has a place, and so has a tap");

static int64_t exponent_of(double tap) {
    uint64_t bits;
    memcpy(&bits, &tap, sizeof bits);
    const int64_t exponent = (int64_t)(bits >> 52 & 0x7ff);
    return exponent ? exponent : 1;
}

static struct range range_of(const double *taps, int64_t count) {
    int64_t lowest = ONE, highest = 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &taps[i], sizeof bits);
        if (!(bits << 1)) continue;
        const int64_t exponent = exponent_of(taps[i]);
        if (exponent < lowest) lowest = exponent;
        if (exponent > highest) highest = exponent;
    }
    if (highest < lowest) highest = lowest;
    const struct range r = {lowest, (highest - lowest) / BITS + MORE, highest - lowest};
    return r;
}

/* Bits are compared, since flush-to-zero would make subnormal numbers compare equal to zero. */
static struct tap digits_of(double tap, int64_t lowest) {
    uint64_t bits;
    memcpy(&bits, &tap, sizeof bits);
    uint64_t number = bits & (((uint64_t)1 << 52) - 1);
    if (bits >> 52 & 0x7ff) number |= (uint64_t)1 << 52;
    const int64_t above = number ? exponent_of(tap) - lowest : 0;
    const int by = (int)(above % BITS);
    struct tap t = {above / BITS, {0}};
    t.digit[0] = (int64_t)(number << by & MASK);
    t.digit[1] = (int64_t)(number >> (BITS - by) & MASK);
    t.digit[2] = (int64_t)(number >> (2 * BITS - by) & MASK);
    t.digit[3] = by > 19 ? (int64_t)(number >> (3 * BITS - by)) : 0;
    if (bits >> 63) {
        for (int i = 0; i < TAP_DIGITS; i++) t.digit[i] = -t.digit[i];
    }
    return t;
}

/* Afterwards all digits but the highest are in 0 .. MASK. */
static void carry(int64_t *sum, int64_t digits) {
    int64_t carried = 0;
    for (int64_t i = 0; i + 1 < digits; i++) {
        const int64_t digit = sum[i] + carried;
        carried = digit >> BITS;
        sum[i] = digit & MASK;
    }
    sum[digits - 1] += carried;
}

/* Returns the number of products since digits were carried; `since` of them came before this
 * row. */
static int64_t add_row(int64_t *sum, int64_t digits, const element *pixels, int64_t step,
                       const double *taps, int64_t count, int64_t lowest, int64_t since) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t pixel = (int64_t)pixels[i * step];
        if (!pixel) continue;
        const struct tap t = digits_of(taps[i], lowest);
        for (int k = 0; k < TAP_DIGITS; k++) sum[t.at + k] += pixel * t.digit[k];
        if (++since < MOST_PIXELS) continue;
        carry(sum, digits);
        since = 0;
    }
    return since;
}

static inline int64_t digit_at(const int64_t *sum, int64_t digits, int64_t i) {
    if (i < digits) return sum[i] & MASK;
    return sum[digits - 1] < 0 ? MASK : 0;
}

/* Round half to even a number in units of 2^-point; digits are carried. */
static int64_t rounded(const int64_t *sum, int64_t digits, int64_t point, int64_t low,
                       int64_t high) {
    const int64_t sign = sum[digits - 1] < 0 ? MASK : 0, first = point / BITS;
    const int by = (int)(point % BITS);
    const int64_t beyond = sign ? low : high;
    for (int64_t i = first + 3; i < digits; i++) {
        if (digit_at(sum, digits, i) != sign) return beyond;
    }
    const int64_t highest = digit_at(sum, digits, first + 2) - (sign ? MASK + 1 : 0);
    if (highest < -(1 << 12) || highest >= 1 << 12) return beyond;
    int64_t whole = digit_at(sum, digits, first) >> by;
    whole += digit_at(sum, digits, first + 1) << (BITS - by);
    whole += highest * ((int64_t)1 << (2 * BITS - by));
    if (point) {
        const int64_t at = (point - 1) / BITS, bit = (int64_t)1 << ((point - 1) % BITS);
        const int64_t fraction = digit_at(sum, digits, at);
        int more = (whole & 1) != 0 || (fraction & (bit - 1)) != 0;
        for (int64_t i = 0; i < at && !more; i++) more = digit_at(sum, digits, i) != 0;
        whole += (fraction & bit) != 0 && more;
    }
    return whole < low ? low : whole > high ? high : whole;
}

static void store(const struct pplconv_exact_sums_args *a, int64_t row, int64_t column,
                  int64_t value) {
    char *dst = (char *)a->dst + row * a->dst_rs + column * a->size;
    if (a->size == 1) {
        *(uint8_t *)dst = (uint8_t)value;
    } else if (a->size == 2) {
        *(uint16_t *)dst = (uint16_t)value;
    } else {
        *(uint32_t *)dst = (uint32_t)value;
    }
}

static void whole_kernels(const struct pplconv_exact_sums_args *a) {
    const double *taps = a->taps;
    const int64_t *open = a->open;
    const struct range range = range_of(taps, a->rows * a->columns);
    int64_t sum[LIMBS];
    for (int64_t k = 0; k < a->count; k++) {
        const int64_t column = open[k] / a->pitch, row = open[k] % a->pitch;
        const char *pixels = AT_CONST(char, a->src, row * a->src_rs);
        int64_t since = 0;
        memset(sum, 0, sizeof *sum * (size_t)range.digits);
        for (int64_t r = 0; r < a->rows; r++) {
            const element *from = AT_CONST(element, pixels, r * a->src_rs) + column;
            since = add_row(sum, range.digits, from, a->step, taps + r * a->columns, a->columns,
                            range.lowest, since);
        }
        carry(sum, range.digits);
        store(a, row, column, rounded(sum, range.digits, ONE - range.lowest, a->low, a->high));
    }
}

#ifdef __SIZEOF_INT128__
typedef __int128 wide;

enum {
    /* A tap of a column is two numbers of LIMB bits, a sum of a row three. A tap of a row is four
     * numbers of PART bits, whose products with pixels are added in 64 bits. */
    LIMB = 58,
    PART = 32,
    ROW_LIMBS = 3,
    PARTS = 4,
    FEW_ROWS = 1 << 9,
    FEW_COLUMNS = 1 << 14,
    TAP_BITS = 53,
};

static int are_short(const struct pplconv_exact_sums_args *a, struct range down,
                     struct range across) {
    return a->rows <= FEW_ROWS && a->columns <= FEW_COLUMNS &&
           PARTS * a->columns <= a->rows * (LIMBS - 2 - ROW_LIMBS) &&
           down.span + TAP_BITS < 2 * LIMB && across.span + TAP_BITS < PARTS * PART;
}

/* A tap in units of the lowest one's last digit. */
static wide whole_tap(double tap, int64_t lowest) {
    uint64_t bits;
    memcpy(&bits, &tap, sizeof bits);
    if (!(bits << 1)) return 0;
    uint64_t number = bits & (((uint64_t)1 << 52) - 1);
    if (bits >> 52 & 0x7ff) number |= (uint64_t)1 << 52;
    const wide whole = (wide)number << (exponent_of(tap) - lowest);
    return bits >> 63 ? -whole : whole;
}

static void add_wide(int64_t *sum, wide number, int64_t point) {
    const int64_t sign = number < 0 ? -1 : 1;
    unsigned __int128 left = number < 0 ? -(unsigned __int128)number : (unsigned __int128)number;
    const int by = (int)(point % BITS);
    for (int64_t i = point / BITS; left; i++, left >>= BITS) {
        sum[i] += sign * ((int64_t)(left & MASK) << by);
    }
}

static int are_same(const element *a, const element *b, int64_t count, int64_t step) {
    if (step == 1) return memcmp(a, b, (size_t)count * sizeof *a) == 0;
    for (int64_t i = 0; i < count; i++) {
        if (a[i * step] != b[i * step]) return 0;
    }
    return 1;
}

/* The same as separable_kernels, without digits in memory. Windows whose rows are all alike (areas
 * of one value, stripes) are summed up once in a column. */
static void short_kernels(const struct pplconv_exact_sums_args *a, struct range vertical,
                          struct range horizontal) {
    const double *down = a->taps, *across = down + a->rows;
    const int64_t *open = a->open, all = horizontal.digits + vertical.digits;
    const int64_t point = 2 * ONE - vertical.lowest - horizontal.lowest, rows = a->rows;
    const uint64_t mask = ((uint64_t)1 << LIMB) - 1;
    int64_t *kept = a->scratch, *taps = kept + ROW_LIMBS * rows, *parts = taps + 2 * rows;
    int64_t sum[2 * LIMBS], last = -1, next = 0, alike = 0, value = 0;
    int is_known = 0;
    for (int64_t r = 0; r < rows; r++) {
        const wide tap = whole_tap(down[r], vertical.lowest);
        taps[2 * r] = (int64_t)((uint64_t)tap & mask);
        taps[2 * r + 1] = (int64_t)(tap >> LIMB);
    }
    for (int64_t c = 0; c < a->columns; c++) {
        const wide tap = whole_tap(across[c], horizontal.lowest);
        int64_t *to = parts + PARTS * c;
        for (int i = 0; i < PARTS - 1; i++) to[i] = (int64_t)(uint32_t)(tap >> PART * i);
        to[PARTS - 1] = (int64_t)(tap >> PART * (PARTS - 1));
    }
    for (int64_t k = 0; k < a->count; k++) {
        const int64_t column = open[k] / a->pitch, row = open[k] % a->pitch;
        if (column != last || row > next) next = row, alike = 0;
        last = column;
        for (; next < row + rows; next++) {
            const element *from = AT_CONST(element, a->src, next * a->src_rs) + column;
            int64_t *to = kept + next % rows * ROW_LIMBS;
            if (alike && are_same(from, AT_CONST(element, from, -a->src_rs), a->columns, a->step)) {
                memmove(to, kept + (next - 1) % rows * ROW_LIMBS, sizeof *to * ROW_LIMBS);
                alike++;
                continue;
            }
            int64_t sums[PARTS] = {0};
            for (int64_t c = 0; c < a->columns; c++, from += a->step) {
                const int64_t pixel = (int64_t)*from;
                for (int i = 0; i < PARTS; i++) sums[i] += pixel * parts[PARTS * c + i];
            }
            const wide one = 1;
            wide whole = sums[0] + sums[1] * (one << PART);
            to[0] = (int64_t)((uint64_t)whole & mask);
            whole = (whole >> LIMB) + sums[2] * (one << (2 * PART - LIMB));
            whole += sums[3] * (one << (3 * PART - LIMB));
            to[1] = (int64_t)((uint64_t)whole & mask);
            to[2] = (int64_t)(whole >> LIMB);
            alike = 1, is_known = 0;
        }
        if (is_known) {
            store(a, row, column, value);
            continue;
        }
        wide found[ROW_LIMBS + 1] = {0};
        const int64_t *from = kept + row % rows * ROW_LIMBS, *const end = taps;
        for (int64_t r = 0; r < rows; r++, from += ROW_LIMBS) {
            if (from == end) from = kept;
            const wide low = taps[2 * r], high = taps[2 * r + 1];
            found[0] += from[0] * low;
            found[1] += from[1] * low + from[0] * high;
            found[2] += from[2] * low + from[1] * high;
            found[3] += from[2] * high;
        }
        memset(sum, 0, sizeof *sum * (size_t)all);
        for (int i = 0; i <= ROW_LIMBS; i++) add_wide(sum, found[i], LIMB * i);
        carry(sum, all);
        value = rounded(sum, all, point, a->low, a->high);
        is_known = alike >= rows;
        store(a, row, column, value);
    }
}
#endif

/* Sums of rows are kept as long as results of one column use them. */
static void separable_kernels(const struct pplconv_exact_sums_args *a) {
    const double *down = a->taps, *across = down + a->rows;
    const int64_t *open = a->open;
    const struct range vertical = range_of(down, a->rows);
    const struct range horizontal = range_of(across, a->columns);
    const int64_t digits = horizontal.digits, all = digits + vertical.digits;
    const int64_t point = 2 * ONE - vertical.lowest - horizontal.lowest;
#ifdef __SIZEOF_INT128__
    if (are_short(a, vertical, horizontal)) {
        short_kernels(a, vertical, horizontal);
        return;
    }
#endif
    int64_t *kept = a->scratch, sum[2 * LIMBS], last = -1, next = 0;
    struct tap *const taps = (struct tap *)(kept + a->rows * digits);
    for (int64_t r = 0; r < a->rows; r++) taps[r] = digits_of(down[r], vertical.lowest);
    for (int64_t k = 0; k < a->count; k++) {
        const int64_t column = open[k] / a->pitch, row = open[k] % a->pitch;
        if (column != last || row > next) next = row;
        last = column;
        for (; next < row + a->rows; next++) {
            int64_t *to = kept + next % a->rows * digits;
            const element *from = AT_CONST(element, a->src, next * a->src_rs) + column;
            memset(to, 0, sizeof *to * (size_t)digits);
            add_row(to, digits, from, a->step, across, a->columns, horizontal.lowest, 0);
            carry(to, digits);
        }
        memset(sum, 0, sizeof *sum * (size_t)all);
        for (int64_t r = 0; r < a->rows; r++) {
            const struct tap t = taps[r];
            const int64_t *from = kept + (row + r) % a->rows * digits;
            for (int64_t i = 0; i < digits; i++) {
                if (!from[i]) continue;
                for (int j = 0; j < TAP_DIGITS; j++) sum[i + t.at + j] += from[i] * t.digit[j];
            }
            if (r % MOST_ROWS == MOST_ROWS - 1) carry(sum, all);
        }
        carry(sum, all);
        store(a, row, column, rounded(sum, all, point, a->low, a->high));
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_exact_sums_args *a = argument;
    if (a->separable) separable_kernels(a);
    else whole_kernels(a);
}
