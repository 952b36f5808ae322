/* Attention of one new token to a chunk of keys; included by level.h. */

/* Asks for what is read soon: memory far away streams only as fast as it is asked for. It may lie past the end. */
ALWAYS_INLINE void NAME(fetch)(const float *soon, long dim) {
    for (long i = 0; soon && i < dim; i += 16) __builtin_prefetch(soon + i);
}

/* Scores of one query head, -infinity where a key may not be seen and up to a whole register. */
ALWAYS_INLINE void NAME(score)(const float *query, const long dim, const float *key, const uint8_t *allowed,
                               long count, float scale, const float *soon, float *scores) {
    for (long k = 0; k < count; k++, key += dim) {
        vec sum = {0}, other = {0};
        NAME(fetch)(soon ? soon + k * dim : NULL, dim);
        UNROLL
        for (long i = 0; i < dim; i += 2 * LANES) {
            sum = NAME(fused)(LOAD(query + i), LOAD(key + i), sum);
            if (i + LANES < dim) other = NAME(fused)(LOAD(query + i + LANES), LOAD(key + i + LANES), other);
        }
        scores[k] = allowed && !allowed[k] ? -INFINITY : NAME(add_up)(sum + other) * scale;
    }
    for (long k = count; k % LANES; k++) scores[k] = -INFINITY;
}

/* out = sum of weights times values, `wide` vectors of columns at a time so that the values are read once. */
ALWAYS_INLINE void NAME(mix)(const float *weights, const float *value, const long dim, long count, const int wide,
                             const float *soon, float *out) {
    vec mixed[WIDE] = {{0}};
    for (long k = 0; k < count; k++, value += dim) {
        NAME(fetch)(soon ? soon + k * dim : NULL, LANES * wide);
        UNROLL
        for (int i = 0; i < wide; i++) mixed[i] = NAME(fused)(SPREAD(weights[k]), LOAD(value + LANES * i), mixed[i]);
    }
    UNROLL
    for (int i = 0; i < wide; i++) STORE(out + LANES * i, mixed[i]);
}

/* Scores to weights that are not yet divided by their sum. */
ALWAYS_INLINE float NAME(weigh)(float *scores, long count, float greatest) {
    vec sum = {0};
    for (long k = 0; k < count; k += LANES) {
        vec score = LOAD(scores + k), weight = NAME(exponential)(score - greatest);
        weight = SELECT(score == SPREAD(-INFINITY), (vec){0}, weight);
        STORE(scores + k, weight);
        sum += weight;
    }
    return NAME(add_up)(sum);
}

ALWAYS_INLINE void NAME(attend_to)(const float *query, int heads, const long dim, const float *key, const float *value,
                                   const uint8_t *allowed, long count, float scale, float *greatest, float *total,
                                   float *out) {
    float scores[CHUNK] __attribute__((aligned(64)));
    for (int head = 0; head < heads; head++, query += dim, out += dim) {
        NAME(score)(query, dim, key, allowed, count, scale, head ? NULL : value, scores);
        vec most = LOAD(scores);
        for (long k = LANES; k < count; k += LANES) most = GREATER(LOAD(scores + k), most);
        greatest[head] = NAME(greatest_of)(most);
        if (greatest[head] == -INFINITY) { /* nothing may be seen here */
            total[head] = 0.0f;
            memset(out, 0, (size_t)dim * sizeof(float));
            continue;
        }
        total[head] = NAME(weigh)(scores, count, greatest[head]);
        const float *soon = head ? NULL : key + count * dim; /* the next chunk */
        long i = 0;
        for (; i + WIDE * LANES <= dim; i += WIDE * LANES)
            NAME(mix)(scores, value + i, dim, count, WIDE, soon ? soon + i : NULL, out + i);
        for (; i < dim; i += LANES) NAME(mix)(scores, value + i, dim, count, 1, soon ? soon + i : NULL, out + i);
    }
}

/* The loops over the usual lengths of a head are written out. */
static void NAME(attend)(const float *query, int heads, long dim, const float *key, const float *value,
                         const uint8_t *allowed, long count, float scale, float *greatest, float *total, float *out) {
    if (dim == 64) NAME(attend_to)(query, heads, 64, key, value, allowed, count, scale, greatest, total, out);
    else if (dim == 128) NAME(attend_to)(query, heads, 128, key, value, allowed, count, scale, greatest, total, out);
    else NAME(attend_to)(query, heads, dim, key, value, allowed, count, scale, greatest, total, out);
}

static void NAME(join)(float *greatest, float *total, float *out, float next_greatest, float next_total,
                       const float *next, long dim) {
    if (next_total == 0.0f) return;
    float most = next_greatest > *greatest ? next_greatest : *greatest;
    float keep = *total == 0.0f ? 0.0f : expf(*greatest - most), add = expf(next_greatest - most);
    *greatest = most;
    *total = *total * keep + next_total * add;
    for (long i = 0; i < dim; i += LANES) STORE(out + i, LOAD(out + i) * keep + LOAD(next + i) * add);
}
