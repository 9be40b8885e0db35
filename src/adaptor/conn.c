/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn - the connection to the daemon: rings, requests, and the thread that reads.
 *
 * Whoever has something to say takes the submit lock, writes a record and lets go. Completions are taken by
 * one thread at a time: usually the reader, which sleeps on the doorbell; or a thread that is about to wait
 * anyway and polls for a moment first, which spares two switches.
 *
 * When the daemon is gone (its socket hangs up, or it writes nonsense) the connection is dead: everything
 * pending is answered with UNAVAILABLE, and so is everything that comes later. Nothing waits for ever.
 *
 * A forked child has no reader: its copy of the connection is dead from the start.
 */
#include "adaptor/adaptor.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "adaptor/greeting.h"
#include "adaptor/requests.h"
#include "link/socket.h"

#define GROW_TIMEOUT_MS 10000

/* Polling pays while answers come within this. */
#define POLL_MOST_NS UINT64_C(200000)
#define POLL_LEAST_NS UINT64_C(20000)
/* While answers are owed, the reader naps instead of making the daemon ring for each. */
#define NAP_NS 50000

struct adp_conn {
	_Atomic int refs;
	_Atomic bool dead;
	bool forked; /* in a child: no thread, no descriptors */
	bool quiet; /* nothing is written to stderr */
	int socket, daemon_bell, bell; /* owned */
	void *ring_memory; /* owned mapping */
	uint64_t ring_bytes;
	const struct sal_holding *holding; /* borrowed: ring_memory; NULL: the daemon knows of none */
	void *facts; /* owned */
	size_t fact_size;
	uint64_t memory_bytes;
	pthread_t reader;
	bool has_reader;
	char reason[256]; /* why it is dead; written before `dead` is */

	pthread_mutex_t submit_lock;
	struct sal_ring submit;
	_Atomic uint64_t next_id;

	pthread_mutex_t take_lock;
	struct sal_ring complete;
	struct sal_header *record; /* owned; SAL_RECORD_MAX bytes */
	bool broken; /* the daemon wrote nonsense: nothing more is taken; under the take lock */
	_Atomic(pthread_t) taker; /* who holds the take lock; 0: nobody */
	_Atomic int pollers;
	_Atomic uint32_t wait_ns; /* learned: how long waits take */
	struct adp_requests requests;

	pthread_mutex_t grow_lock;
	struct adp_arena *arena; /* owned */
	LIST_ENTRY(adp_conn) link; /* in all */
};

/* For the fork handler: the only state of the library. */
static struct {
	pthread_mutex_t lock;
	pthread_once_t once;
	LIST_HEAD(, adp_conn) all;
} guard = { .lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT };

static void before_fork(void)
{
	(void)pthread_mutex_lock(&guard.lock);
}

static void after_fork_in_parent(void)
{
	(void)pthread_mutex_unlock(&guard.lock);
}

static void after_fork_in_child(void)
{
	struct adp_conn *conn;

	LIST_FOREACH(conn, &guard.all, link) {
		atomic_store(&conn->dead, true);
		conn->forked = true;
		(void)close(conn->socket);
		(void)close(conn->daemon_bell);
		(void)close(conn->bell);
	}
	(void)pthread_mutex_unlock(&guard.lock);
}

static void watch_forks(void)
{
	(void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void close_fd(int fd)
{
	if (fd >= 0)
		(void)close(fd);
}

/* Hang up without giving the descriptor away: the reader wakes and everything ends. */
static void hang_up(int fd)
{
	(void)shutdown(fd, SHUT_RDWR);
}

uint64_t adp_now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool adp_conn_is_forked(const struct adp_conn *conn)
{
	return conn->forked;
}

bool adp_conn_is_dead(struct adp_conn *conn)
{
	return atomic_load_explicit(&conn->dead, memory_order_acquire);
}

PJRT_Error *adp_unavailable(struct adp_conn *conn)
{
	return adp_error(SAL_UNAVAILABLE, "%s",
			 conn->forked ? "salus: a forked process has no connection to salusd; "
					"use the spawn start method"
				      : conn->reason);
}

/* --- requests -------------------------------------------------------------------------------------- */

PJRT_Error *adp_no_request(struct adp_conn *conn)
{
	return adp_conn_is_dead(conn) ? adp_unavailable(conn) : adp_out_of_memory();
}

uint64_t adp_request(struct adp_conn *conn, adp_answer_fn *fn, void *ctx)
{
	return adp_conn_is_dead(conn) ? 0 : adp_requests_add(&conn->requests, fn, ctx);
}

bool adp_request_drop(struct adp_conn *conn, uint64_t number)
{
	return adp_requests_drop(&conn->requests, number);
}

static void die(struct adp_conn *conn)
{
	struct adp_answer gone = { .code = SAL_UNAVAILABLE, .text = conn->reason };

	atomic_store_explicit(&conn->dead, true, memory_order_release);
	adp_requests_answer_all(&conn->requests, &gone);
}

/* --- completions ----------------------------------------------------------------------------------- */

/* A sentence from the record, NUL or not. */
static char *copy_text(const void *text, size_t size)
{
	return strndup(text, size);
}

/* What is no error we know is an unknown one. */
static int known_code(int32_t code)
{
	return code >= SAL_OK && code <= SAL_UNAUTHENTICATED ? code : SAL_UNKNOWN;
}

/* What the daemon says by itself: why the session ends, or something for the job's user to read. */
static void take_word(struct adp_conn *conn, int code, const char *text)
{
	if (code)
		(void)snprintf(conn->reason, sizeof(conn->reason), "%s", text);
	else if (!conn->quiet)
		(void)fprintf(stderr, "%s\n", text);
}

static void take_done(struct adp_conn *conn, const struct sal_msg_done *m)
{
	struct adp_answer a = { .code = known_code(m->code),
				.tail = m + 1,
				.tail_size = m->tail_size };
	char *text = m->code || m->request == 0 ? copy_text(m + 1, m->tail_size) : NULL;

	a.text = text ? text : "";
	if (m->request == 0)
		take_word(conn, m->code, a.text);
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

/* One record; false if there is none, or the daemon wrote nonsense. */
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
	if (conn->record->type == SAL_MSG_DONE)
		take_done(conn, (const struct sal_msg_done *)conn->record);
	else if (conn->record->type == SAL_MSG_REPLY)
		take_reply(conn, (const struct sal_msg_reply *)conn->record);
	else
		adp_arena_free(conn->arena,
			       &((const struct sal_msg_released *)conn->record)->place);
	return true;
}

/*
 * Take all there is; the take lock is ours. True if there was something. Callbacks of the host run in here:
 * they may ask about events, which must then not poll, for that would wait for the lock they run under.
 */
static bool take_all(struct adp_conn *conn)
{
	bool any = false;

	atomic_store_explicit(&conn->taker, pthread_self(), memory_order_relaxed);
	while (take_one(conn))
		any = true;
	atomic_store_explicit(&conn->taker, 0, memory_order_relaxed);
	return any;
}

/* How long somebody waited, whether by polling or asleep. */
void adp_conn_learn_wait(struct adp_conn *conn, uint64_t ns)
{
	uint32_t before = atomic_load_explicit(&conn->wait_ns, memory_order_relaxed);
	uint32_t now = (uint32_t)(ns > 4 * POLL_MOST_NS ? 4 * POLL_MOST_NS : ns);

	atomic_store_explicit(&conn->wait_ns, before - before / 4 + now / 4, memory_order_relaxed);
}

/* How long to poll now: half as long again as waits have taken, or not at all. */
static uint64_t poll_budget(struct adp_conn *conn)
{
	uint32_t wait = atomic_load_explicit(&conn->wait_ns, memory_order_relaxed);
	uint64_t budget = wait + wait / 2;

	if (wait > POLL_MOST_NS)
		return 0;
	if (budget < POLL_LEAST_NS)
		return POLL_LEAST_NS;
	return budget < POLL_MOST_NS ? budget : POLL_MOST_NS;
}

/* Polling is over: the daemon rings again from now on. */
static void end_poll(struct adp_conn *conn)
{
	(void)pthread_mutex_lock(&conn->take_lock);
	if (atomic_fetch_sub(&conn->pollers, 1) == 1)
		while (!sal_ring_sleep(&conn->complete) && take_all(conn))
			;
	(void)pthread_mutex_unlock(&conn->take_lock);
}

void adp_conn_poll_for(struct adp_conn *conn, const _Atomic bool *kept)
{
	uint64_t budget = poll_budget(conn);
	uint64_t start, now;

	if (budget == 0 || adp_conn_is_dead(conn) ||
	    atomic_load_explicit(&conn->taker, memory_order_relaxed) == pthread_self())
		return;
	(void)atomic_fetch_add(&conn->pollers, 1);
	sal_ring_awake(&conn->complete);
	start = adp_now_ns();
	do {
		bool any = false;

		if (pthread_mutex_trylock(&conn->take_lock) == 0) {
			any = take_all(conn);
			(void)pthread_mutex_unlock(&conn->take_lock);
		}
		if (!any)
			(void)sched_yield();
		now = adp_now_ns();
	} while (!atomic_load_explicit(kept, memory_order_acquire) && now - start < budget &&
		 !adp_conn_is_dead(conn));
	if (atomic_load_explicit(kept, memory_order_acquire))
		adp_conn_learn_wait(conn, now - start);
	end_poll(conn);
}

static void nap(void)
{
	struct timespec t = { .tv_nsec = NAP_NS };

	(void)nanosleep(&t, NULL);
}

static void *read_completions(void *arg)
{
	struct adp_conn *conn = arg;

	(void)prctl(PR_SET_TIMERSLACK, 1); /* of this thread alone: naps as short as they say */
	for (;;) {
		struct pollfd ends[2] = {
			{ .fd = conn->bell, .events = POLLIN },
			{ .fd = conn->socket, .events = POLLRDHUP },
		};
		bool any, naps, sleeps, broken;

		(void)pthread_mutex_lock(&conn->take_lock);
		any = take_all(conn);
		broken = conn->broken;
		naps = any && atomic_load(&conn->requests.owed) > 0;
		sleeps = !naps &&
			 (atomic_load(&conn->pollers) > 0 || sal_ring_sleep(&conn->complete));
		(void)pthread_mutex_unlock(&conn->take_lock);
		if (broken)
			break;
		if (naps) {
			nap();
			continue;
		}
		if (!sleeps)
			continue;
		if (poll(ends, 2, -1) < 0 && errno != EINTR)
			break;
		if (ends[0].revents)
			sal_doorbell_quiet(conn->bell);
		if (ends[1].revents)
			break;
	}
	(void)pthread_mutex_lock(&conn->take_lock);
	(void)take_all(conn); /* what it said last still counts */
	(void)pthread_mutex_unlock(&conn->take_lock);
	die(conn);
	return NULL;
}

/* --- submissions ----------------------------------------------------------------------------------- */

uint64_t adp_next_id(struct adp_conn *conn, uint32_t count)
{
	return atomic_fetch_add_explicit(&conn->next_id, count, memory_order_relaxed);
}

void *adp_reserve(struct adp_conn *conn, uint16_t type, uint32_t size)
{
	struct sal_header *header = NULL;

	if (adp_conn_is_dead(conn)) /* in a forked child the lock may be held by nobody */
		return NULL;
	(void)pthread_mutex_lock(&conn->submit_lock);
	while (!adp_conn_is_dead(conn)) {
		header = sal_ring_reserve(&conn->submit, size);
		if (header)
			break;
		sal_doorbell_ring(conn->daemon_bell);
		nap(); /* the daemon is behind; it never waits for us */
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

void adp_send(struct adp_conn *conn, bool urgent)
{
	if (sal_ring_publish(&conn->submit, urgent))
		sal_doorbell_ring(conn->daemon_bell);
	(void)pthread_mutex_unlock(&conn->submit_lock);
}

/* --- the arena ------------------------------------------------------------------------------------- */

static int grow_arena(struct adp_conn *conn, uint64_t size, struct sal_err *err)
{
	struct sal_grow ask = { .bytes = size };
	struct sal_grown got;
	int fd = -1;
	int rc = sal_socket_send(conn->socket, &ask, sizeof(ask), NULL, 0, err);

	if (rc >= 0)
		rc = sal_socket_receive(conn->socket, &got, sizeof(got), &fd, 1, GROW_TIMEOUT_MS,
					err);
	if (rc < 0)
		return rc;
	if (got.code != 0 || fd < 0) {
		if (fd >= 0)
			(void)close(fd);
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED,
				   "salus: no shared memory for %llu bytes more: a limit of salusd "
				   "is reached (--limit job-arena, user-arena or daemon-arena; "
				   "`salus limits` shows them)",
				   (unsigned long long)size);
	}
	return adp_arena_add(conn->arena, fd, got.bytes, err);
}

int adp_range_alloc(struct adp_conn *conn, uint64_t size, struct adp_range *out_range,
		    struct sal_err *err)
{
	int rc = SAL_OK;

	if (adp_conn_is_dead(conn))
		return sal_err_set(err, SAL_UNAVAILABLE, "salus: the connection to salusd is lost");
	if (adp_arena_try(conn->arena, size, out_range))
		return SAL_OK;
	(void)pthread_mutex_lock(&conn->grow_lock);
	if (!adp_arena_try(conn->arena, size, out_range)) {
		rc = adp_conn_is_dead(conn) ? sal_err_set(err, SAL_UNAVAILABLE,
							  "salus: the connection to salusd is lost")
					    : grow_arena(conn, size, err);
		if (rc >= 0 && !adp_arena_try(conn->arena, size, out_range))
			rc = sal_err_set(err, SAL_RESOURCE_EXHAUSTED,
					 "salus: shared memory is in pieces");
	}
	(void)pthread_mutex_unlock(&conn->grow_lock);
	return rc;
}

void adp_range_free(struct adp_conn *conn, const struct adp_range *range)
{
	if (range->at)
		adp_arena_free(conn->arena, &range->place);
}

/* --- life ------------------------------------------------------------------------------------------ */

/* The rings, the first segment and all else that the daemon gave. */
static int take_gifts(struct adp_conn *conn, struct adp_greeting *g, struct sal_err *err)
{
	const struct sal_welcome *w = &g->welcome;
	int segment;

	conn->daemon_bell = g->daemon_bell;
	conn->bell = g->bell;
	conn->facts = g->facts;
	conn->fact_size = (size_t)w->fact_bytes;
	conn->memory_bytes = w->memory_bytes;
	g->daemon_bell = g->bell = -1;
	g->facts = NULL;
	conn->ring_bytes = sal_holding_span(w->ring_bytes, w->minor);
	conn->ring_memory = sal_shared_map(g->rings, conn->ring_bytes);
	if (!conn->ring_memory)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "cannot map the rings");
	sal_ring_init(&conn->submit, conn->ring_memory, w->ring_bytes);
	sal_ring_init(&conn->complete, (char *)conn->ring_memory + sal_ring_span(w->ring_bytes),
		      w->ring_bytes);
	conn->holding = sal_holding_find(conn->ring_memory, w->ring_bytes, w->minor);
	segment = g->segment;
	g->segment = -1;
	return adp_arena_add(conn->arena, segment, w->segment_bytes, err);
}

static int greet(struct adp_conn *conn, const struct sal_hello *hello, struct sal_err *err)
{
	struct adp_greeting greeting;
	int rc = adp_greet(conn->socket, hello, &greeting, err);

	if (rc >= 0)
		rc = take_gifts(conn, &greeting, err);
	adp_greeting_fini(&greeting);
	return rc;
}

/* The reader takes no signals: they are the host's. */
static int start_reader(struct adp_conn *conn, struct sal_err *err)
{
	sigset_t all, before;
	int rc;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&conn->reader, NULL, read_completions, conn);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc != 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no thread: %s", strerror(rc));
	conn->has_reader = true;
	return SAL_OK;
}

static struct adp_conn *conn_create(void)
{
	struct adp_conn *conn = calloc(1, sizeof(*conn));
	const char *quiet = getenv("SALUS_QUIET");

	if (!conn)
		return NULL;
	conn->quiet = quiet && *quiet && strcmp(quiet, "0") != 0;
	atomic_init(&conn->refs, 1);
	atomic_init(&conn->next_id, 1);
	conn->socket = conn->daemon_bell = conn->bell = -1;
	(void)snprintf(conn->reason, sizeof(conn->reason),
		       "salus: the connection to salusd is lost");
	(void)pthread_mutex_init(&conn->submit_lock, NULL);
	(void)pthread_mutex_init(&conn->take_lock, NULL);
	adp_requests_init(&conn->requests);
	(void)pthread_mutex_init(&conn->grow_lock, NULL);
	conn->arena = adp_arena_create();
	conn->record = aligned_alloc(64, SAL_RECORD_MAX);
	(void)pthread_once(&guard.once, watch_forks);
	(void)pthread_mutex_lock(&guard.lock);
	LIST_INSERT_HEAD(&guard.all, conn, link);
	(void)pthread_mutex_unlock(&guard.lock);
	return conn;
}

int adp_conn_open(const char *path, const struct sal_hello *hello, struct adp_conn **out_conn,
		  struct sal_err *err)
{
	struct adp_conn *conn = conn_create();
	int rc;

	*out_conn = NULL;
	if (!conn || !conn->arena || !conn->record) {
		rc = sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
		goto fail;
	}
	rc = sal_socket_connect(path, err);
	if (rc < 0)
		goto fail;
	conn->socket = rc;
	rc = greet(conn, hello, err);
	if (rc < 0)
		goto fail;
	rc = start_reader(conn, err);
	if (rc < 0)
		goto fail;
	*out_conn = conn;
	return SAL_OK;
fail:
	if (conn) {
		adp_conn_close(conn);
		adp_conn_unref(conn);
	}
	return rc;
}

struct sal_text adp_conn_facts(struct adp_conn *conn)
{
	return (struct sal_text){ conn->facts, conn->fact_size };
}

uint64_t adp_conn_memory(struct adp_conn *conn)
{
	return conn->memory_bytes;
}

const struct sal_holding *adp_conn_holding(const struct adp_conn *conn)
{
	return conn->holding;
}

struct adp_conn *adp_conn_ref(struct adp_conn *conn)
{
	(void)atomic_fetch_add_explicit(&conn->refs, 1, memory_order_relaxed);
	return conn;
}

void adp_conn_unref(struct adp_conn *conn)
{
	if (atomic_fetch_sub_explicit(&conn->refs, 1, memory_order_acq_rel) > 1)
		return;
	(void)pthread_mutex_lock(&guard.lock);
	LIST_REMOVE(conn, link);
	(void)pthread_mutex_unlock(&guard.lock);
	if (!conn->forked) {
		close_fd(conn->socket);
		close_fd(conn->daemon_bell);
		close_fd(conn->bell);
	}
	if (conn->ring_memory)
		(void)munmap(conn->ring_memory, (size_t)conn->ring_bytes);
	adp_arena_destroy(conn->arena);
	free(conn->record);
	adp_requests_fini(&conn->requests);
	free(conn->facts);
	free(conn);
}

void adp_conn_close(struct adp_conn *conn)
{
	if (conn->has_reader && !conn->forked) {
		hang_up(conn->socket); /* the reader sees the end and answers all */
		(void)pthread_join(conn->reader, NULL);
	}
	atomic_store(&conn->dead, true);
}
