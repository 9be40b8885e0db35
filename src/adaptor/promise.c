/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/promise.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "adaptor/buffer/buffer.h"
#include "adaptor/daemon/conn.h"
#include "adaptor/daemon/rings.h"
#include "adaptor/error.h"
#include "base/sys/clock.h"

struct callback {
	PJRT_Event_OnReadyCallback call;
	void *arg;
	struct callback *next;
};

struct adp_promise {
	_Atomic int refs;
	_Atomic bool fulfilled;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct adp_conn *conn; /* owned reference, or NULL */
	uint64_t number; /* its answer comes about when this one does: see daemon/pace.h */
	bool is_wanted; /* somebody has asked for it: the connection counts that; under the lock */
	int code;
	char *message; /* owned; NULL: none */
	_Atomic int waiter; /* enum adp_waiter: of waited_from_ns */
	_Atomic uint64_t waited_from_ns; /* when a waiter began to poll in vain; 0: nobody waits */
	struct callback *first, **last;
	LIST_HEAD(, PJRT_Buffer) buffers; /* borrowed: bound to it; unused once it is fulfilled */
};

struct adp_promise *adp_promise_create(struct adp_conn *conn)
{
	struct adp_promise *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	atomic_init(&p->refs, 1);
	(void)pthread_mutex_init(&p->lock, NULL);
	(void)pthread_cond_init(&p->changed, NULL);
	p->conn = conn ? adp_conn_ref(conn) : NULL;
	p->last = &p->first;
	LIST_INIT(&p->buffers);
	return p;
}

void adp_promise_in_turn(struct adp_promise *p)
{
	if (p->conn)
		p->number = adp_conn_asked(p->conn) + 1;
}

void adp_promise_with(struct adp_promise *p, const struct adp_promise *other)
{
	if (!atomic_load_explicit(&other->fulfilled, memory_order_acquire))
		p->number = other->number;
}

struct adp_promise *adp_promise_ref(struct adp_promise *p)
{
	(void)atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
	return p;
}

void adp_promise_unref(struct adp_promise *p)
{
	if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) > 1)
		return;
	if (p->is_wanted && !adp_promise_is_fulfilled(p))
		adp_conn_unwant(p->conn, p->number);
	while (p->first) { /* nobody can fulfil it any more */
		struct callback *c = p->first;

		p->first = c->next;
		free(c);
	}
	(void)pthread_cond_destroy(&p->changed);
	(void)pthread_mutex_destroy(&p->lock);
	free(p->message);
	if (p->conn)
		adp_conn_unref(p->conn);
	free(p);
}

/* In a forked child nobody fulfils an open promise: it counts as fulfilled with UNAVAILABLE. */
static bool is_broken(const struct adp_promise *p)
{
	return p->conn && adp_conn_is_forked(p->conn) &&
	       !atomic_load_explicit(&p->fulfilled, memory_order_acquire);
}

PJRT_Error *adp_promise_error(struct adp_promise *p)
{
	if (is_broken(p))
		return adp_unavailable(p->conn);
	return adp_error(p->code, "%s", p->message ? p->message : sal_code_name(p->code));
}

void adp_promise_bind(struct adp_promise *p, PJRT_Buffer *buffer)
{
	(void)pthread_mutex_lock(&p->lock);
	LIST_INSERT_HEAD(&p->buffers, buffer, bound);
	(void)pthread_mutex_unlock(&p->lock);
}

void adp_promise_unbind(struct adp_promise *p, PJRT_Buffer *buffer)
{
	if (adp_promise_is_fulfilled(p)) /* nobody reads the list any more */
		return;
	(void)pthread_mutex_lock(&p->lock);
	if (!adp_promise_is_fulfilled(p))
		LIST_REMOVE(buffer, bound);
	(void)pthread_mutex_unlock(&p->lock);
}

/* The lock is held: no buffer can be freed meanwhile. */
static void fail_buffers(struct adp_promise *p)
{
	PJRT_Buffer *b;

	LIST_FOREACH(b, &p->buffers, bound)
		adp_buffer_fail(b);
}

void adp_promise_fulfil(struct adp_promise *p, int code, const char *message)
{
	struct callback *c;
	uint64_t from_ns;
	bool is_wanted;

	(void)pthread_mutex_lock(&p->lock);
	if (atomic_load_explicit(&p->fulfilled, memory_order_relaxed)) {
		(void)pthread_mutex_unlock(&p->lock);
		return;
	}
	p->code = code;
	p->message = code && message ? strdup(message) : NULL;
	if (code)
		fail_buffers(p);
	atomic_store_explicit(&p->fulfilled, true, memory_order_release);
	from_ns = atomic_load_explicit(&p->waited_from_ns, memory_order_relaxed);
	is_wanted = p->is_wanted;
	c = p->first;
	p->first = NULL;
	p->last = &p->first;
	(void)pthread_cond_broadcast(&p->changed);
	(void)pthread_mutex_unlock(&p->lock);
	if (is_wanted)
		adp_conn_unwant(p->conn, p->number);
	if (from_ns && p->conn)
		adp_conn_learn_wait(p->conn, (enum adp_waiter)atomic_load(&p->waiter),
				    sal_now_ns() - from_ns);
	while (c) {
		struct callback *next = c->next;

		c->call(adp_promise_error(p), c->arg);
		free(c);
		c = next;
	}
}

bool adp_promise_is_fulfilled(struct adp_promise *p)
{
	return atomic_load_explicit(&p->fulfilled, memory_order_acquire) || is_broken(p);
}

/* Once, until it is fulfilled. */
static void want(struct adp_promise *p)
{
	bool is_first;

	(void)pthread_mutex_lock(&p->lock);
	is_first = !p->is_wanted && !adp_promise_is_fulfilled(p);
	p->is_wanted |= is_first;
	(void)pthread_mutex_unlock(&p->lock);
	if (is_first)
		adp_conn_want(p->conn, p->number);
}

void adp_promise_poll(struct adp_promise *p)
{
	enum adp_waiter waiter;
	uint64_t from_ns;

	if (!p->conn || adp_promise_is_fulfilled(p))
		return;
	from_ns = sal_now_ns();
	waiter = adp_conn_waiter(p->conn);
	atomic_store(&p->waiter, (int)waiter);
	adp_conn_poll_for(p->conn, waiter, &p->fulfilled);
	if (adp_promise_is_fulfilled(p))
		return;
	atomic_store_explicit(&p->waited_from_ns, from_ns, memory_order_relaxed);
	want(p);
}

int adp_promise_wait(struct adp_promise *p)
{
	adp_promise_poll(p);
	if (is_broken(p))
		return SAL_UNAVAILABLE;
	(void)pthread_mutex_lock(&p->lock);
	while (!adp_promise_is_fulfilled(p))
		(void)pthread_cond_wait(&p->changed, &p->lock);
	(void)pthread_mutex_unlock(&p->lock);
	return p->code;
}

/* False if it is fulfilled meanwhile. */
static bool add_callback(struct adp_promise *p, struct callback *c)
{
	bool open;

	(void)pthread_mutex_lock(&p->lock);
	open = !adp_promise_is_fulfilled(p);
	if (open) {
		*p->last = c;
		p->last = &c->next;
	}
	(void)pthread_mutex_unlock(&p->lock);
	return open;
}

bool adp_promise_then(struct adp_promise *p, PJRT_Event_OnReadyCallback call, void *arg)
{
	struct callback *c = NULL;

	if (!adp_promise_is_fulfilled(p)) {
		c = malloc(sizeof(*c));
		if (!c)
			return false;
		*c = (struct callback){ call, arg, NULL };
	}
	if (!c || !add_callback(p, c)) {
		free(c);
		call(adp_promise_error(p), arg);
	}
	return true;
}
