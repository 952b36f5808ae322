/* Attention of the tokens that are being read: keys first, then tiles of queries, each by one thread. */
#ifndef HEADWISE_READ_H
#define HEADWISE_READ_H

static long tokens_of_tile(const Decoder *m) {
    long sharing = (long)(m->heads / m->key_heads);
    return sharing < TILE_QUERIES ? TILE_QUERIES / sharing : 1;
}

static Tile carve_tile(char **cursor, const Decoder *m) {
    size_t queries = (size_t)(tokens_of_tile(m) * (m->heads / m->key_heads) + FOUR), dim = (size_t)m->head_dim;
    Tile tile;
    tile.query = carve(cursor, queries * dim * 4);
    tile.out = carve(cursor, queries * dim * 4);
    tile.columns = carve(cursor, dim * CHUNK * 4);
    tile.greatest = carve(cursor, queries * 4);
    tile.total = carve(cursor, queries * 4);
    tile.first = carve(cursor, queries * sizeof(long));
    tile.end = carve(cursor, queries * sizeof(long));
    return tile;
}

static long place_in_cache(const Step *s, const Cache *cache, long key_head) {
    return (s->reading->row * (long)s->model->key_heads + key_head) * (long)cache->capacity * (long)s->model->head_dim;
}

/* Keys, turned, and values of this thread's tokens go to the cache; filling becomes zeros, which spoil no sum. */
static void keep_share(const Step *s, long index, int thread, int threads) {
    const Decoder *m = s->model;
    const Cache *cache = s->caches + index;
    long dim = (long)m->head_dim, heads = (long)m->key_heads, first, end;
    for (long head = thread; s->reading->done == 0 && head < heads; head += threads) {
        memset(cache->keys + place_in_cache(s, cache, head), 0, (size_t)(s->reading->filling * dim) * 4);
        memset(cache->values + place_in_cache(s, cache, head), 0, (size_t)(s->reading->filling * dim) * 4);
    }
    share(s->batch, thread, threads, &first, &end);
    for (long token = first; token < end; token++)
        for (long head = 0; head < heads; head++) {
            long from = (token * heads + head) * dim;
            long to = place_in_cache(s, cache, head) + (s->reading->filling + s->reading->done + token) * dim;
            turn_head(s, m->layer[index].key, token, s->key + from, cache->keys + to);
            memcpy(cache->values + to, s->value + from, (size_t)dim * 4);
        }
}

/* Turned queries of `tokens` tokens from `token` on, with nothing seen yet; filled up to whole fours. */
static long lay_queries(const Step *s, const Layer *layer, Tile *tile, long key_head, long token, long tokens) {
    long dim = (long)s->model->head_dim, heads = (long)s->model->heads, sharing = heads / (long)s->model->key_heads;
    long count = tokens * sharing, filled = (count + FOUR - 1) / FOUR * FOUR;
    for (long q = 0; q < count; q++)
        turn_head(s, layer->query, token + q / sharing,
                  s->query + ((token + q / sharing) * heads + key_head * sharing + q % sharing) * dim,
                  tile->query + q * dim);
    memset(tile->query + count * dim, 0, (size_t)((filled - count) * dim) * 4);
    memset(tile->out, 0, (size_t)(filled * dim) * 4);
    for (long q = 0; q < filled; q++) {
        tile->greatest[q] = -INFINITY;
        tile->total[q] = 0.0f;
    }
    return filled;
}

/* Which keys of a chunk each query sees: those before it, itself among them, within the window. */
static void lay_ranges(const Step *s, const Layer *layer, Tile *tile, long queries, long token, long chunk_start) {
    long sharing = (long)(s->model->heads / s->model->key_heads), filling = s->reading->filling;
    for (long q = 0; q < queries; q++) {
        long own = filling + s->reading->done + token + q / sharing;
        long first = layer->window && own - layer->window + 1 > filling ? own - layer->window + 1 : filling;
        tile->first[q] = first - chunk_start;
        tile->end[q] = own + 1 - chunk_start;
    }
}

static void look_tile(const Step *s, long index, Tile *tile, long key_head, long token, long tokens, float *joined) {
    const Decoder *m = s->model;
    const Layer *layer = m->layer + index;
    const Cache *cache = s->caches + index;
    long dim = (long)m->head_dim, heads = (long)m->heads, sharing = heads / (long)m->key_heads;
    long place = place_in_cache(s, cache, key_head), filling = s->reading->filling;
    long begin = filling + s->reading->done + token, stop = begin + tokens;
    long start = layer->window && begin - layer->window + 1 > filling ? begin - layer->window + 1 : filling;
    Look look = {tile->query, tile->columns, NULL, tile->first, tile->end, 0, 0, dim, layer->score_scale,
                 tile->greatest, tile->total, tile->out};
    look.queries = lay_queries(s, layer, tile, key_head, token, tokens);
    for (; start < stop; start += CHUNK) {
        const float *keys = cache->keys + place + start * dim;
        look.count = stop - start < CHUNK ? stop - start : CHUNK;
        look.value = cache->values + place + start * dim;
        for (long k = 0; k < look.count; k++)
            for (long d = 0; d < dim; d++) tile->columns[d * CHUNK + k] = keys[k * dim + d];
        lay_ranges(s, layer, tile, look.queries, token, start);
        s->level->look(&look);
    }
    for (long q = 0; q < tokens * sharing; q++) {
        float *to = joined + ((token + q / sharing) * heads + key_head * sharing + q % sharing) * dim;
        float factor = tile->total[q] == 0.0f ? 0.0f : 1.0f / tile->total[q];
        for (long i = 0; i < dim; i++) to[i] = tile->out[q * dim + i] * factor;
    }
}

/* Tiles are dealt out in turn, because later ones see more. */
static void look_share(const Step *s, long index, float *joined, int thread, int threads) {
    long size = tokens_of_tile(s->model), heads = (long)s->model->key_heads;
    long tiles = (s->batch + size - 1) / size;
    for (long item = thread; item < tiles * heads; item += threads) {
        long token = item / heads * size, tokens = s->batch - token < size ? s->batch - token : size;
        look_tile(s, index, s->reading->tiles + thread, item % heads, token, tokens, joined);
    }
}

#endif
