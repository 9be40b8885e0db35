/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace - the last events and decisions of the engine, in a ring.
 *
 * The ring is mapped as a whole at the start. The kernel provides its pages as the ring fills, so
 * an idle daemon uses little memory. Adding an entry copies it over the oldest entry.
 *
 * A snapshot is a copy of the ring in shared memory, for `salus trace`. There are few snapshots,
 * and none lives long. The daemon takes the memory back even if a client has the descriptor. This
 * client then finds a head without its magic.
 *
 * Threads: under server->lock. Only the main thread uses the snapshots.
 */
#ifndef SAL_SERVICE_TRACE_H
#define SAL_SERVICE_TRACE_H

#include <pthread.h>

#include "core/trace.h"
#include "service/lock.h"

#define SVC_TRACE_ENTRIES 65536u
/* Copying releases server->lock after so many entries. */
#define SVC_TRACE_ROUND 256u
#define SVC_SNAPSHOTS_MAX 4u

struct svc_snapshot {
	int fd; /* owned */
	uint64_t bytes;
	uint64_t made_ns, given_ns; /* given_ns: when a client last got it */
	struct sal_trace_head head;
};

struct svc_trace {
	struct sal_trace_entry *entries; /* owned mapping */
	uint64_t room; /* a power of two */
	uint64_t put; /* entries so far; the ring has the last `room` of them */
	struct sal_trace_head head; /* the fields that do not change */
	struct svc_snapshot snapshots[SVC_SNAPSHOTS_MAX]; /* oldest first */
	uint32_t snapshot_count;
};

/* room is a power of two; cfg is the engine's. */
int svc_trace_open(struct svc_trace *t, const struct sal_engine_config *cfg, uint64_t room,
		   struct sal_err *err);
/* Accepts a trace that was not opened. */
void svc_trace_close(struct svc_trace *t);

/* What the record is about. All of it may be NULL, or zero. */
struct svc_trace_about {
	const struct sal_session *session;
	const struct sal_iteration *iteration;
	const char *name; /* the session's */
	struct sal_trace_span span; /* of the iteration that ended */
};

/* Add an entry, from within the engine's callback. While the engine is being created, `engine` is
 * NULL, and the policy is the head's. */
void svc_trace_put(struct svc_trace *t, const struct sal_engine *engine, const struct sal_record *r,
		   const struct svc_trace_about *about);

/* Entries in the ring. */
static inline uint64_t svc_trace_count(const struct svc_trace *t)
{
	return t->put < t->room ? t->put : t->room;
}

/* The size of a copy with so many entries and names. */
uint64_t svc_trace_bytes(uint64_t entries, uint64_t names);

/*
 * Write head and entries to `to`, which has room for `most` entries. The copy leaves out older
 * entries, and entries that are overwritten meanwhile; they count as dropped. Takes the lock many
 * times, each time briefly. Returns where the names go; the caller sets head.name_count.
 */
struct sal_trace_name *svc_trace_copy(const struct svc_trace *t, const struct sal_engine *engine,
				      struct svc_lock *lock, void *to, uint64_t most);

/* Free the snapshots that are too old. */
void svc_trace_forget(struct svc_trace *t, uint64_t now_ns);
/* Add a snapshot. If there are too many, free the oldest. */
struct svc_snapshot *svc_trace_add(struct svc_trace *t, const struct svc_snapshot *take_snapshot);

#endif
