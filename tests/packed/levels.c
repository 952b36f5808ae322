/* Every function of one level beside the plain one's, on drawn numbers: test_other_processors.py runs it on an emulator.
 *
 *     levels LEVEL     the largest difference of each function; 0 when all are small, 1 if not, 2 if there is no LEVEL
 */
#include "kernel.c"

#include <stdio.h>

static uint32_t state = 7;

static uint32_t draw(void) {
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return state;
}

static float drawn(void) { return (float)(draw() % 20001) / 10000.0f - 1.0f; }

static float *floats(long count) {
    float *all = aligned_alloc(64, (size_t)(count * 4 + 63) / 64 * 64);
    for (long i = 0; i < count; i++) all[i] = drawn();
    return all;
}

static int failures;

static void compare(const char *name, const float *found, const float *wanted, long count) {
    float most = 0, size = 1e-6f;
    for (long i = 0; i < count; i++) {
        float difference = fabsf(found[i] - wanted[i]);
        if (!(difference <= most)) most = difference; /* a NaN stays */
        if (fabsf(wanted[i]) > size) size = fabsf(wanted[i]);
    }
    int wrong = !(most <= 2e-6f * size);
    printf("%-20s %.1e%s\n", name, (double)(most / size), wrong ? " WRONG" : "");
    failures += wrong;
}

/* Half floats of some 0.01 to 1, and any values. */
static Weight weight(long rows, long columns, int bits, int minimum, int offset) {
    Weight w = {.rows = rows, .columns = columns, .bits = bits, .has_minimum = minimum, .offset = offset};
    long size = groups_of(&w) * (columns / BLOCK) * block_bytes(&w);
    uint8_t *data = malloc((size_t)size);
    for (long i = 0; i < size; i++) data[i] = (uint8_t)draw();
    for (long block = 0; block < size; block += block_bytes(&w))
        for (int i = 0; i < GROUP * (1 + minimum); i++) data[block + 2 * i + 1] = 0x20 + (draw() & 0x9b);
    w.data = data;
    return w;
}

static void products(int which, int bits, int minimum, int offset) {
    enum { rows = 45, columns = 96, tokens = 15 };
    Weight w = weight(rows, columns, bits, minimum, offset);
    float *x = floats(tokens * columns), *found = floats(tokens * rows), *wanted = floats(tokens * rows);
    headwise_products(&w, 1, x, tokens, &wanted, 1, 0);
    headwise_products(&w, 1, x, tokens, &found, 2, which);
    compare(bits == 4 ? "products of 4 bits" : "products of 8 bits", found, wanted, tokens * rows);
    float *row = floats(rows * columns), *same = floats(rows * columns);
    headwise_widen(&w, NULL, rows, same, 0, 1, 0);
    headwise_widen(&w, NULL, rows, row, 0, 1, which);
    compare("widened", row, same, rows * columns);
}

static void vectors(const Level *level) {
    enum { count = 96 };
    float *x = floats(count), *scale = floats(count), *shift = floats(count), *found = floats(count), *wanted = floats(count);
    for (int kind = 0; kind < 2; kind++) {
        level_plain.normalise(x, scale, shift, 1e-5f, kind, count, wanted);
        level->normalise(x, scale, shift, 1e-5f, kind, count, found);
        compare("norm", found, wanted, count);
    }
    for (int kind = 0; kind < 4; kind++) {
        for (int i = 0; i < count; i++) found[i] = wanted[i] = 8 * x[i];
        level_plain.activate(wanted, scale, kind, count);
        level->activate(found, scale, kind, count);
        compare("activation", found, wanted, count);
    }
}

static void attention(const Level *level, long dim) {
    enum { heads = 3, keys = 77 };
    float *query = floats(heads * dim), *key = floats((keys + CHUNK) * dim), *value = floats((keys + CHUNK) * dim);
    uint8_t allowed[keys];
    for (int i = 0; i < keys; i++) allowed[i] = draw() % 4 > 0;
    float *out[2], greatest[2][heads], total[2][heads];
    for (int i = 0; i < 2; i++) {
        const Level *one = i ? level : &level_plain;
        out[i] = floats(heads * dim);
        one->attend(query, heads, dim, key, value, allowed, keys, 0.3f, greatest[i], total[i], out[i]);
        one->join(greatest[i], total[i], out[i], 0.5f, 2.0f, value, dim);
    }
    compare("attention", out[1], out[0], heads * dim);
    compare("its sums", total[1], total[0], heads);
}

static void many_queries(const Level *level, long dim) {
    enum { queries = 8, keys = 77 };
    long first[queries], end[queries];
    float *query = floats(queries * dim), *columns = floats(dim * CHUNK), *value = floats(CHUNK * dim), *out[2];
    for (int i = 0; i < queries; i++) first[i] = i, end[i] = 40 + 5 * i;
    for (int i = 0; i < 2; i++) {
        float greatest[queries], total[queries] = {0};
        for (int q = 0; q < queries; q++) greatest[q] = -INFINITY;
        out[i] = calloc((size_t)(queries * dim), 4);
        Look look = {query, columns, value, first, end, queries, keys, dim, 0.3f, greatest, total, out[i]};
        (i ? level : &level_plain)->look(&look);
    }
    compare("many queries", out[1], out[0], queries * dim);
}

int main(int argc, char **argv) {
    int which = argc > 1 ? atoi(argv[1]) : 0;
    const Level *level = level_of(which);
    if (!level) return 2;
    for (int minimum = 0; minimum < 2; minimum++) {
        products(which, 4, minimum, minimum ? 0 : 8);
        products(which, 8, minimum, minimum ? 0 : 16);
    }
    vectors(level);
    long dims[] = {16, 48, 64, 128};
    for (int i = 0; i < 4; i++) attention(level, dims[i]), many_queries(level, dims[i]);
    return failures > 0;
}
