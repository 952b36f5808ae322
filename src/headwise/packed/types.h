/* What the kernels speak about: weights in 16-row groups of 32-column blocks, and activations rounded to int8. */
#ifndef HEADWISE_TYPES_H
#define HEADWISE_TYPES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define GROUP 16  /* weight rows that are computed together, one per lane */
#define BLOCK 32  /* columns that share a scale */
#define TILE 8    /* activation rows that share one reading of the weights */
#ifndef CHUNK
#define CHUNK 128 /* keys that are attended to at once */
#endif
#define FOUR 4    /* queries that share one reading of the keys */

/* Small arrays live in registers only where the loops over them are written out. */
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Layout of one block of a group: 16 half scales, 16 half minima (if any), then for each four columns 16 lanes of 4.
 * Four-bit values: the low nibbles are columns 0..15 and the high ones 16..31. w = scale * (value - offset) + minimum.
 * With 32 bits the data are plain floats, row by row. */
typedef struct {
    const uint8_t *data; /* NULL: there is no such weight */
    const float *bias;   /* or NULL */
    int64_t rows, columns;
    int32_t bits, has_minimum, offset, unused;
} Weight;

/* Activations, per block of 32: x = scale * value, total = sum of values, sum = scale * total; `exact` is x itself. */
typedef struct {
    const float *exact;
    int8_t *values;
    float *scales, *sums;
    int32_t *totals;
    int64_t columns;
} Rows;

static inline long groups_of(const Weight *w) { return (long)((w->rows + GROUP - 1) / GROUP); }

static inline long block_bytes(const Weight *w) { return GROUP * (2 + 2 * !!w->has_minimum + BLOCK * w->bits / 8); }

static inline Rows rows_from(Rows x, long row) {
    long blocks = x.columns / BLOCK;
    return (Rows){x.exact + row * x.columns,  x.values + row * x.columns,  x.scales + row * blocks,
                  x.sums + row * blocks, x.totals + row * blocks, x.columns};
}

/* Queries of one key head, by fours, at one chunk of its keys; what was seen before is kept in greatest, total, out. */
typedef struct {
    const float *query, *columns, *value; /* [query, dim], [dim, CHUNK] and [count, dim] */
    const long *first, *end;              /* which keys of the chunk each query sees */
    long queries, count, dim;
    float scale, *greatest, *total, *out;
} Look;

/* The functions that exist once per kind of processor. */
typedef struct {
    /* float32 x.exact -> int8 blocks [first, end), counted through all rows */
    void (*round_blocks)(Rows x, long first, long end);
    /* out[token][lane] of one group of 16 weight rows, for 1..TILE activation rows */
    void (*multiply)(const Weight *w, long group, Rows x, int tokens, float out[TILE][GROUP]);
    /* one packed row as it is: float32, or bfloat16 rounded to even */
    void (*widen)(const Weight *w, long row, void *out, int bfloat);
    /* out = norm(x) * scale + shift; kind 0: root mean square, 1: layer norm */
    void (*normalise)(const float *x, const float *scale, const float *shift, float epsilon, int kind, long count,
                      float *out);
    /* g = activation(g) [* u]; kind 0: silu, 1: gelu by tanh, 2: gelu by erf, 3: relu */
    void (*activate)(float *g, const float *u, int kind, long count);
    /* one chunk of attention: per query head its greatest score, the sum of exponentials and the weighted values */
    void (*attend)(const float *query, int heads, long dim, const float *key, const float *value,
                   const uint8_t *allowed, long count, float scale, float *greatest, float *total, float *out);
    /* joins the next chunk to what was attended before */
    void (*join)(float *greatest, float *total, float *out, float next_greatest, float next_total, const float *next,
                 long dim);
    /* many queries at one chunk of keys */
    void (*look)(const Look *look);
} Level;

static inline float half_to_float(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = (half >> 10) & 31u, fraction = half & 1023u, bits;
    float value;
    if (exponent == 0) { /* zero or subnormal: fraction / 2^24 is exact */
        value = (float)fraction * (1.0f / 16777216.0f);
        memcpy(&bits, &value, 4);
        bits |= sign;
    } else if (exponent == 31) {
        bits = sign | 0x7f800000u | fraction << 13;
    } else {
        bits = sign | (exponent + 112u) << 23 | fraction << 13;
    }
    memcpy(&value, &bits, 4);
    return value;
}

#endif
