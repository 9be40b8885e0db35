/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server - the root of salusd: it owns everything else.
 *
 *     this folder  server, options, the lock, limits and accounts, maps of ids, the trace
 *     client/      clients: the socket, sessions, their records, completions
 *     admin/       answers to `salus ps` and similar commands
 *     run/         execution: the worker, errands, dispatching, compile tasks
 *     memory/      device memory of sessions: buffers, programs, streams, paging
 *     real/        the memory that iterations really take
 *     profile/     needs of earlier jobs
 *
 * Ownership is a tree: the server owns sessions; a session owns its buffers, programs and
 * executions. One lock, server->lock, guards sessions and the engine (lock.h). Vendor calls are
 * errands of a session (run/carrier.h). docs/ARCHITECTURE.md lists the threads.
 */
#ifndef SAL_SERVICE_SERVER_H
#define SAL_SERVICE_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <uv.h>

#include "core/engine.h"
#include "device/device.h"
#include "service/client/connections.h"
#include "service/client/listen.h"
#include "service/client/news.h"
#include "service/idmap.h"
#include "service/ledger.h"
#include "service/load.h"
#include "service/lock.h"
#include "service/memory/buffer.h"
#include "service/memory/kind.h"
#include "service/memory/stream.h"
#include "service/options.h"
#include "service/profile/recall.h"
#include "service/real/margin.h"
#include "service/run/carrier.h"
#include "service/run/dispatch.h"
#include "service/run/tasks.h"
#include "service/run/watch.h"
#include "service/run/worker.h"
#include "service/trace.h"

struct sal_compile_pool;
struct sal_err;

struct svc_server {
	struct svc_options options;
	const struct sal_device_ops *ops; /* call them through svc_vendor */
	struct sal_device *device; /* owned */
	bool carries_in_done; /* the driver allows calls from within a report */
	bool has_tiers; /* of the device */
	bool tiers_change; /* its streams can change their tier */
	bool tells_memory; /* how much each stream uses: see real/told.h */
	bool rows_are_cheap; /* of streams: each session may have one */
	bool has_link; /* copies to the device go over a link, whose speed salusd measures */
	uint32_t cpus; /* that this process may use */
	struct svc_stream streams[SVC_KINDS_MAX * SVC_STREAMS_MAX]; /* by kind, tier and lane */
	struct svc_kind kinds[SVC_KINDS_MAX];
	struct svc_ledger ledger; /* has its own lock */
	void *facts; /* owned; about the device, packed for clients */
	size_t fact_size;

	struct svc_lock lock;
	/* under the lock */
	struct sal_engine *engine; /* owned */
	struct svc_trace trace;
	struct svc_session_list sessions; /* owned; closing sessions, too */
	struct svc_idmap by_id; /* the same sessions, by id */
	struct svc_session_list posted; /* sessions with errands that nobody carries */
	struct svc_row rows[SVC_ROWS_MAX];
	struct svc_idmap programs; /* svc_shared_program by the first bytes of its key */
	struct svc_task_list tasks; /* for the main thread */
	struct svc_waiter_list ready; /* waiters that may continue; see buffer.c */
	bool releasing;
	/* Executions that ended and are not yet accounted for. Any thread adds to this list. */
	_Atomic(struct svc_execution *) done;
	/* Executions that are accounted for, and whose completion the client cannot see yet. */
	TAILQ_HEAD(, svc_execution) untold;
	struct svc_decision_list decisions;
	uint64_t page_rate; /* bytes a second, measured; see paging.c */
	uint32_t page_samples; /* page-outs that were measured */
	struct svc_margins margins;
	uint64_t grain_bytes; /* sessions ask for memory in multiples of this */
	struct svc_recall recall;
	struct svc_news news;
	struct svc_worker worker;
	struct svc_watch watch;
	struct svc_carriers carriers;
	struct svc_lane lanes[SAL_LANES_MAX];
	/* Device memory of arrays, so far and on its way: see real/told.h */
	_Atomic int64_t came_bytes, coming_bytes;
	_Atomic uint64_t arena_bytes; /* of uploads that the vendor reads in the arenas of clients */
	uint64_t kept_mask; /* lanes whose memory the heap keeps: see real.h */
	uint64_t program_count; /* shared programs so far */
	uint32_t queued; /* executions that have not started */
	uint32_t running; /* executions that started and are not accounted for */
	_Atomic uint32_t alive; /* sessions whose memory is not freed */
	_Atomic uint32_t reporters; /* threads within svc_dispatch_report */
	uint64_t start_ns;

	/* main thread only */
	uv_loop_t loop;
	uv_poll_t listener;
	uv_async_t task_bell;
	uint32_t preparing; /* tasks and loads that threads of libuv work on */
	struct svc_load load;
	uv_signal_t on_term, on_int;
	uv_timer_t idle_timer, hello_timer;
	struct svc_listen listen;
	struct sal_compile_pool *pool; /* owned */
	LIST_HEAD(, svc_client) clients; /* owned: connections */
	struct svc_connections connections;
	uint64_t idle_since_ns;
	bool is_started; /* all threads run */
	bool closing;
};

/* The vendor's functions, for a thread that does not hold the lock. */
static inline const struct sal_device_ops *svc_vendor(const struct svc_server *server) SVC_UNLOCKED;
static inline const struct sal_device_ops *svc_vendor(const struct svc_server *server)
{
	svc_assert_unlocked(server);
	return server->ops;
}

/* Start everything. After a failure, call close. */
int svc_server_open(struct svc_server *server, const struct svc_options *options,
		    struct sal_err *err);
/* Serve until a signal comes, or until salusd has been idle for too long. */
void svc_server_run(struct svc_server *server);
void svc_server_close(struct svc_server *server);
uint64_t svc_now_ns(void);

#endif
