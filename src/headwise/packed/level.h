/* The kernels, once per kind of processor: included by kernel.c with NAME, LEVEL_* and the target set.
 * Every lane sums its row's blocks in order, so results do not depend on threads or on how rows are batched. */

#if defined(LEVEL_AVX512)
#define LANES 16 /* floats in a register */
#elif defined(LEVEL_AVX2)
#define LANES 8
#else
#define LANES 4
#endif
#define PARTS (GROUP / LANES)
#define WIDE (LANES == 4 ? 8 : 64 / LANES) /* registers that sum up values of attention */

typedef float NAME(vec) __attribute__((vector_size(4 * LANES)));
typedef int32_t NAME(ivec) __attribute__((vector_size(4 * LANES)));
typedef float NAME(vec_anywhere) __attribute__((vector_size(4 * LANES), aligned(2), may_alias));
typedef uint16_t NAME(hvec_anywhere) __attribute__((vector_size(2 * LANES), aligned(2), may_alias));
typedef int8_t NAME(bvec_anywhere) __attribute__((vector_size(LANES), aligned(1), may_alias));
#define vec NAME(vec)
#define ivec NAME(ivec)
#define LOAD(address) (*(const NAME(vec_anywhere) *)(address))
#define STORE(address, value) (*(NAME(vec_anywhere) *)(address) = (value))
#define SELECT(mask, yes, no) ((vec)(((mask) & (ivec)(yes)) | (~(mask) & (ivec)(no))))
#define GREATER(a, b) SELECT((a) > (b), a, b)
#define SPREAD(value) ((vec){0} + (value))

ALWAYS_INLINE vec NAME(fused)(vec a, vec b, vec c) {
#if defined(LEVEL_AVX512)
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(LEVEL_AVX2)
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

ALWAYS_INLINE float NAME(add_up)(vec x) {
#if defined(LEVEL_AVX512)
    return _mm512_reduce_add_ps((__m512)x);
#elif defined(LEVEL_AVX2)
    __m128 four = _mm_add_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
#else
    return (x[0] + x[2]) + (x[1] + x[3]);
#endif
}

ALWAYS_INLINE float NAME(greatest_of)(vec x) {
    float most = x[0];
    for (int i = 1; i < LANES; i++) most = x[i] > most ? x[i] : most;
    return most;
}

/* e^x by range reduction and a polynomial of degree 6 (Taylor: |r| <= ln2 / 2 leaves 2e-7 relative). */
ALWAYS_INLINE vec NAME(exponential)(vec x) {
    x = SELECT(x < SPREAD(-87.0f), SPREAD(-87.0f), x);
    x = SELECT(x > SPREAD(88.0f), SPREAD(88.0f), x);
    vec shifted = NAME(fused)(x, SPREAD(1.44269504f), SPREAD(12582912.0f)), n = shifted - SPREAD(12582912.0f);
    vec r = NAME(fused)(n, SPREAD(-0.693359375f), x);
    r = NAME(fused)(n, SPREAD(2.12194440e-4f), r);
    vec p = SPREAD(1.0f / 720);
    p = NAME(fused)(p, r, SPREAD(1.0f / 120));
    p = NAME(fused)(p, r, SPREAD(1.0f / 24));
    p = NAME(fused)(p, r, SPREAD(1.0f / 6));
    p = NAME(fused)(p, r, SPREAD(0.5f));
    p = NAME(fused)(p, r, SPREAD(1.0f));
    p = NAME(fused)(p, r, SPREAD(1.0f));
    ivec power = ((ivec)shifted - (ivec)SPREAD(12582912.0f) + 127) << 23;
    return p * (vec)power;
}

/* A block that holds a NaN or an infinity gets a NaN scale, and so do all products with its row. */
static void NAME(round_blocks)(Rows x, long first, long end) {
    const vec magic = SPREAD(12582912.0f); /* adding it rounds to a whole number, half to even */
    for (long block = first; block < end; block++) {
        const float *from = x.exact + block * BLOCK;
        vec most_of = {0}, spoils = {0}, totals = {0};
        for (int i = 0; i < BLOCK; i += LANES) {
            vec y = LOAD(from + i);
            most_of = GREATER(GREATER(y, -y), most_of);
            spoils += y * 0.0f;
        }
        float most = NAME(greatest_of)(most_of), spoil = NAME(add_up)(spoils);
        int usable = most > 1e-30f && spoil == 0.0f;
        float inverse = usable ? 127.0f / most : 0.0f;
        for (int i = 0; i < BLOCK; i += LANES) {
            vec y = magic;
            if (usable) y += LOAD(from + i) * inverse;
            totals += y - magic;
            *(NAME(bvec_anywhere) *)(x.values + block * BLOCK + i) =
                __builtin_convertvector((ivec)y - (ivec)magic, NAME(bvec_anywhere));
        }
        float total = NAME(add_up)(totals);
        x.scales[block] = spoil != 0.0f ? spoil : usable ? most / 127.0f : 0.0f;
        x.totals[block] = (int32_t)total;
        x.sums[block] = x.scales[block] * total;
    }
}

ALWAYS_INLINE vec NAME(halves)(const uint8_t *address) {
#if defined(LEVEL_AVX512)
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)address));
#elif defined(LEVEL_AVX2)
    return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const void *)address));
#elif defined(LEVEL_NEON)
    return (vec)vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(address)));
#else
    vec v;
    uint16_t half[LANES];
    memcpy(half, address, sizeof half);
    for (int i = 0; i < LANES; i++) v[i] = half_to_float(half[i]);
    return v;
#endif
}

/* The values of LANES rows in one block, ready to be multiplied: eight quads of columns. */
#if defined(LEVEL_AVX512)
typedef struct { __m512i quad[8]; } NAME(Block);
ALWAYS_INLINE NAME(Block) NAME(open)(const uint8_t *data, int bits) {
    NAME(Block) block;
    const __m512i nibble = _mm512_set1_epi8(15), flip = _mm512_set1_epi8((char)0x80);
    if (bits == 4)
        UNROLL
        for (int i = 0; i < 4; i++) {
            __m512i both = _mm512_loadu_si512(data + 64 * i);
            block.quad[i] = _mm512_and_si512(both, nibble);
            block.quad[i + 4] = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
        }
    else /* the product wants unsigned weights: value + 128, taken off again by `offset` in dot */
        UNROLL
        for (int i = 0; i < 8; i++) block.quad[i] = _mm512_xor_si512(_mm512_loadu_si512(data + 64 * i), flip);
    return block;
}
ALWAYS_INLINE vec NAME(dot)(const NAME(Block) *block, const int8_t *x, int32_t total, int bits, int offset) {
    __m512i sum = _mm512_set1_epi32(-total * (bits == 4 ? offset : 128 + offset));
    UNROLL
    for (int i = 0; i < 8; i++) {
        int32_t four;
        memcpy(&four, x + 4 * i, 4);
        sum = _mm512_dpbusd_epi32(sum, block->quad[i], _mm512_set1_epi32(four));
    }
    return (vec)_mm512_cvtepi32_ps(sum);
}
#elif defined(LEVEL_AVX2)
typedef struct { __m256i quad[8]; } NAME(Block);
ALWAYS_INLINE NAME(Block) NAME(open)(const uint8_t *data, int bits) {
    NAME(Block) block;
    const __m256i nibble = _mm256_set1_epi8(15);
    UNROLL
    for (int i = 0; i < 8; i++) {
        if (i == bits) break; /* as many quads are stored as there are bits */
        __m256i all = _mm256_loadu_si256((const void *)(data + 64 * i));
        block.quad[i] = bits == 4 ? _mm256_and_si256(all, nibble) : all;
        if (bits == 4) block.quad[i + 4] = _mm256_and_si256(_mm256_srli_epi16(all, 4), nibble);
    }
    return block;
}
/* 8 x 2 x 15 x 127 and 2 x 128 x 127 both fit 16 bits, so nothing saturates. */
ALWAYS_INLINE vec NAME(dot)(const NAME(Block) *block, const int8_t *x, int32_t total, int bits, int offset) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sum = _mm256_set1_epi32(-total * offset), pairs = _mm256_setzero_si256();
    UNROLL
    for (int i = 0; i < 8; i++) {
        int32_t four;
        memcpy(&four, x + 4 * i, 4);
        __m256i w = block->quad[i], v = _mm256_set1_epi32(four);
        if (bits == 4)
            pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w, v));
        else
            sum = _mm256_add_epi32(
                sum, _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(v, w)), ones));
    }
    if (bits == 4) sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
    return (vec)_mm256_cvtepi32_ps(sum);
}
#elif defined(LEVEL_NEON)
typedef struct { int8x16_t quad[8]; } NAME(Block);
ALWAYS_INLINE NAME(Block) NAME(open)(const uint8_t *data, int bits) {
    NAME(Block) block;
    UNROLL
    for (int i = 0; i < 8; i++) {
        if (i == bits) break;
        uint8x16_t all = vld1q_u8(data + 64 * i);
        block.quad[i] = vreinterpretq_s8_u8(bits == 4 ? vandq_u8(all, vdupq_n_u8(15)) : all);
        if (bits == 4) block.quad[i + 4] = vreinterpretq_s8_u8(vshrq_n_u8(all, 4));
    }
    return block;
}
ALWAYS_INLINE vec NAME(dot)(const NAME(Block) *block, const int8_t *x, int32_t total, int bits, int offset) {
    int32x4_t sum = vdupq_n_s32(-total * offset);
    (void)bits;
    UNROLL
    for (int i = 0; i < 8; i++) {
        int32_t four;
        memcpy(&four, x + 4 * i, 4);
        sum = vdotq_s32(sum, block->quad[i], vreinterpretq_s8_s32(vdupq_n_s32(four)));
    }
    return (vec)vcvtq_f32_s32(sum);
}
#else
/* Without products of small integers the sums are made in floats, which are exact for such small numbers. */
typedef struct { vec column[BLOCK]; } NAME(Block);
ALWAYS_INLINE NAME(Block) NAME(open)(const uint8_t *data, int bits) {
    NAME(Block) block;
    UNROLL
    for (int quad = 0; quad < 8; quad++)
        UNROLL
        for (int column = 0; column < 4 && quad < bits; column++) {
            const uint8_t *from = data + 64 * quad + column;
            ivec four = {from[0], from[4], from[8], from[12]};
            vec *to = block.column + 4 * quad + column;
            *to = __builtin_convertvector(bits == 4 ? four & 15 : (four ^ 128) - 128, vec);
            if (bits == 4) to[16] = __builtin_convertvector(four >> 4, vec);
        }
    return block;
}
ALWAYS_INLINE vec NAME(dot)(const NAME(Block) *block, const int8_t *x, int32_t total, int bits, int offset) {
    vec sum = SPREAD((float)(-total * offset));
    (void)bits;
    UNROLL
    for (int column = 0; column < BLOCK; column++) sum += block->column[column] * (float)x[column];
    return sum;
}
#endif

/* y = sum over blocks of scale_w scale_x dot(w, x) + minimum_w sum(x), for `tokens` (a constant) rows of x at once. */
ALWAYS_INLINE void NAME(tile)(const uint8_t *data, Rows all, const int first, const int tokens, const int bits,
                              const int minimum, const int offset, const int part, float out[TILE][GROUP]) {
    const Rows rows = rows_from(all, first), *x = &rows;
    const long blocks = x->columns / BLOCK, size = GROUP * (2 + 2 * minimum + BLOCK * bits / 8);
    vec sums[TILE];
    UNROLL
    for (int t = 0; t < tokens; t++) sums[t] = (vec){0};
    for (long b = 0; b < blocks; b++, data += size) {
        for (int line = 0; part == 0 && line < size; line += 64) __builtin_prefetch(data + PREFETCH + line);
        const uint8_t *own = data + 2 * LANES * part;
        vec scale = NAME(halves)(own), least = minimum ? NAME(halves)(own + 32) : (vec){0};
        NAME(Block) block = NAME(open)(data + 32 + 32 * minimum + 4 * LANES * part, bits);
        UNROLL
        for (int t = 0; t < tokens; t++) {
            long at = t * blocks + b;
            vec dot = NAME(dot)(&block, x->values + at * BLOCK, x->totals[at], bits, offset);
            sums[t] = NAME(fused)(dot, scale * x->scales[at], sums[t]);
            if (minimum) sums[t] = NAME(fused)(least, SPREAD(x->sums[at]), sums[t]);
        }
    }
    UNROLL
    for (int t = 0; t < tokens; t++) STORE(out[first + t] + LANES * part, sums[t]);
}

/* As many rows at once as there are, by powers of two: each number is a loop that is written out. */
#define TILES(bits, minimum, offset)                                                                       \
    for (int part = 0; part < PARTS; part++) {                                                             \
        int t = 0;                                                                                         \
        for (; t + 8 <= tokens; t += 8) NAME(tile)(data, x, t, 8, bits, minimum, offset, part, out);       \
        for (; t + 4 <= tokens; t += 4) NAME(tile)(data, x, t, 4, bits, minimum, offset, part, out);       \
        for (; t + 2 <= tokens; t += 2) NAME(tile)(data, x, t, 2, bits, minimum, offset, part, out);       \
        for (; t < tokens; t++) NAME(tile)(data, x, t, 1, bits, minimum, offset, part, out);               \
    }

static void NAME(multiply_floats)(const Weight *w, long group, Rows x, int tokens, float out[TILE][GROUP]) {
    long row = group * GROUP, lanes = w->rows - row < GROUP ? w->rows - row : GROUP;
    for (long lane = 0; lane < lanes; lane++)
        UNROLL
        for (int t = 0; t < tokens; t++) {
            const float *weights = (const float *)w->data + (row + lane) * w->columns, *y = x.exact + t * x.columns;
            vec sum = {0}, other = {0};
            for (long i = 0; i < x.columns; i += 2 * LANES) {
                sum = NAME(fused)(LOAD(weights + i), LOAD(y + i), sum);
                other = NAME(fused)(LOAD(weights + i + LANES), LOAD(y + i + LANES), other);
            }
            out[t][lane] = NAME(add_up)(sum + other);
        }
}

static void NAME(multiply)(const Weight *w, long group, Rows x, int tokens, float out[TILE][GROUP]) {
    const uint8_t *data = w->data + group * (w->columns / BLOCK) * block_bytes(w);
    if (w->bits == 32) {
        NAME(multiply_floats)(w, group, x, tokens, out);
        return;
    }
    if (w->bits == 4 && w->has_minimum) TILES(4, 1, 0)
    else if (w->bits == 4) TILES(4, 0, w->offset)
    else if (w->has_minimum) TILES(8, 1, 0)
    else TILES(8, 0, w->offset)
}

/* To bfloat16, half to even; a NaN stays one. */
ALWAYS_INLINE NAME(hvec_anywhere) NAME(shorten)(vec x) {
    ivec bits = (ivec)x, odd = (bits >> 16) & 1, quiet = (ivec){0} + 0x7fc00000;
    bits = (ivec)SELECT(x == x, (vec)(bits + 0x7fff + odd), (vec)quiet);
    return __builtin_convertvector((bits >> 16) & 0xffff, NAME(hvec_anywhere));
}

static void NAME(widen)(const Weight *w, long row, void *out, int bfloat) {
    const int bits = w->bits, start = 32 + 32 * !!w->has_minimum;
    const long blocks = w->columns / BLOCK, size = block_bytes(w), lane = row % GROUP;
    const uint8_t *data = w->data + row / GROUP * blocks * size;
    for (long b = 0; b < blocks; b++, data += size) {
        float scale = half_to_float(((const uint16_t *)data)[lane]);
        float least = w->has_minimum ? half_to_float(((const uint16_t *)data)[GROUP + lane]) : 0.0f;
        uint8_t held[BLOCK];
        for (int i = 0; i < (bits == 4 ? 4 : 8); i++) memcpy(held + 4 * i, data + start + 64 * i + 4 * lane, 4);
        for (int i = 0; i < BLOCK; i += LANES) {
            const uint8_t *from = held + (bits == 4 ? i % 16 : i);
            ivec value = __builtin_convertvector(*(const NAME(bvec_anywhere) *)from, ivec);
            if (bits == 4) value = (i < 16 ? value : value >> 4) & 15;
            vec weight = __builtin_convertvector(value - w->offset, vec) * scale + least; /* the product is exact */
            if (bfloat) *(NAME(hvec_anywhere) *)((uint16_t *)out + b * BLOCK + i) = NAME(shorten)(weight);
            else STORE((float *)out + b * BLOCK + i, weight);
        }
    }
}

static void NAME(normalise)(const float *x, const float *scale, const float *shift, float epsilon, int kind, long count,
                            float *out) {
    vec sum = {0}, squares = {0};
    for (long i = 0; kind == 1 && i < count; i += LANES) sum += LOAD(x + i);
    float mean = NAME(add_up)(sum) / (float)count;
    for (long i = 0; i < count; i += LANES) squares += (LOAD(x + i) - mean) * (LOAD(x + i) - mean);
    float factor = 1.0f / __builtin_sqrtf(NAME(add_up)(squares) / (float)count + epsilon);
    for (long i = 0; i < count; i += LANES) {
        vec y = (LOAD(x + i) - mean) * factor;
        if (scale) y *= LOAD(scale + i);
        if (shift) y += LOAD(shift + i);
        STORE(out + i, y);
    }
}

static void NAME(activate)(float *g, const float *u, int kind, long count) {
    for (long i = 0; i < count; i += LANES) {
        vec x = LOAD(g + i), y = x;
        if (kind == 0) y = x / (1.0f + NAME(exponential)(-x));
        if (kind == 1) y = x / (1.0f + NAME(exponential)(-1.5957691216f * (x + 0.044715f * x * x * x)));
        if (kind == 2) {
            for (int lane = 0; lane < LANES; lane++) y[lane] *= 0.5f * (1.0f + erff(x[lane] * 0.70710678f));
        }
        if (kind == 3) y = SELECT(x < SPREAD(0.0f), SPREAD(0.0f), x);
        STORE(g + i, u ? y * LOAD(u + i) : y);
    }
}

#include "attend.h"
#include "look.h"

static const Level NAME(level) = {
    NAME(round_blocks), NAME(multiply), NAME(widen), NAME(normalise), NAME(activate), NAME(attend), NAME(join),
    NAME(look),
};

#undef vec
#undef ivec
#undef LOAD
#undef STORE
#undef SELECT
#undef GREATER
#undef SPREAD
#undef TILES
#undef LANES
#undef PARTS
#undef WIDE
