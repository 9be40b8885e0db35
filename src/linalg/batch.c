/* SPDX-License-Identifier: Apache-2.0 */
#include "linalg/batch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define ALIGN 64
/* Chunks for each thread: a thread that begins late still finds some. */
#define CHUNKS_EACH 4
/* Operations below which a chunk takes less time than waking a thread. */
#define CHUNK_COST_MIN 200000.0
/*
 * Operations below which problems are not worth a second thread, however many there are: OpenBLAS
 * takes one lock in each call, and threads with such short calls do little but wait for it.
 */
#define PROBLEM_COST_MIN 16384.0
/* How often the caller looks for the end of the others' chunks before it sleeps: some 20 us. */
#define SPINS 1000

/* What the threads share. The last of them frees it. */
struct share {
	struct linalg_batch batch; /* its ctx is valid as long as problems are left */
	int64_t chunk; /* problems in one */
	_Atomic int64_t next; /* the first problem that nobody has taken */
	_Atomic int64_t left; /* problems that are not solved yet */
	_Atomic uint32_t users;
	pthread_mutex_t lock;
	pthread_cond_t solved; /* left is 0 */
};

static int64_t chunks_of(const struct linalg_batch *b, uint32_t workers)
{
	double worth = (double)b->count * b->cost / CHUNK_COST_MIN;
	int64_t most = (int64_t)CHUNKS_EACH * workers;

	if (most > b->count)
		most = b->count;
	return worth < (double)most ? (int64_t)worth : most;
}

uint32_t sal_linalg_workers(const struct linalg_batch *b, const struct linalg_helpers *helpers)
{
	uint32_t workers = helpers && helpers->count < UINT32_MAX ? helpers->count + 1 : 1;
	int64_t chunks = chunks_of(b, workers);

	if (b->cost < PROBLEM_COST_MIN)
		return 1;
	if (chunks < (int64_t)workers)
		workers = chunks > 1 ? (uint32_t)chunks : 1;
	return workers;
}

static void *make_scratch(const struct linalg_batch *b)
{
	void *scratch = NULL;

	return posix_memalign(&scratch, ALIGN, b->scratch_bytes > 0 ? b->scratch_bytes : ALIGN) == 0
		       ? scratch
		       : NULL;
}

static struct share *make_share(const struct linalg_batch *b, int64_t chunks)
{
	struct share *s = malloc(sizeof(*s));

	if (!s)
		return NULL;
	s->batch = *b;
	s->chunk = chunks > 1 ? (b->count + chunks - 1) / chunks : b->count;
	atomic_init(&s->next, 0);
	atomic_init(&s->left, b->count);
	atomic_init(&s->users, 1);
	(void)pthread_mutex_init(&s->lock, NULL);
	(void)pthread_cond_init(&s->solved, NULL);
	return s;
}

static void drop_share(struct share *s)
{
	if (atomic_fetch_sub(&s->users, 1) != 1)
		return;
	(void)pthread_cond_destroy(&s->solved);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
}

/* Solves chunks until all are taken. Returns true if the last problem was among them. */
static bool solve_chunks(struct share *s, void *scratch)
{
	bool is_last = false;
	int64_t first, end;

	while ((first = atomic_fetch_add(&s->next, s->chunk)) < s->batch.count) {
		end = s->batch.count - first > s->chunk ? first + s->chunk : s->batch.count;
		s->batch.solve(s->batch.ctx, scratch, first, end);
		is_last = atomic_fetch_sub(&s->left, end - first) == end - first;
	}
	return is_last;
}

/* Without memory, a helper leaves the work to the others. */
static void help(void *data)
{
	struct share *s = data;
	void *scratch = atomic_load(&s->next) < s->batch.count ? make_scratch(&s->batch) : NULL;

	if (scratch && solve_chunks(s, scratch)) {
		(void)pthread_mutex_lock(&s->lock);
		(void)pthread_cond_signal(&s->solved);
		(void)pthread_mutex_unlock(&s->lock);
	}
	free(scratch);
	drop_share(s);
}

/* A helper's chunk is short: looking for its end costs less than to sleep and to be woken. */
static void wait_until_solved(struct share *s)
{
	for (int i = 0; i < SPINS && atomic_load(&s->left) > 0; i++)
#if defined(__x86_64__)
		__builtin_ia32_pause();
#else
		continue;
#endif
	if (atomic_load(&s->left) == 0)
		return;
	(void)pthread_mutex_lock(&s->lock);
	while (atomic_load(&s->left) > 0)
		(void)pthread_cond_wait(&s->solved, &s->lock);
	(void)pthread_mutex_unlock(&s->lock);
}

static void solve_shared(struct share *s, const struct linalg_helpers *helpers, uint32_t workers,
			 void *scratch)
{
	for (uint32_t i = 1; i < workers; i++) {
		(void)atomic_fetch_add(&s->users, 1);
		if (!helpers->start(helpers->ctx, help, s)) {
			drop_share(s); /* not the last: the caller uses it, too */
			break;
		}
	}
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the caller's use of s lasts */
	if (!solve_chunks(s, scratch))
		wait_until_solved(s);
}

int sal_linalg_solve(const struct linalg_batch *b, const struct linalg_helpers *helpers,
		     uint32_t workers, struct sal_err *err)
{
	void *scratch = make_scratch(b);
	struct share *s;

	if (!scratch)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED,
				   "no memory for the workspace of a linear algebra routine");
	s = workers > 1 ? make_share(b, chunks_of(b, workers)) : NULL;
	if (s) {
		solve_shared(s, helpers, workers, scratch);
		drop_share(s);
	} else {
		b->solve(b->ctx, scratch, 0, b->count);
	}
	free(scratch);
	return SAL_OK;
}
