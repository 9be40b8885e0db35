/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn - what the engine decided, carried out.
 *
 * The engine calls back while it works, and must not be called then: what it decided is noted on lists, and done
 * when it has returned. Whoever holds the lock takes the turn: the worker, the carrier, or the vendor's thread
 * that reports the end of an iteration, which so starts the next one of its lane with nobody woken in between.
 */
#include "service/service.h"

#include "base/log.h"

static void trace(struct svc_server *server, const struct sal_record *r,
		  const struct sal_session *core, struct sal_iteration *it)
{
	const struct svc_session *s = core ? core->user : NULL;
	const struct svc_execution *x = it ? svc_execution_of(it) : NULL;
	struct sal_trace_span span = { x ? x->start_ns : 0, x ? x->end_ns : 0 };

	svc_trace_put(&server->trace, server->engine, r, core, s ? s->name : NULL, &span);
}

static void on_grant(struct svc_server *server, struct svc_execution *x, uint32_t lane)
{
	x->lane = lane;
	x->is_granted = true;
	x->session->promised_bytes += x->iteration.grow_bytes;
	TAILQ_INSERT_TAIL(&server->granted, x, granted);
}

static void on_refusal_of(struct svc_server *server, struct svc_execution *x,
			  const struct sal_record *r)
{
	x->refusal = *r;
	x->is_refused = true;
	TAILQ_INSERT_TAIL(&server->refused, x, granted);
}

/* About a session as a whole. */
static void on_session(struct svc_server *server, struct svc_session *s, const struct sal_record *r)
{
	switch (r->what) {
	case SAL_REFUSE:
		s->need_refused = true;
		s->refusal = *r;
		s->retry = true;
		break;
	case SAL_ADMIT:
		s->retry = true;
		break;
	case SAL_PAGE_OUT:
		svc_carrier_page_out(s);
		break;
	case SAL_PAGE_IN:
		svc_carrier_page_in(s);
		break;
	default: /* events, and moves: buffers follow when they are used */
		break;
	}
	if (s->held && s->retry)
		server->worker.look = true;
}

void svc_on_decision(void *ctx, const struct sal_record *r, struct sal_session *core,
		     struct sal_iteration *it)
{
	struct svc_server *server = ctx;

	trace(server, r, core, it);
	if (r->what == SAL_WAKE_AT) {
		server->worker.wake_ns = r->value;
		server->worker.look = true;
	} else if (r->what == SAL_EJECT) {
		sal_log_error("policy", "ejected: %s; fifo has taken over",
			      sal_reason_name(r->reason));
	} else if (it && r->what == SAL_GRANT) {
		on_grant(server, svc_execution_of(it), r->lane);
	} else if (it && r->what == SAL_REFUSE) {
		on_refusal_of(server, svc_execution_of(it), r);
	} else if (core) {
		on_session(server, core->user, r);
	}
}

/* Learn how long a program takes, for the engine's sake: this session's, and for those that come to have it. */
static void learn(uint64_t *mean_ns, uint64_t used_ns)
{
	*mean_ns = *mean_ns ? *mean_ns - *mean_ns / 8 + used_ns / 8 : used_ns;
}

static void account(struct svc_server *server, struct svc_execution *x)
{
	struct svc_session *s = x->session;
	uint64_t used_ns = x->end_ns > x->start_ns ? x->end_ns - x->start_ns : 1;

	if (--server->running == 0)
		svc_pause_begin(&server->worker.pause, x->end_ns);
	server->lanes[x->lane].iterations++;
	server->lanes[x->lane].busy_ns += used_ns;
	learn(&x->program->mean_ns, used_ns);
	learn(&x->program->shared->mean_ns, used_ns);
	TAILQ_REMOVE(&s->executions, x, link);
	svc_execution_release(x);
	svc_memory_settle(s); /* before the engine looks at the next one's needs */
	sal_engine_done(server->engine, svc_now_ns(), s->core, used_ns);
}

/* Executions that ended, oldest first. */
static struct svc_execution *take_done(struct svc_server *server)
{
	struct svc_execution *all =
		atomic_exchange_explicit(&server->done, NULL, memory_order_acquire);
	struct svc_execution *in_order = NULL;

	while (all) {
		struct svc_execution *next = all->next_done;

		all->next_done = in_order;
		in_order = all;
		all = next;
	}
	return in_order;
}

static bool start_granted(struct svc_server *server)
{
	struct svc_execution *x;
	bool any = false;

	while ((x = TAILQ_FIRST(&server->granted))) {
		TAILQ_REMOVE(&server->granted, x, granted);
		x->is_granted = false;
		if (svc_session_is_ahead(x->session))
			server->worker.look = true; /* it may be read from again */
		svc_execution_start(x);
		any = true;
	}
	while ((x = TAILQ_FIRST(&server->refused))) {
		TAILQ_REMOVE(&server->refused, x, granted);
		svc_execution_refuse(x);
		any = true;
	}
	return any;
}

/* That it ended, then what it gave; the client is woken once, and finds both. Not twice. */
static void tell(struct svc_execution *x)
{
	struct svc_outbox *box = &x->session->outbox;

	if (x->is_told && STAILQ_EMPTY(&x->readers))
		return;
	svc_outbox_begin(box);
	svc_execution_tell(x);
	svc_execution_serve(x);
	svc_outbox_end(box);
}

static bool takes_over(const struct svc_execution *x, const struct svc_buffer *b)
{
	size_t i;

	for (i = 0; i < x->donated_count; i++)
		if (x->args[x->donated[i]] == b)
			return true;
	return false;
}

/* Somebody reads an output of it that is about to be taken over. */
static bool is_read_for_the_last_time(const struct svc_server *server,
				      const struct svc_execution *ended)
{
	const struct svc_waiter *w;
	const struct svc_execution *x;

	STAILQ_FOREACH(w, &ended->readers, link)
		TAILQ_FOREACH(x, &server->granted, granted)
			if (takes_over(x, w->reads))
				return true;
	return false;
}

bool svc_turn(struct svc_server *server)
{
	bool any = false, again = true;

	while (again) {
		struct svc_execution *ended = take_done(server), *x;
		bool is_urgent = server->queued > 0; /* for the device, or else for the clients */

		for (x = ended; x && !is_urgent; x = x->next_done)
			tell(x);
		for (x = ended; x; x = x->next_done)
			account(server, x);
		for (x = ended; x; x = x->next_done)
			if (is_read_for_the_last_time(server, x))
				tell(x);
		again = start_granted(server) || ended;
		while ((x = ended)) { /* the device has work again: time to tell clients */
			ended = x->next_done;
			tell(x);
			svc_execution_free(x);
		}
		any |= again;
	}
	return any;
}

static void push_done(struct svc_server *server, struct svc_execution *x)
{
	struct svc_execution *first = atomic_load_explicit(&server->done, memory_order_relaxed);

	do
		x->next_done = first;
	while (!atomic_compare_exchange_weak_explicit(&server->done, &first, x,
						      memory_order_release, memory_order_relaxed));
}

void svc_turn_done(struct svc_execution *x)
{
	struct svc_server *server = x->session->server;
	bool wake = true;

	(void)atomic_fetch_add(&server->reporters, 1);
	if (pthread_mutex_trylock(&server->lock) == 0) {
		push_done(server, x);
		(void)svc_turn(server); /* x is gone */
		wake = svc_worker_foresee(server) || server->worker.look;
		(void)pthread_mutex_unlock(&server->lock);
	} else {
		/* Who launches it holds the lock, and tells its client after those that ended before. */
		if (!atomic_load(&x->launching))
			svc_execution_tell(x);
		push_done(server, x);
	}
	if (wake)
		svc_worker_wake(server);
	(void)atomic_fetch_sub(&server->reporters, 1);
}
