/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/daemon/rings.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "adaptor/daemon/conn.h"
#include "adaptor/daemon/conn_state.h"
#include "base/sys/clock.h"
#include "base/sys/thread.h"
#include "link/socket.h"

/* Polling pays if answers come within the maximum. */
#define POLL_MAX_NS UINT64_C(200000)
#define POLL_MIN_NS UINT64_C(20000)

/* The reader notices within this time that the socket has hung up. */
#define END_NS UINT64_C(1000000000)

/* While answers are owed, the reader naps; so the daemon need not ring for each of them. */
#define NAP_NS 50000

static void nap(void)
{
	struct timespec t = { .tv_nsec = NAP_NS };

	(void)nanosleep(&t, NULL);
}

/* The descriptor stays open: the reader sees the hang-up and ends the connection. */
static void hang_up(int fd)
{
	(void)shutdown(fd, SHUT_RDWR);
}

uint64_t adp_request(struct adp_conn *conn, adp_answer_fn *fn, void *ctx)
{
	return adp_conn_is_dead(conn) ? 0 : adp_requests_add(&conn->requests, fn, ctx);
}

bool adp_request_drop(struct adp_conn *conn, uint64_t number)
{
	return adp_requests_drop(&conn->requests, number);
}

uint64_t adp_next_id(struct adp_conn *conn, uint32_t count)
{
	return atomic_fetch_add_explicit(&conn->next_id, count, memory_order_relaxed);
}

void *adp_reserve(struct adp_conn *conn, uint16_t type, uint32_t size)
{
	struct sal_header *header = NULL;

	if (adp_conn_is_dead(conn)) /* in a forked child the lock may be locked for ever */
		return NULL;
	(void)pthread_mutex_lock(&conn->submit_lock);
	while (!adp_conn_is_dead(conn)) {
		header = sal_ring_reserve(&conn->submit, size);
		if (header)
			break;
		sal_doorbell_ring(conn->daemon_bell);
		nap(); /* the ring is full; the daemon never waits for a client */
	}
	if (!header) {
		(void)pthread_mutex_unlock(&conn->submit_lock);
		return NULL;
	}
	memset(header, 0, size);
	header->size = size;
	header->type = type;
	return header;
}

int32_t adp_conn_owed(struct adp_conn *conn)
{
	return atomic_load_explicit(&conn->requests.owed, memory_order_relaxed);
}

void adp_conn_await_fewer(struct adp_conn *conn, int32_t most)
{
	while (adp_conn_owed(conn) > most && !adp_conn_is_dead(conn) &&
	       atomic_load_explicit(&conn->taker, memory_order_relaxed) != pthread_self())
		nap();
}

bool adp_conn_await_end(struct adp_conn *conn)
{
	uint64_t until_ns = sal_now_ns() + END_NS;

	while (!adp_conn_is_dead(conn) && sal_now_ns() < until_ns &&
	       atomic_load_explicit(&conn->taker, memory_order_relaxed) != pthread_self())
		nap();
	return adp_conn_is_dead(conn);
}

void adp_send(struct adp_conn *conn, bool urgent)
{
	if (sal_ring_publish(&conn->submit, urgent))
		sal_doorbell_ring(conn->daemon_bell);
	(void)pthread_mutex_unlock(&conn->submit_lock);
}

/* A sentence from the record, which need not end in NUL. */
static char *copy_text(const void *text, size_t size)
{
	return strndup(text, size);
}

/* A code that we do not know becomes SAL_UNKNOWN. */
static int known_code(int32_t code)
{
	return code >= SAL_OK && code <= SAL_UNAUTHENTICATED ? code : SAL_UNKNOWN;
}

/* An unasked message of the daemon: why the session ends, or a line for the job's user. */
static void take_notice(struct adp_conn *conn, int code, const char *text)
{
	if (code)
		(void)snprintf(conn->reason, sizeof(conn->reason), "%s", text);
	else if (!conn->quiet)
		(void)fprintf(stderr, "%s\n", text);
}

static void take_done(struct adp_conn *conn, const struct sal_msg_done *m)
{
	struct adp_answer a = { .code = known_code(m->code),
				.is_refused = m->header.type == SAL_MSG_REFUSED,
				.tail = m + 1,
				.tail_size = m->tail_size };
	char *text = m->code || m->request == 0 ? copy_text(m + 1, m->tail_size) : NULL;

	a.text = text ? text : "";
	if (m->request == 0)
		take_notice(conn, m->code, a.text);
	else
		adp_requests_answer(&conn->requests, m->request, &a);
	free(text);
}

static void take_reply(struct adp_conn *conn, const struct sal_msg_reply *m)
{
	struct adp_answer a = { .code = known_code(m->code), .value = m->value };
	char *text = m->code ? copy_text(m + 1, m->text_size) : NULL;

	a.text = text ? text : "";
	adp_requests_answer(&conn->requests, m->request, &a);
	free(text);
}

/* Without a server no program calls: the record answers nothing. */
static void take_call(struct adp_conn *conn, const struct sal_msg_call *m)
{
	struct adp_call_server *server = adp_conn_call_server(conn);

	if (server)
		server->take(server, m);
}

/* Takes one record; false if there is none, or the daemon wrote nonsense. */
static bool take_one(struct adp_conn *conn)
{
	bool wake;
	enum sal_ring_take got;

	if (conn->broken)
		return false;
	got = sal_ring_take(&conn->complete, conn->record, &wake);
	if (wake)
		sal_doorbell_ring(conn->daemon_bell);
	if (got == SAL_RING_EMPTY)
		return false;
	if (got == SAL_RING_BROKEN || !sal_complete_is_valid(conn->record)) {
		conn->broken = true;
		hang_up(conn->socket);
		return false;
	}
	if (conn->record->type == SAL_MSG_DONE || conn->record->type == SAL_MSG_REFUSED)
		take_done(conn, (const struct sal_msg_done *)conn->record);
	else if (conn->record->type == SAL_MSG_REPLY)
		take_reply(conn, (const struct sal_msg_reply *)conn->record);
	else if (conn->record->type == SAL_MSG_CALL)
		take_call(conn, (const struct sal_msg_call *)conn->record);
	else if (conn->record->type == SAL_MSG_WITHDRAWN)
		adp_block_withdraw(conn->blocks,
				   ((const struct sal_msg_withdrawn *)conn->record)->block);
	else
		adp_arena_free(conn->arena,
			       &((const struct sal_msg_released *)conn->record)->place);
	return true;
}

/*
 * Takes all records; returns how many. The caller holds the take lock. The host's callbacks
 * run in here. They may ask about events; such a question must not poll, because it would wait for
 * the take lock.
 */
static uint32_t take_all(struct adp_conn *conn)
{
	uint32_t n = 0;

	atomic_store_explicit(&conn->taker, pthread_self(), memory_order_relaxed);
	while (take_one(conn))
		n++;
	atomic_store_explicit(&conn->taker, 0, memory_order_relaxed);
	return n;
}

enum adp_waiter adp_conn_waiter(struct adp_conn *conn)
{
	return adp_conn_is_serving(conn) ? ADP_CALLED : ADP_OTHERS;
}

void adp_conn_learn_wait(struct adp_conn *conn, enum adp_waiter waiter, uint64_t ns)
{
	_Atomic uint32_t *wait_ns = &conn->wait_ns[waiter];
	uint32_t before = atomic_load_explicit(wait_ns, memory_order_relaxed);
	uint32_t now = (uint32_t)(ns > 4 * POLL_MAX_NS ? 4 * POLL_MAX_NS : ns);

	atomic_store_explicit(wait_ns, before - before / 4 + now / 4, memory_order_relaxed);
}

/* How long to poll now: one and a half times as long as recent waits, or not at all. */
static uint64_t poll_budget(struct adp_conn *conn, enum adp_waiter waiter)
{
	uint32_t wait = atomic_load_explicit(&conn->wait_ns[waiter], memory_order_relaxed);
	uint64_t budget = wait + wait / 2;

	if (wait > POLL_MAX_NS)
		return 0;
	if (budget < POLL_MIN_NS)
		return POLL_MIN_NS;
	return budget < POLL_MAX_NS ? budget : POLL_MAX_NS;
}

/* The daemon rings for the next record. The caller holds the take lock. */
static void ask_to_ring(struct adp_conn *conn)
{
	while (!sal_ring_sleep(&conn->complete) && take_all(conn) > 0)
		;
}

/* The last poller makes the daemon ring again. */
static void end_poll(struct adp_conn *conn)
{
	(void)pthread_mutex_lock(&conn->take_lock);
	if (atomic_fetch_sub(&conn->pollers, 1) == 1)
		ask_to_ring(conn);
	(void)pthread_mutex_unlock(&conn->take_lock);
}

uint64_t adp_conn_asked(struct adp_conn *conn)
{
	return atomic_load_explicit(&conn->requests.asked, memory_order_relaxed);
}

static uint64_t answered(struct adp_conn *conn)
{
	uint64_t owed = (uint64_t)adp_conn_owed(conn);

	return adp_conn_asked(conn) - owed;
}

void adp_conn_want(struct adp_conn *conn, uint64_t number)
{
	adp_pace_count(&conn->pace, number, 1);
	if (adp_conn_is_dead(conn) ||
	    atomic_load_explicit(&conn->taker, memory_order_relaxed) == pthread_self())
		return;
	(void)pthread_mutex_lock(&conn->take_lock);
	if (adp_pace_want(&conn->pace, number, answered(conn)) && atomic_load(&conn->pollers) == 0)
		ask_to_ring(conn); /* the reader may nap */
	(void)pthread_mutex_unlock(&conn->take_lock);
}

void adp_conn_unwant(struct adp_conn *conn, uint64_t number)
{
	adp_pace_count(&conn->pace, number, -1);
}

void adp_conn_wake_reader(struct adp_conn *conn)
{
	sal_doorbell_ring(conn->bell);
}

/* Returns how long it polled; 0: not at all. */
static uint64_t poll_records(struct adp_conn *conn, const _Atomic bool *came, uint64_t budget)
{
	uint64_t start, now;

	if (budget == 0 || adp_conn_is_dead(conn) ||
	    atomic_load_explicit(&conn->taker, memory_order_relaxed) == pthread_self())
		return 0;
	(void)atomic_fetch_add(&conn->pollers, 1);
	sal_ring_awake(&conn->complete);
	start = sal_now_ns();
	do {
		bool any = false;

		if (pthread_mutex_trylock(&conn->take_lock) == 0) {
			any = take_all(conn) > 0;
			(void)pthread_mutex_unlock(&conn->take_lock);
		}
		if (!any)
			(void)sched_yield();
		now = sal_now_ns();
	} while (!atomic_load_explicit(came, memory_order_acquire) && now - start < budget &&
		 !adp_conn_is_dead(conn));
	end_poll(conn);
	return now - start;
}

void adp_conn_poll_for(struct adp_conn *conn, enum adp_waiter waiter, const _Atomic bool *fulfilled)
{
	uint64_t took = poll_records(conn, fulfilled, poll_budget(conn, waiter));

	if (took > 0 && atomic_load_explicit(fulfilled, memory_order_acquire))
		adp_conn_learn_wait(conn, waiter, took);
}

void adp_conn_poll_until(struct adp_conn *conn, const _Atomic bool *came, uint64_t ns)
{
	(void)poll_records(conn, came, ns);
}

static void die(struct adp_conn *conn)
{
	struct adp_answer gone = { .code = SAL_UNAVAILABLE, .text = conn->reason };

	atomic_store_explicit(&conn->dead, true, memory_order_release);
	adp_requests_answer_all(&conn->requests, &gone);
}

/* How long the reader naps after it has taken so many records, although answers are owed; 0: not. */
static uint64_t plan_nap(struct adp_conn *conn, uint32_t taken)
{
	uint64_t ns = 0;

	/* A call of a Python function cannot wait. An older daemon does not say how long. */
	if (conn->holding && !adp_conn_call_server(conn))
		ns = adp_pace_nap_ns(&conn->pace,
				     atomic_load_explicit(&conn->holding->nap_ns,
							  memory_order_relaxed),
				     answered(conn), (uint64_t)adp_conn_owed(conn));
	if (ns > NAP_NS)
		return ns;
	return taken > 1 || conn->naps_pay ? NAP_NS : 0;
}

/* Takes all records. Returns how long the reader rests then; UINT64_MAX: until a bell rings. */
static uint64_t take_and_plan(struct adp_conn *conn)
{
	uint32_t taken = take_all(conn);
	uint64_t nap_ns = taken > 0 && adp_conn_owed(conn) > 0 ? plan_nap(conn, taken) : 0;

	if (conn->has_napped)
		conn->naps_pay = taken > 0;
	conn->has_napped = nap_ns > 0;
	if (nap_ns > 0)
		return nap_ns;
	return atomic_load(&conn->pollers) > 0 || sal_ring_sleep(&conn->complete) ? UINT64_MAX : 0;
}

/* Until a descriptor is ready, at most for so long. False: the connection has ended. */
static bool rest(struct adp_conn *conn, uint64_t ns)
{
	struct pollfd ends[2] = {
		{ .fd = conn->bell, .events = POLLIN },
		{ .fd = conn->socket, .events = POLLRDHUP },
	};
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u),
			      .tv_nsec = (long)(ns % 1000000000u) };

	if (ppoll(ends, 2, ns == UINT64_MAX ? NULL : &t, NULL) < 0 && errno != EINTR)
		return false;
	if (ends[0].revents)
		sal_doorbell_quiet(conn->bell);
	return !ends[1].revents;
}

static void *read_completions(void *arg)
{
	struct adp_conn *conn = arg;
	uint64_t ns;
	bool broken;

	(void)prctl(PR_SET_TIMERSLACK, 1); /* for this thread only: its naps end on time */
	do {
		(void)pthread_mutex_lock(&conn->take_lock);
		ns = take_and_plan(conn);
		broken = conn->broken;
		(void)pthread_mutex_unlock(&conn->take_lock);
	} while (!broken && (ns == 0 || rest(conn, ns)));
	(void)pthread_mutex_lock(&conn->take_lock);
	(void)take_all(conn); /* the last records count, too */
	(void)pthread_mutex_unlock(&conn->take_lock);
	die(conn);
	return NULL;
}

/* The reader blocks all signals: they are the host's. */
int adp_reader_start(struct adp_conn *conn, struct sal_err *err)
{
	int rc = sal_thread_start(&conn->reader, "salus-reader", read_completions, conn);

	if (rc != 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no thread: %s", strerror(rc));
	conn->has_reader = true;
	return SAL_OK;
}

void adp_reader_stop(struct adp_conn *conn)
{
	if (!conn->has_reader || conn->forked)
		return;
	hang_up(conn->socket); /* the reader sees the end and answers every request */
	(void)pthread_join(conn->reader, NULL);
}
