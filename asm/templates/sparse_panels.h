/* The kernel around `multiply_panel`: panel after panel. WIDTH is the number of their channels,
 * WEIGHT_BYTES the size of a weight. */
PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    tile_args g = *(const tile_args *)argument;
    const struct pplconv_panel *places = g.places;
    const int32_t *steps = g.steps;
    const char *values = g.values;
    for (int64_t p = 0; p < g.panels; p++) {
        const int64_t count = places[p + 1].term - places[p].term;
        multiply_panel(&g, count, steps, values);
        steps += count;
        values += count * WIDTH * WEIGHT_BYTES;
        g.c = AT(char, g.c, g.c_ps);
        g.residual = AT_CONST(char, g.residual, g.residual_ps);
        g.bias = AT_CONST(char, g.bias, WIDTH *(int64_t)sizeof(element));
    }
}
