/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/daemon/conn.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "adaptor/daemon/conn_state.h"
#include "adaptor/daemon/greeting.h"
#include "adaptor/daemon/rings.h"
#include "adaptor/error.h"
#include "base/sys/fd.h"
#include "link/socket.h"

/* All connections, for the fork handler. */
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

	LIST_FOREACH(conn, &guard.all, all) {
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

bool adp_conn_is_quiet(const struct adp_conn *conn)
{
	return conn->quiet;
}

bool adp_conn_is_forked(const struct adp_conn *conn)
{
	return conn->forked;
}

bool adp_conn_is_dead(struct adp_conn *conn)
{
	return atomic_load_explicit(&conn->dead, memory_order_acquire);
}

const char *adp_conn_reason(const struct adp_conn *conn)
{
	return conn->forked ? "salus: a forked process has no connection to salusd; "
			      "use the spawn start method"
			    : conn->reason;
}

PJRT_Error *adp_unavailable(struct adp_conn *conn)
{
	return adp_error(SAL_UNAVAILABLE, "%s", adp_conn_reason(conn));
}

PJRT_Error *adp_no_request(struct adp_conn *conn)
{
	return adp_conn_is_dead(conn) ? adp_unavailable(conn) : adp_out_of_memory();
}

/* Takes over the rings, the first segment, the doorbells and the facts. */
static int take_parts(struct adp_conn *conn, struct adp_greeting *g, struct sal_err *err)
{
	const struct sal_welcome *w = &g->welcome;
	int segment;

	conn->daemon_bell = g->daemon_bell;
	conn->bell = g->bell;
	conn->facts = g->facts;
	conn->fact_size = (size_t)w->fact_bytes;
	conn->memory_bytes = w->memory_bytes;
	conn->minor = w->minor;
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
		rc = take_parts(conn, &greeting, err);
	adp_greeting_fini(&greeting);
	return rc;
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
	conn->blocks = adp_blocks_create();
	conn->record = aligned_alloc(64, SAL_RECORD_MAX);
	(void)pthread_once(&guard.once, watch_forks);
	(void)pthread_mutex_lock(&guard.lock);
	LIST_INSERT_HEAD(&guard.all, conn, all);
	(void)pthread_mutex_unlock(&guard.lock);
	return conn;
}

int adp_conn_open(const char *path, const struct sal_hello *hello, struct adp_conn **out_conn,
		  struct sal_err *err)
{
	struct adp_conn *conn = conn_create();
	int rc;

	*out_conn = NULL;
	if (!conn || !conn->arena || !conn->blocks || !conn->record) {
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
	rc = adp_reader_start(conn, err);
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

bool adp_conn_serve_calls(struct adp_conn *conn, struct adp_call_server *take_server)
{
	struct adp_call_server *none = NULL;

	return atomic_compare_exchange_strong(&conn->call_server, &none, take_server);
}

struct adp_call_server *adp_conn_call_server(struct adp_conn *conn)
{
	return atomic_load_explicit(&conn->call_server, memory_order_acquire);
}

bool adp_conn_is_serving(struct adp_conn *conn)
{
	struct adp_call_server *server = adp_conn_call_server(conn);

	return server && server->is_me(server);
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
	LIST_REMOVE(conn, all);
	(void)pthread_mutex_unlock(&guard.lock);
	if (!conn->forked) {
		sal_close(&conn->socket);
		sal_close(&conn->daemon_bell);
		sal_close(&conn->bell);
	}
	if (conn->ring_memory)
		(void)munmap(conn->ring_memory, (size_t)conn->ring_bytes);
	if (conn->call_server)
		conn->call_server->destroy(conn->call_server);
	adp_arena_destroy(conn->arena);
	adp_blocks_destroy(conn->blocks);
	free(conn->record);
	adp_requests_fini(&conn->requests);
	free(conn->facts);
	free(conn);
}

void adp_conn_close(struct adp_conn *conn)
{
	adp_reader_stop(conn);
	atomic_store(&conn->dead, true);
}
