/* One token through all layers of a decoder, for each row of a batch: one job, in which threads meet at barriers. */
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
} Step;

/* What each thread has for itself: every thread normalises and rounds the whole of x, which costs less than a barrier. */
typedef struct {
    float *normed;
    Rows narrow, joined;
} Desk;

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
    size_t batch = (size_t)s->batch, dim = (size_t)m->head_dim, most = 0;
    for (long i = 0; i < m->layers; i++) {
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

static void normalise_rows(const Step *s, Norm norm, Desk *desk) {
    const Decoder *m = s->model;
    long dim = (long)m->dim;
    for (long row = 0; row < s->batch; row++)
        s->level->normalise(s->x + row * dim, norm.scale, norm.shift, m->epsilon, m->norm_kind, dim,
                            desk->normed + row * dim);
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
static void join_chunks(const Step *s, long chunks, float *out) {
    long heads = (long)s->model->heads, dim = (long)s->model->head_dim;
    for (long item = 0; item < s->batch * heads; item++, out += dim) {
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

static void attention_part(const Step *s, long index, Desk *desk, int thread, int threads) {
    const Layer *layer = s->model->layer + index;
    float *const outputs[] = {s->query, s->key, s->value}, *const x[] = {s->x};
    normalise_rows(s, layer->attention, desk);
    s->level->round_blocks(desk->narrow, 0, s->batch * (desk->narrow.columns / BLOCK));
    multiply_share(s->level, layer->projections, 3, desk->narrow, s->batch, outputs, 0, thread, threads);
    barrier(threads);
    long chunks = attend_share(s, index, desk->normed, thread, threads);
    barrier(threads);
    join_chunks(s, chunks, desk->normed);
    s->level->round_blocks(desk->joined, 0, s->batch * (desk->joined.columns / BLOCK));
    multiply_share(s->level, &layer->output, 1, desk->joined, s->batch, x, 1, thread, threads);
    barrier(threads);
}

/* Each thread computes, activates and rounds its own columns of the wide layer, in whole blocks. */
static void feedforward_part(const Step *s, const Layer *layer, Desk *desk, int thread, int threads) {
    long hidden = (long)s->model->hidden, blocks = hidden / BLOCK, first, end;
    float *const x[] = {s->x};
    int gated = layer->gate.data != NULL;
    normalise_rows(s, layer->feedforward, desk);
    s->level->round_blocks(desk->narrow, 0, s->batch * (desk->narrow.columns / BLOCK));
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

typedef struct {
    const Step *step;
    Desk desks[MAX_THREADS];
} StepJob;

static void step_job(void *argument, int thread, int threads) {
    StepJob *job = argument;
    const Step *s = job->step;
    const Decoder *m = s->model;
    Desk *desk = job->desks + thread;
    float *const logits[] = {s->logits};
    for (long i = 0; i < m->layers; i++) {
        attention_part(s, i, desk, thread, threads);
        feedforward_part(s, m->layer + i, desk, thread, threads);
    }
    if (m->final.scale) normalise_rows(s, m->final, desk);
    else memcpy(desk->normed, s->x, (size_t)s->batch * (size_t)m->dim * 4);
    if (m->head_factor != 1.0f)
        for (long i = 0; i < s->batch * m->dim; i++) desk->normed[i] *= m->head_factor;
    s->level->round_blocks(desk->narrow, 0, s->batch * (desk->narrow.columns / BLOCK));
    multiply_share(s->level, &m->head, 1, desk->narrow, s->batch, logits, 0, thread, threads);
}

/* One step: x [batch, dim] are the embedded tokens; 0 when done, 1 out of memory, 2 no such level. */
int headwise_step(const Decoder *model, const Cache *caches, long batch, float *x, const float *cosine,
                  const float *sine, long turn_stride, float *logits, int threads, int which) {
    const Level *level = level_of(which);
    if (!level) return 2;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    if (threads < 1) threads = 1;
    Step step = {.level = level, .model = model, .caches = caches, .batch = batch, .cosine = cosine, .sine = sine,
                 .turn_stride = turn_stride, .x = x, .logits = logits};
    StepJob job = {.step = &step};
    char *size = NULL;
    carve_step(&size, &step);
    for (int i = 0; i < threads; i++) carve_desk(&size, model, batch);
    pthread_mutex_lock(&pool.use);
    char *cursor = reserve((size_t)(uintptr_t)size);
    if (cursor) {
        carve_step(&cursor, &step);
        for (int i = 0; i < threads; i++) job.desks[i] = carve_desk(&cursor, model, batch);
        run_team(step_job, &job, threads);
    }
    pthread_mutex_unlock(&pool.use);
    return cursor ? 0 : 1;
}

#endif
