/* Attention of many new tokens to a chunk of keys, as matrix products; included by level.h. */

#if defined(LEVEL_AVX512) || defined(LEVEL_NEON)
#define SIDE 4 /* registers beside each other: FOUR x SIDE sums stay in registers */
#else
#define SIDE 2
#endif

/* scores = scale * query . key for FOUR queries; keys lie by columns, so that a register holds one column of many. */
ALWAYS_INLINE void NAME(score_four)(const float *query, const long dim, const float *columns, long count, float scale,
                                    float *scores) {
    for (long k = 0; k < count; k += SIDE * LANES) {
        vec sums[FOUR][SIDE] = {{{0}}};
        for (long d = 0; d < dim; d++) {
            vec keys[SIDE];
            UNROLL
            for (int i = 0; i < SIDE; i++) keys[i] = LOAD(columns + d * CHUNK + k + i * LANES);
            UNROLL
            for (int q = 0; q < FOUR; q++)
                UNROLL
                for (int i = 0; i < SIDE; i++)
                    sums[q][i] = NAME(fused)(SPREAD(query[q * dim + d]), keys[i], sums[q][i]);
        }
        UNROLL
        for (int q = 0; q < FOUR; q++)
            UNROLL
            for (int i = 0; i < SIDE; i++) STORE(scores + q * CHUNK + k + i * LANES, sums[q][i] * scale);
    }
}

/* -infinity for keys outside of [first, end), up to the whole chunk. */
ALWAYS_INLINE void NAME(hide)(float *scores, long first, long end) {
    for (long k = 0; k < first && k < CHUNK; k++) scores[k] = -INFINITY;
    for (long k = end < 0 ? 0 : end; k < CHUNK; k++) scores[k] = -INFINITY;
}

/* out = out * keep + sum of weights times values, for FOUR queries and `side` registers of columns. */
ALWAYS_INLINE void NAME(mix_four)(const float *weights, const float *keep, const float *value, const long dim,
                                  long count, const int side, float *out) {
    vec sums[FOUR][SIDE];
    UNROLL
    for (int q = 0; q < FOUR; q++)
        UNROLL
        for (int i = 0; i < side; i++) sums[q][i] = LOAD(out + q * dim + i * LANES) * keep[q];
    for (long k = 0; k < count; k++, value += dim) {
        vec values[SIDE];
        UNROLL
        for (int i = 0; i < side; i++) values[i] = LOAD(value + i * LANES);
        UNROLL
        for (int q = 0; q < FOUR; q++)
            UNROLL
            for (int i = 0; i < side; i++)
                sums[q][i] = NAME(fused)(SPREAD(weights[q * CHUNK + k]), values[i], sums[q][i]);
    }
    UNROLL
    for (int q = 0; q < FOUR; q++)
        UNROLL
        for (int i = 0; i < side; i++) STORE(out + q * dim + i * LANES, sums[q][i]);
}

/* Scores of one query to weights under the greatest score so far; gives what the earlier sums are multiplied with. */
ALWAYS_INLINE float NAME(settle)(float *scores, float *greatest, float *total) {
    vec most_of = LOAD(scores);
    for (long k = LANES; k < CHUNK; k += LANES) most_of = GREATER(LOAD(scores + k), most_of);
    float most = NAME(greatest_of)(most_of);
    if (most < *greatest) most = *greatest;
    if (most == -INFINITY) { /* nothing may be seen so far */
        memset(scores, 0, CHUNK * sizeof(float));
        return 0.0f;
    }
    float keep = *total == 0.0f ? 0.0f : expf(*greatest - most);
    *greatest = most;
    *total = *total * keep + NAME(weigh)(scores, CHUNK, most);
    return keep;
}

ALWAYS_INLINE void NAME(look_with)(const Look *l, const long dim) {
    float scores[FOUR * CHUNK] __attribute__((aligned(64))), keep[FOUR];
    for (long q = 0; q < l->queries; q += FOUR) {
        float *out = l->out + q * dim;
        NAME(score_four)(l->query + q * dim, dim, l->columns, l->count, l->scale, scores);
        for (int i = 0; i < FOUR; i++) {
            long end = l->end[q + i] < l->count ? l->end[q + i] : l->count;
            NAME(hide)(scores + i * CHUNK, l->first[q + i], end);
            keep[i] = NAME(settle)(scores + i * CHUNK, l->greatest + q + i, l->total + q + i);
        }
        long i = 0;
        for (; i + SIDE * LANES <= dim; i += SIDE * LANES)
            NAME(mix_four)(scores, keep, l->value + i, dim, l->count, SIDE, out + i);
        for (; i < dim; i += LANES) NAME(mix_four)(scores, keep, l->value + i, dim, l->count, 1, out + i);
    }
}

static void NAME(look)(const Look *l) {
    if (l->dim == 64) NAME(look_with)(l, 64);
    else if (l->dim == 128) NAME(look_with)(l, 128);
    else NAME(look_with)(l, l->dim);
}

#undef SIDE
