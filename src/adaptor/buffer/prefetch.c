/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/buffer/prefetch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "adaptor/buffer/buffer.h"
#include "adaptor/client/client.h"
#include "adaptor/daemon/rings.h"
#include "adaptor/error.h"
#include "adaptor/promise.h"
#include "wire/messages.h"

/* Most bytes of a result that is prefetched. */
#define SMALL_MAX 1024
/* After a read, the output is prefetched in so many iterations. */
#define CREDIT 8

struct adp_habit {
	_Atomic int refs; /* the program's, and its outputs' */
	_Atomic uint8_t credit[]; /* of each output */
};

struct adp_prefetch {
	_Atomic int refs; /* the buffer's, the request's, the waiters' */
	struct adp_promise *promise; /* owned; fulfilled when the bytes have arrived */
	uint64_t request; /* 0: the record is sent */
	size_t size;
	unsigned char bytes[];
};

/* Waits for the bytes. */
struct waiter {
	struct adp_prefetch *from; /* owned reference */
	adp_answer_fn *fn;
	void *ctx;
};

static bool is_small(uint64_t bytes)
{
	return bytes <= SMALL_MAX;
}

static bool is_large(uint64_t bytes)
{
	return bytes >= SAL_EXPOSE_MIN;
}

static uint64_t bytes_of(const struct sal_output_facts *o)
{
	return adp_host_bytes((PJRT_Buffer_Type)o->type, o->dims, o->rank);
}

struct adp_habit *adp_habit_create(const struct sal_program_facts *facts)
{
	struct adp_habit *habit;
	size_t i, count = 0;

	for (i = 0; i < facts->output_count; i++)
		count += is_small(bytes_of(&facts->outputs[i])) ||
			 is_large(bytes_of(&facts->outputs[i]));
	if (count == 0)
		return NULL;
	habit = calloc(1, sizeof(*habit) + facts->output_count);
	if (habit)
		atomic_init(&habit->refs, 1);
	return habit;
}

void adp_habit_unref(struct adp_habit *habit)
{
	if (habit && atomic_fetch_sub_explicit(&habit->refs, 1, memory_order_acq_rel) == 1)
		free(habit);
}

static void prefetch_unref(struct adp_prefetch *f, int refs)
{
	if (atomic_fetch_sub_explicit(&f->refs, refs, memory_order_acq_rel) > refs)
		return;
	adp_promise_unref(f->promise);
	free(f);
}

static void on_prefetched(void *ctx, const struct adp_answer *answer)
{
	struct adp_prefetch *f = ctx;

	if (answer->code == 0 && answer->tail_size < f->size) {
		adp_promise_fulfil(f->promise, SAL_DATA_LOSS, "salus: salusd sent too few bytes");
	} else {
		if (answer->code == 0)
			memcpy(f->bytes, answer->tail, f->size);
		adp_promise_fulfil(f->promise, answer->code, answer->text);
	}
	prefetch_unref(f, 1);
}

static struct adp_prefetch *prefetch_create(struct adp_conn *conn, size_t size)
{
	struct adp_prefetch *f = malloc(sizeof(*f) + size);

	if (!f)
		return NULL;
	f->size = size;
	atomic_init(&f->refs, 2);
	f->promise = adp_promise_create(conn);
	f->request = f->promise ? adp_request(conn, on_prefetched, f) : 0;
	if (f->request == 0) {
		adp_promise_unref(f->promise);
		free(f);
		return NULL;
	}
	return f;
}

/* Takes one credit; false if there is none. */
static bool spend(_Atomic uint8_t *credit)
{
	uint8_t have = atomic_load_explicit(credit, memory_order_relaxed);

	while (have > 0)
		if (atomic_compare_exchange_weak_explicit(credit, &have, (uint8_t)(have - 1),
							  memory_order_relaxed,
							  memory_order_relaxed))
			return true;
	return false;
}

bool adp_prefetch_plan(PJRT_Buffer *b, struct adp_habit *habit, size_t index)
{
	uint64_t size = adp_host_bytes(b->type, b->dims, b->rank);

	if (!habit || (!is_small(size) && !is_large(size)))
		return false;
	(void)atomic_fetch_add_explicit(&habit->refs, 1, memory_order_relaxed);
	b->habit = habit;
	b->output = index;
	if (spend(&habit->credit[index]))
		b->prefetch = prefetch_create(b->client->conn,
					      is_small(size) ? (size_t)size
							     : sizeof(struct sal_exposed_place));
	return b->prefetch != NULL;
}

/* False: the daemon is gone, and the request is answered already. */
static bool reserve_download(const PJRT_Buffer *b, const struct adp_prefetch *f)
{
	struct sal_msg_download *m = adp_reserve(b->client->conn, SAL_MSG_DOWNLOAD, sizeof(*m));

	if (!m)
		return false;
	m->request = f->request;
	m->id = b->id;
	m->size = f->size;
	return true;
}

static bool reserve_expose(const PJRT_Buffer *b, const struct adp_prefetch *f)
{
	struct sal_msg_expose *m = adp_reserve(b->client->conn, SAL_MSG_EXPOSE, sizeof(*m));

	if (!m)
		return false;
	m->request = f->request;
	m->id = b->id;
	return true;
}

void adp_prefetch_send(PJRT_Buffer *b, bool last)
{
	struct adp_prefetch *f = b->prefetch;

	if (!(is_large(b->bytes) ? reserve_expose : reserve_download)(b, f))
		return;
	f->request = 0;
	adp_send(b->client->conn, last);
}

static void on_arrived(PJRT_Error *error, void *arg)
{
	struct waiter *w = arg;
	struct adp_answer answer = { .tail = w->from->bytes, .tail_size = w->from->size };

	adp_error_read(error, &answer.code, &answer.text);
	w->fn(w->ctx, &answer);
	adp_Error_Destroy(&(PJRT_Error_Destroy_Args){ .error = error });
	prefetch_unref(w->from, 1);
	free(w);
}

void adp_prefetch_learn(PJRT_Buffer *b)
{
	if (b->habit)
		atomic_store_explicit(&b->habit->credit[b->output], CREDIT, memory_order_relaxed);
}

static bool take(const PJRT_Buffer *b, adp_answer_fn *fn, void *ctx)
{
	struct adp_prefetch *f = b->prefetch;
	struct waiter *w;

	w = f ? malloc(sizeof(*w)) : NULL;
	if (!w)
		return false;
	*w = (struct waiter){ f, fn, ctx };
	(void)atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
	if (adp_promise_then(f->promise, on_arrived, w))
		return true;
	prefetch_unref(f, 1);
	free(w);
	return false;
}

bool adp_prefetch_take(PJRT_Buffer *b, adp_answer_fn *fn, void *ctx)
{
	if (is_large(b->bytes))
		return false; /* what is prefetched is no bytes */
	adp_prefetch_learn(b);
	return take(b, fn, ctx);
}

bool adp_prefetch_take_place(PJRT_Buffer *b, adp_answer_fn *fn, void *ctx)
{
	return is_large(b->bytes) && take(b, fn, ctx);
}

void adp_prefetch_drop(PJRT_Buffer *b)
{
	struct adp_prefetch *f = b->prefetch;
	bool is_ours;

	adp_habit_unref(b->habit);
	if (!f)
		return;
	/* A request that was never sent gets no answer: drop its reference, too. */
	is_ours = f->request && adp_request_drop(b->client->conn, f->request);
	prefetch_unref(f, is_ours ? 2 : 1);
}
