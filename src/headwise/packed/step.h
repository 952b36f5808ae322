/* New tokens through all layers of a decoder: one job, in which threads meet at barriers. A step takes one token for
 * each row of a batch; a reading takes the next tokens of one row. */
#ifndef HEADWISE_STEP_H
#define HEADWISE_STEP_H

typedef struct {
    const float *scale, *shift; /* shift may be NULL; scale NULL: there is no such norm */
} Norm;

/* x += output(attend(norm(x))); x += down(activation(gate(norm(x))) * up(norm(x))), or down(activation(up(norm(x)))). */
typedef struct {
    Weight projections[3]; /* query, key, value */
    Weight output, gate, up, down;
    Norm attention, feedforward, query, key;
    float score_scale;
    int32_t window; /* tokens that a query sees, its own among them; 0: all */
} Layer;

/* Where a layer's earlier keys and values are, [row, key head, capacity, head_dim]; the new ones are written there. */
typedef struct {
    float *keys, *values;
    int64_t capacity, length; /* length without the new token */
    const uint8_t *allowed;   /* [row, length + 1], or NULL: all may be seen */
} Cache;

typedef struct {
    int64_t layers, dim, heads, key_heads, head_dim, hidden, rotary_dims; /* 0 rotary dims: none */
    float epsilon, head_factor;
    int32_t norm_kind, activation;
    const Layer *layer;
    Norm final;
    Weight head;
} Decoder;

/* Queries of one key head, turned, and what they have seen; `columns` are the keys of a chunk, column by column. */
typedef struct {
    float *query, *out, *columns, *greatest, *total;
    long *first, *end;
} Tile;

#define TILE_QUERIES 192

/* The row of the cache that is read, its filling, how many of its tokens were read before, and a tile for each thread. */
typedef struct {
    long row, filling, done;
    Tile *tiles;
} Reading;

typedef struct {
    const Level *level;
    const Decoder *model;
    const Cache *caches;
    long batch;
    const float *cosine, *sine; /* [row, rotary_dims] */
    long turn_stride;           /* from row to row: 0 where all rows stand at the same position */
    float *x, *logits;          /* x: embeddings in, last hidden states out */
    float *query, *key, *value; /* [row, head, head_dim] */
    float *gate, *up;           /* [row, hidden] */
    Rows wide;                  /* gate, rounded */
    float *greatest, *total, *mixed; /* of each chunk: [row, chunk, head] and [row, chunk, head, head_dim] */
    const Reading *reading;          /* or NULL: a step */
    float *turned;                   /* for each thread, the queries that share a key head */
    long scored;                     /* of which rows, counted from the last, the scores are wanted */
    int together;                    /* the threads share a desk */
} Step;

/* Where rows are normalised and rounded. Few of them cost less than a barrier, so each thread has a desk and does them
 * all; many are shared out. */
typedef struct {
    float *normed;
    Rows narrow, joined;
} Desk;

#define MANY 4 /* rows */

static long chunks_of(const Layer *layer, const Cache *cache, long *start) {
    long keys = (long)cache->length + 1;
    *start = layer->window && keys > layer->window ? keys - layer->window : 0;
    return (keys - *start + CHUNK - 1) / CHUNK;
}

static Desk carve_desk(char **cursor, const Decoder *m, long batch) {
    long mixed = (long)(m->heads * m->head_dim), most = mixed > m->dim ? mixed : (long)m->dim;
    Desk desk;
    desk.normed = carve(cursor, (size_t)batch * (size_t)most * 4);
    desk.narrow = carve_rows(cursor, batch, (long)m->dim);
    desk.joined = carve_rows(cursor, batch, mixed);
    desk.narrow.exact = desk.joined.exact = desk.normed;
    return desk;
}

static void carve_step(char **cursor, Step *s) {
    const Decoder *m = s->model;
    size_t batch = (size_t)s->batch, dim = (size_t)m->head_dim, most = 1;
    for (long i = 0; !s->reading && i < m->layers; i++) {
        long start;
        size_t chunks = (size_t)chunks_of(m->layer + i, s->caches + i, &start);
        if (chunks > most) most = chunks;
    }
    s->query = carve(cursor, batch * (size_t)m->heads * dim * 4);
    s->key = carve(cursor, batch * (size_t)m->key_heads * dim * 4);
    s->value = carve(cursor, batch * (size_t)m->key_heads * dim * 4);
    s->gate = carve(cursor, batch * (size_t)m->hidden * 4);
    s->up = carve(cursor, batch * (size_t)m->hidden * 4);
    s->wide = carve_rows(cursor, s->batch, (long)m->hidden);
    s->wide.exact = s->gate;
    s->greatest = carve(cursor, batch * most * (size_t)m->heads * 4);
    s->total = carve(cursor, batch * most * (size_t)m->heads * 4);
    s->mixed = carve(cursor, batch * most * (size_t)m->heads * dim * 4);
}

/* This thread's rows on a desk: all of a desk of its own, a share of a common one. */
static void own_rows(const Step *s, int thread, int threads, long *first, long *end) {
    *first = 0;
    *end = s->batch;
    if (s->together) share(s->batch, thread, threads, first, end);
}

static void round_rows(const Step *s, Rows x, int thread, int threads) {
    long first, end, blocks = (long)x.columns / BLOCK;
    own_rows(s, thread, threads, &first, &end);
    s->level->round_blocks(x, first * blocks, end * blocks);
    if (s->together) barrier(threads);
}

static void normalise_rows(const Step *s, Norm norm, Desk *desk, int thread, int threads) {
    const Decoder *m = s->model;
    long dim = (long)m->dim, first, end;
    own_rows(s, thread, threads, &first, &end);
    for (long at = first * dim; at < end * dim; at += dim) {
        if (norm.scale)
            s->level->normalise(s->x + at, norm.scale, norm.shift, m->epsilon, m->norm_kind, dim, desk->normed + at);
        else
            memcpy(desk->normed + at, s->x + at, (size_t)dim * 4);
    }
}

/* Normalises one head, where the model does, and turns it by the position's angle. */
static void turn_head(const Step *s, Norm norm, long row, const float *head, float *out) {
    const Decoder *m = s->model;
    long dim = (long)m->head_dim, half = (long)m->rotary_dims / 2;
    const float *cosine = s->cosine + row * s->turn_stride, *sine = s->sine + row * s->turn_stride;
    if (norm.scale) s->level->normalise(head, norm.scale, norm.shift, m->epsilon, 0, dim, out);
    else memcpy(out, head, (size_t)dim * 4);
    for (long i = 0; i < half; i++) {
        float first = out[i], second = out[i + half];
        out[i] = first * cosine[i] - second * sine[i];
        out[i + half] = second * cosine[i + half] + first * sine[i + half];
    }
}

/* One chunk of one key head: the query heads that share it look at its keys; with the last chunk the new key is kept. */
static void attend_chunk(const Step *s, const Layer *layer, const Cache *cache, long row, long key_head, long chunk,
                         long chunks, long start, float *turned) {
    const Decoder *m = s->model;
    long dim = (long)m->head_dim, sharing = (long)(m->heads / m->key_heads), first = start + chunk * CHUNK;
    long left = (long)cache->length + 1 - first, count = left < CHUNK ? left : CHUNK;
    long place = (row * (long)m->key_heads + key_head) * (long)cache->capacity * dim;
    float *keys = cache->keys + place, *values = cache->values + place;
    if (chunk == chunks - 1) {
        long own = row * (long)m->key_heads + key_head;
        turn_head(s, layer->key, row, s->key + own * dim, keys + cache->length * dim);
        memcpy(values + cache->length * dim, s->value + own * dim, (size_t)dim * 4);
    }
    for (long i = 0; i < sharing; i++)
        turn_head(s, layer->query, row, s->query + (row * (long)m->heads + key_head * sharing + i) * dim,
                  turned + i * dim);
    long at = (row * chunks + chunk) * (long)m->heads + key_head * sharing;
    const uint8_t *allowed = cache->allowed ? cache->allowed + row * (cache->length + 1) + first : NULL;
    s->level->attend(turned, (int)sharing, dim, keys + first * dim, values + first * dim, allowed, count,
                     layer->score_scale, s->greatest + at, s->total + at, s->mixed + at * dim);
}

static long attend_share(const Step *s, long layer, float *turned, int thread, int threads) {
    long start, first, end, chunks = chunks_of(s->model->layer + layer, s->caches + layer, &start);
    long heads = (long)s->model->key_heads;
    share(s->batch * heads * chunks, thread, threads, &first, &end);
    for (long item = first; item < end; item++)
        attend_chunk(s, s->model->layer + layer, s->caches + layer, item / chunks / heads, item / chunks % heads,
                     item % chunks, chunks, start, turned);
    return chunks;
}

/* All chunks of each head, joined in order; a head that saw nothing gives zeros. */
static void join_chunks(const Step *s, long chunks, float *out, int thread, int threads) {
    long heads = (long)s->model->heads, dim = (long)s->model->head_dim, first, end;
    own_rows(s, thread, threads, &first, &end);
    out += first * heads * dim;
    for (long item = first * heads; item < end * heads; item++, out += dim) {
        long at = item / heads * chunks * heads + item % heads;
        float greatest = s->greatest[at], total = s->total[at];
        memcpy(out, s->mixed + at * dim, (size_t)dim * 4);
        for (long chunk = 1; chunk < chunks; chunk++) {
            at += heads;
            s->level->join(&greatest, &total, out, s->greatest[at], s->total[at], s->mixed + at * dim, dim);
        }
        float factor = total == 0.0f ? 0.0f : 1.0f / total;
        for (long i = 0; i < dim; i++) out[i] *= factor;
    }
}

#include "read.h"

static void attention_part(const Step *s, long index, Desk *desk, int thread, int threads) {
    const Layer *layer = s->model->layer + index;
    float *const outputs[] = {s->query, s->key, s->value}, *const x[] = {s->x};
    normalise_rows(s, layer->attention, desk, thread, threads);
    round_rows(s, desk->narrow, thread, threads);
    multiply_share(s->level, layer->projections, 3, desk->narrow, s->batch, outputs, 0, thread, threads);
    barrier(threads);
    if (s->reading) {
        keep_share(s, index, thread, threads);
        barrier(threads);
        look_share(s, index, desk->normed, thread, threads);
        barrier(threads);
    } else {
        long chunks = attend_share(s, index, s->turned + thread * s->model->heads * s->model->head_dim, thread, threads);
        barrier(threads);
        join_chunks(s, chunks, desk->normed, thread, threads);
    }
    round_rows(s, desk->joined, thread, threads);
    multiply_share(s->level, &layer->output, 1, desk->joined, s->batch, x, 1, thread, threads);
    barrier(threads);
}

/* Each thread computes, activates and rounds its own columns of the wide layer, in whole blocks. */
static void feedforward_part(const Step *s, const Layer *layer, Desk *desk, int thread, int threads) {
    long hidden = (long)s->model->hidden, blocks = hidden / BLOCK, first, end;
    float *const x[] = {s->x};
    int gated = layer->gate.data != NULL;
    normalise_rows(s, layer->feedforward, desk, thread, threads);
    round_rows(s, desk->narrow, thread, threads);
    share(blocks, thread, threads, &first, &end);
    multiply_groups(s->level, gated ? &layer->gate : &layer->up, desk->narrow, s->batch, s->gate, 0, 2 * first, 2 * end);
    if (gated) multiply_groups(s->level, &layer->up, desk->narrow, s->batch, s->up, 0, 2 * first, 2 * end);
    for (long row = 0; row < s->batch; row++) {
        long at = row * hidden + first * BLOCK;
        s->level->activate(s->gate + at, gated ? s->up + at : NULL, s->model->activation, (end - first) * BLOCK);
        s->level->round_blocks(s->wide, row * blocks + first, row * blocks + end);
    }
    barrier(threads);
    multiply_share(s->level, &layer->down, 1, s->wide, s->batch, x, 1, thread, threads);
    barrier(threads);
}

/* The scores of the next word, of the last rows only. */
static void score_words(const Step *s, Desk *desk, int thread, int threads) {
    const Decoder *m = s->model;
    Step last = *s;
    float *const logits[] = {s->logits};
    long first, end;
    last.batch = s->scored;
    last.x = s->x + (s->batch - s->scored) * m->dim;
    normalise_rows(&last, m->final, desk, thread, threads);
    own_rows(&last, thread, threads, &first, &end);
    for (long i = first * m->dim; m->head_factor != 1.0f && i < end * m->dim; i++) desk->normed[i] *= m->head_factor;
    round_rows(&last, desk->narrow, thread, threads);
    multiply_share(s->level, &m->head, 1, desk->narrow, last.batch, logits, 0, thread, threads);
}

typedef struct {
    const Step *step;
    Desk desks[MAX_THREADS];
} StepJob;

static void step_job(void *argument, int thread, int threads) {
    StepJob *job = argument;
    const Step *s = job->step;
    Desk *desk = job->desks + (s->together ? 0 : thread);
    for (long i = 0; i < s->model->layers; i++) {
        attention_part(s, i, desk, thread, threads);
        feedforward_part(s, s->model->layer + i, desk, thread, threads);
    }
    if (s->logits) score_words(s, desk, thread, threads);
}

/* Carves what the call needs out of the workspace: first only counted, then for true. */
static int run_step(Step *s, int threads) {
    StepJob job = {.step = s};
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    if (threads < 1) threads = 1;
    s->together = s->reading || s->batch >= MANY;
    pthread_mutex_lock(&pool.use);
    char *cursor = NULL;
    for (int counted = 0; counted < 2; counted++) {
        carve_step(&cursor, s);
        s->turned = carve(&cursor, (size_t)threads * (size_t)(s->model->heads * s->model->head_dim) * 4);
        for (int i = 0; i < (s->together ? 1 : threads); i++) job.desks[i] = carve_desk(&cursor, s->model, s->batch);
        for (int i = 0; s->reading && i < threads; i++) s->reading->tiles[i] = carve_tile(&cursor, s->model);
        if (!counted && !(cursor = reserve((size_t)(uintptr_t)cursor))) break;
    }
    if (cursor) run_team(step_job, &job, threads);
    pthread_mutex_unlock(&pool.use);
    return cursor ? 0 : 1;
}

/* One step: x [batch, dim] are the embedded tokens; 0 when done, 1 out of memory, 2 no such level. */
int headwise_step(const Decoder *model, const Cache *caches, long batch, float *x, const float *cosine,
                  const float *sine, long turn_stride, float *logits, int threads, int which) {
    const Level *level = level_of(which);
    if (!level) return 2;
    Step step = {.level = level, .model = model, .caches = caches, .batch = batch, .cosine = cosine, .sine = sine,
                 .turn_stride = turn_stride, .x = x, .logits = logits, .scored = batch};
    return run_step(&step, threads);
}

/* The next tokens of one row, behind `filling` that nobody sees and the `done` tokens read before; `logits`, of the last
 * one, may be NULL. x is [count, dim]; the caches are long enough. */
int headwise_read(const Decoder *model, const Cache *caches, long row, long filling, long done, long count, float *x,
                  const float *cosine, const float *sine, float *logits, int threads, int which) {
    const Level *level = level_of(which);
    if (!level) return 2;
    Tile tiles[MAX_THREADS];
    Reading reading = {row, filling, done, tiles};
    Step step = {.level = level, .model = model, .caches = caches, .batch = count, .cosine = cosine, .sine = sine,
                 .turn_stride = (long)model->rotary_dims, .x = x, .logits = logits, .scored = 1, .reading = &reading};
    return run_step(&step, threads);
}

#endif
