/* Matrix products over weights kept in 4- and 8-bit blocks: compiled on the user's machine, chosen by its processor. */
#define _GNU_SOURCE
#include <math.h>
#include <stddef.h>

#include "pool.h"
#include "types.h"

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)
#define NAME(x) PASTE(x, LEVEL)
#ifndef PREFETCH
#define PREFETCH 4096
#endif

#define LEVEL plain
#include "level.h"
#undef LEVEL

#if defined(__x86_64__)
#include <immintrin.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
#define LEVEL avx2
#define LEVEL_AVX2
#include "level.h"
#undef LEVEL
#undef LEVEL_AVX2
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"))), \
                             apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
#endif
#define LEVEL avx512
#define LEVEL_AVX512
#include "level.h"
#undef LEVEL
#undef LEVEL_AVX512
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#elif defined(__aarch64__)
#ifdef __linux__
#include <sys/auxv.h>
#define HAS_DOT_PRODUCTS (getauxval(AT_HWCAP) >> 20 & 1) /* HWCAP_ASIMDDP */
#elif defined(__APPLE__) || defined(__ARM_FEATURE_DOTPROD)
#define HAS_DOT_PRODUCTS 1
#else
#define HAS_DOT_PRODUCTS 0
#endif
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif
#include <arm_neon.h>
#define LEVEL neon
#define LEVEL_NEON
#include "level.h"
#undef LEVEL
#undef LEVEL_NEON
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

/* 0 plain C, 1 AVX2, 2 AVX-512 with VNNI, 3 NEON with dot products; NULL where this processor has it not. */
static const Level *level_of(int which) {
    if (which == 0) return &level_plain;
#if defined(__x86_64__)
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    if (which == 1 && avx2) return &level_avx2;
    if (which == 2 && avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni"))
        return &level_avx512;
#elif defined(__aarch64__)
    if (which == 3 && HAS_DOT_PRODUCTS) return &level_neon;
#endif
    return NULL;
}

int headwise_has_level(int which) { return level_of(which) != NULL; }

/* Memory for the activations of a call; kept between calls, grown when needed, under pool.use. */
static char *workspace;
static size_t workspace_size;

static char *reserve(size_t size) {
    if (size > workspace_size) {
        free(workspace);
        workspace_size = 0;
        workspace = malloc(size + 64);
        if (workspace) workspace_size = size;
    }
    return workspace ? (char *)(((uintptr_t)workspace + 63) / 64 * 64) : NULL;
}

/* The next `size` bytes of the workspace; a cursor that begins at NULL only counts them. */
static void *carve(char **cursor, size_t size) {
    char *start = *cursor;
    *cursor = (char *)((uintptr_t)start + (size + 63) / 64 * 64);
    return start;
}

static Rows carve_rows(char **cursor, long count, long columns) {
    size_t blocks = (size_t)count * (size_t)(columns / BLOCK);
    Rows x = {.columns = columns};
    x.values = carve(cursor, (size_t)count * (size_t)columns);
    x.scales = carve(cursor, blocks * 4);
    x.sums = carve(cursor, blocks * 4);
    x.totals = carve(cursor, blocks * 4);
    return x;
}

#define ROWS_AT_ONCE 64 /* activation rows that stay in the nearest cache while the weights pass by */

/* out[token, row] = x[token] . w[row] + bias[row] (added to what is there when `add`), for groups [first, end). */
static void multiply_groups(const Level *level, const Weight *w, Rows x, long count, float *out, int add, long first,
                            long end) {
    float tile[TILE][GROUP] __attribute__((aligned(64)));
    for (long start = 0; start < count; start += ROWS_AT_ONCE) {
        long stop = start + ROWS_AT_ONCE < count ? start + ROWS_AT_ONCE : count;
        for (long group = first; group < end; group++) {
            long row = group * GROUP, lanes = w->rows - row < GROUP ? w->rows - row : GROUP;
            for (long token = start; token < stop; token += TILE) {
                int tokens = (int)(stop - token < TILE ? stop - token : TILE);
                level->multiply(w, group, rows_from(x, token), tokens, tile);
                for (int t = 0; t < tokens; t++) {
                    float *to = out + (token + t) * w->rows + row;
                    for (long lane = 0; lane < lanes; lane++) {
                        float y = tile[t][lane] + (w->bias ? w->bias[row + lane] : 0.0f);
                        to[lane] = add ? to[lane] + y : y;
                    }
                }
            }
        }
    }
}

/* The same for this thread's share of the groups of several weights, laid end to end. */
static void multiply_share(const Level *level, const Weight *weights, long weight_count, Rows x, long count,
                           float *const *outputs, int add, int thread, int threads) {
    long all = 0, first, end, before = 0;
    for (long i = 0; i < weight_count; i++) all += groups_of(weights + i);
    share(all, thread, threads, &first, &end);
    for (long i = 0; i < weight_count; i++) {
        long groups = groups_of(weights + i);
        long from = first > before ? first - before : 0, to = end - before < groups ? end - before : groups;
        multiply_groups(level, weights + i, x, count, outputs[i], add, from, to);
        before += groups;
    }
}

typedef struct {
    const Level *level;
    const Weight *weights;
    long weight_count, rows;
    float *const *outputs;
    Rows x;
} Products;

static void products_job(void *argument, int thread, int threads) {
    Products *p = argument;
    long first, end;
    share(p->rows * (p->x.columns / BLOCK), thread, threads, &first, &end);
    p->level->round_blocks(p->x, first, end);
    barrier(threads);
    multiply_share(p->level, p->weights, p->weight_count, p->x, p->rows, p->outputs, 0, thread, threads);
}

/* Products of the same float32 rows x with several weights; 0 when done, 1 out of memory, 2 no such level. */
int headwise_products(const Weight *weights, long weight_count, const float *x, long rows, float *const *outputs,
                      int threads, int which) {
    char *size = NULL;
    const Level *level = level_of(which);
    if (!level) return 2;
    carve_rows(&size, rows, (long)weights->columns);
    pthread_mutex_lock(&pool.use);
    char *cursor = reserve((size_t)(uintptr_t)size);
    if (cursor) {
        Products p = {level, weights, weight_count, rows, outputs, carve_rows(&cursor, rows, (long)weights->columns)};
        p.x.exact = x;
        run_team(products_job, &p, threads);
    }
    pthread_mutex_unlock(&pool.use);
    return cursor ? 0 : 1;
}

typedef struct {
    const Level *level;
    const Weight *weight;
    const int64_t *ids;
    char *out;
    long count, stride;
    int bfloat;
} Widening;

static void widen_job(void *argument, int thread, int threads) {
    Widening *w = argument;
    long first, end;
    share(w->count, thread, threads, &first, &end);
    for (long row = first; row < end; row++)
        w->level->widen(w->weight, w->ids ? (long)w->ids[row] : row, w->out + row * w->stride, w->bfloat);
}

/* The packed rows `ids` (NULL: the first `count`) as float32 or bfloat16; 0 when done, 2 no such level. */
int headwise_widen(const Weight *weight, const int64_t *ids, long count, void *out, int bfloat, int threads,
                   int which) {
    const Level *level = level_of(which);
    if (!level) return 2;
    Widening w = {level, weight, ids, out, count, (long)weight->columns * (bfloat ? 2 : 4), bfloat};
    if (count < 16) {
        widen_job(&w, 0, 1);
        return 0;
    }
    pthread_mutex_lock(&pool.use);
    run_team(widen_job, &w, threads);
    pthread_mutex_unlock(&pool.use);
    return 0;
}

typedef struct {
    const uint8_t *blocks;
    uint8_t *out;
    long rows, count;
    int block_bytes, has_minimum, five_bits, bits;
} Repacking;

/* Scale, minimum and values of one row's block to its lane of the group's. */
static void repack_block(const Repacking *r, const uint8_t *from, uint8_t *out, long lane) {
    uint8_t values[BLOCK];
    int ends = r->has_minimum ? 4 : 2;
    for (int end = 0; end < ends; end += 2) memcpy(out + 16 * end + 2 * lane, from + end, 2);
    from += ends;
    if (r->five_bits) {
        for (int i = 0; i < BLOCK; i++) {
            uint8_t both = from[4 + i % 16], nibble = i < 16 ? both & 15 : both >> 4;
            values[i] = (uint8_t)(nibble | (from[i / 8] >> i % 8 & 1) << 4);
        }
        from = values;
    }
    for (int quad = 0; quad < r->bits; quad++) memcpy(out + 16 * ends + 64 * quad + 4 * lane, from + 4 * quad, 4);
}

static void repack_job(void *argument, int thread, int threads) {
    Repacking *r = argument;
    long first, end, size = GROUP * (2 + 2 * r->has_minimum + BLOCK * r->bits / 8);
    share((r->rows + GROUP - 1) / GROUP, thread, threads, &first, &end);
    for (long group = first; group < end; group++) {
        uint8_t *out = r->out + group * r->count * size;
        if ((group + 1) * GROUP > r->rows) memset(out, 0, (size_t)(r->count * size));
        for (long block = 0; block < r->count; block++, out += size)
            for (long lane = 0; lane < GROUP && group * GROUP + lane < r->rows; lane++)
                repack_block(r, r->blocks + ((group * GROUP + lane) * r->count + block) * r->block_bytes, out, lane);
    }
}

/* A GGUF tensor's blocks, [row, block], to groups of 16 rows. */
void headwise_repack(const uint8_t *blocks, long rows, long count, int block_bytes, int has_minimum, int five_bits,
                     int bits, uint8_t *out, int threads) {
    Repacking r = {blocks, out, rows, count, block_bytes, has_minimum, five_bits, bits};
    pthread_mutex_lock(&pool.use);
    run_team(repack_job, &r, threads);
    pthread_mutex_unlock(&pool.use);
}

#include "step.h"
