/* A team of threads that lives between calls: workers spin briefly for the next job, then sleep. */
#ifndef HEADWISE_POOL_H
#define HEADWISE_POOL_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#define MAX_THREADS 64
#define IDLE_SPINS 2000    /* some tens of microseconds: longer would fight torch's own threads for the core */
#define BARRIER_SPINS 4000 /* then yield: another process may hold the core our partner needs */

#if defined(__x86_64__) || defined(__i386__)
#define RELAX() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define RELAX() __asm__ __volatile__("yield")
#else
#define RELAX() ((void)0)
#endif

typedef void (*Job)(void *argument, int thread, int threads);

static struct {
    pthread_mutex_t use;  /* one caller at a time */
    pthread_mutex_t lock; /* guards sleeping workers */
    pthread_cond_t wake;
    atomic_uint ticket;
    atomic_int sleeping, finished;
    atomic_uint arrived, phase; /* the barrier */
    Job job;
    void *argument;
    int threads, workers;
} pool = {.use = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

/* All threads of the running job meet here. */
static void barrier(int threads) {
    if (threads == 1) return;
    unsigned phase = atomic_load_explicit(&pool.phase, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&pool.arrived, 1, memory_order_acq_rel) == (unsigned)threads - 1) {
        atomic_store_explicit(&pool.arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&pool.phase, phase + 1, memory_order_release);
        return;
    }
    for (int spins = 0; atomic_load_explicit(&pool.phase, memory_order_acquire) == phase; spins++) {
        if (spins < BARRIER_SPINS) RELAX();
        else sched_yield();
    }
}

static unsigned next_ticket(unsigned seen) {
    for (int spins = 0; spins < IDLE_SPINS; spins++) {
        if (atomic_load(&pool.ticket) != seen) return atomic_load(&pool.ticket);
        RELAX();
    }
    pthread_mutex_lock(&pool.lock);
    atomic_fetch_add(&pool.sleeping, 1);
    while (atomic_load(&pool.ticket) == seen) pthread_cond_wait(&pool.wake, &pool.lock);
    atomic_fetch_sub(&pool.sleeping, 1);
    pthread_mutex_unlock(&pool.lock);
    return atomic_load(&pool.ticket);
}

/* `start` packs the worker's index with the ticket it was born under, so that it runs the job it was born for. */
typedef struct {
    int index;
    unsigned seen;
} Birth;

static Birth births[MAX_THREADS];

static void *worker(void *start) {
    Birth *birth = start;
    unsigned seen = birth->seen;
    for (;;) {
        seen = next_ticket(seen);
        if (birth->index < pool.threads) pool.job(pool.argument, birth->index, pool.threads);
        atomic_fetch_add(&pool.finished, 1);
    }
    return NULL;
}

/* After a fork the child has no workers: it starts afresh. */
static void forget_workers(void) {
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t still = PTHREAD_COND_INITIALIZER;
    pool.use = pool.lock = fresh;
    pool.wake = still;
    pool.workers = 0;
    atomic_store(&pool.sleeping, 0);
    atomic_store(&pool.arrived, 0);
}

static void add_workers(int wanted) {
    static int watching = 0;
    if (!watching) watching = pthread_atfork(NULL, NULL, forget_workers) == 0;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals belong to Python's main thread */
    while (pool.workers < wanted) {
        pthread_t thread;
        Birth *birth = &births[pool.workers + 1];
        *birth = (Birth){pool.workers + 1, atomic_load(&pool.ticket)};
        if (pthread_create(&thread, NULL, worker, birth) != 0) break;
        pthread_detach(thread);
        pool.workers++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Runs job on `threads` threads, the caller being the first; the caller must hold pool.use. */
static void run_team(Job job, void *argument, int threads) {
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    if (threads - 1 > pool.workers) add_workers(threads - 1);
    if (threads - 1 > pool.workers) threads = pool.workers + 1;
    if (threads <= 1) {
        job(argument, 0, 1);
        return;
    }
    pool.job = job;
    pool.argument = argument;
    pool.threads = threads;
    atomic_store(&pool.finished, 0);
    atomic_fetch_add(&pool.ticket, 1);
    if (atomic_load(&pool.sleeping) > 0) {
        pthread_mutex_lock(&pool.lock);
        pthread_cond_broadcast(&pool.wake);
        pthread_mutex_unlock(&pool.lock);
    }
    job(argument, 0, threads);
    for (int spins = 0; atomic_load(&pool.finished) < pool.workers; spins++) {
        if (spins < BARRIER_SPINS) RELAX();
        else sched_yield();
    }
}

/* The part of `count` that belongs to a thread: consecutive items, so memory is read in order. */
static inline void share(long count, int thread, int threads, long *first, long *end) {
    *first = count * thread / threads;
    *end = count * (thread + 1) / threads;
}

#endif
