/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/daemon/range.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "adaptor/daemon/conn.h"
#include "adaptor/daemon/conn_state.h"
#include "adaptor/daemon/rings.h"
#include "base/sys/fd.h"
#include "link/socket.h"

#define GROW_TIMEOUT_MS 10000
/* Before the arena grows, the reader has so many moments to take what has come. */
#define MOMENT_NS 50000
#define MOMENTS 4

static int set_gone(const struct adp_conn *conn, struct sal_err *err)
{
	return sal_err_set(err, SAL_UNAVAILABLE, "%s", adp_conn_reason(conn));
}

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
		return adp_conn_await_end(conn) ? set_gone(conn, err) : rc;
	if (got.code != 0 || fd < 0) {
		sal_close(&fd);
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED,
				   "salus: no shared memory for %llu bytes more: a limit of salusd "
				   "is reached (--limit job-arena, user-arena or daemon-arena; "
				   "`salus limits` shows them)",
				   (unsigned long long)size);
	}
	return adp_arena_add(conn->arena, fd, got.bytes, err);
}

/* The reader may nap while places are free again. */
static bool try_after_nap(struct adp_conn *conn, uint64_t size, struct adp_range *out_range)
{
	const struct timespec moment = { .tv_nsec = MOMENT_NS };
	int i;

	if (adp_conn_owed(conn) == 0)
		return false;
	adp_conn_wake_reader(conn);
	for (i = 0; i < MOMENTS; i++) {
		(void)nanosleep(&moment, NULL);
		if (adp_arena_try(conn->arena, size, out_range))
			return true;
	}
	return false;
}

int adp_range_alloc(struct adp_conn *conn, uint64_t size, struct adp_range *out_range,
		    struct sal_err *err)
{
	int rc = SAL_OK;

	if (adp_conn_is_dead(conn))
		return set_gone(conn, err);
	if (adp_arena_try(conn->arena, size, out_range))
		return SAL_OK;
	(void)pthread_mutex_lock(&conn->grow_lock);
	if (!adp_arena_try(conn->arena, size, out_range) && !try_after_nap(conn, size, out_range)) {
		rc = adp_conn_is_dead(conn) ? set_gone(conn, err) : grow_arena(conn, size, err);
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
