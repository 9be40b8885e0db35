/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace - records with all data needed to replay them, in the layout that salusd sends.
 *
 *     head | entries, oldest first | names
 *
 * The entry of an event holds every argument of the engine's call. The decisions that the event
 * caused follow it. So replaying a complete trace on a new engine gives the same decisions.
 *
 * A trace is plain data of one machine and one version: a daemon sends it to its own command line
 * tool. Files contain JSON instead (docs/TRACE.md).
 */
#ifndef SAL_CORE_TRACE_H
#define SAL_CORE_TRACE_H

#include "core/engine.h"

#define SAL_TRACE_MAGIC UINT64_C(0x34454341525453) /* "STRACE4" */
#define SAL_TRACE_NAME_BYTES 30
#define SAL_TRACE_POLICY_BYTES 16

/* For SAL_OPEN and SAL_DECLARE. The record holds the rest of the job: persist_bytes and ephem_bytes
 * are the declared needs, value is total_ns. */
struct sal_trace_job {
	uint64_t limit_bytes;
	uint64_t deadline_ns;
	uint32_t weight_milli;
	uint32_t priority;
	uint8_t kind; /* enum sal_kind */
	uint8_t kind_undeclared; /* 0 or 1 */
	char name[SAL_TRACE_NAME_BYTES]; /* for SAL_OPEN; UTF-8, cut to fit, ends in NUL */
};

/* Bytes in use on the device before the event, or when the decision was made. */
struct sal_trace_memory {
	uint64_t persist_bytes;
	uint64_t lane_sum_bytes;
};

/* For SAL_SUBMIT: the program of the iteration, and what was known about the program before. */
struct sal_trace_work {
	uint64_t program;
	struct sal_pace pace;
	uint64_t margin_bytes; /* of the iteration */
};

/* For SAL_DONE: when the iteration really ran, on the caller's clock; 0: unknown. */
struct sal_trace_span {
	uint64_t start_ns, end_ns;
};

struct sal_trace_entry {
	struct sal_record record;
	union {
		struct sal_tuning tuning; /* for SAL_SET_TUNING */
		struct {
			struct sal_trace_memory memory; /* for all others */
			union {
				struct sal_trace_job job; /* for SAL_OPEN and SAL_DECLARE */
				struct sal_trace_work work; /* for SAL_SUBMIT */
				char policy[SAL_TRACE_POLICY_BYTES]; /* for SAL_SET_POLICY */
				struct { /* for SAL_DONE */
					struct sal_trace_span span;
					uint64_t busy_ns, took_bytes; /* of the iteration */
				};
			};
		};
	};
};
_Static_assert(sizeof(struct sal_trace_entry) <= 160, "a ring of entries stays small");

/* The full name of an open session. */
struct sal_trace_name {
	uint64_t session;
	char name[120]; /* ends in NUL */
};

struct sal_trace_head {
	uint64_t magic;
	uint32_t entry_bytes; /* size of an entry */
	uint32_t name_count;
	uint64_t count; /* number of entries */
	uint64_t dropped; /* earlier entries that are lost */
	uint64_t capacity_bytes;
	uint64_t start_ns; /* when the engine was created */
	int64_t realtime_ns; /* add this to a trace time to get the time since 1970 */
	struct sal_trace_memory memory; /* after the last entry */
	char policy[SAL_TRACE_POLICY_BYTES]; /* the first policy; `tuning` is the first tuning */
	struct sal_tuning tuning;
};

/*
 * Fill in an entry, inside emit. s and it belong to the record, or are NULL. The caller adds names
 * and times of execution. `engine` is NULL while the engine is being created.
 */
void sal_trace_fill(struct sal_trace_entry *entry, const struct sal_engine *engine,
		    const struct sal_record *r, const struct sal_session *s,
		    const struct sal_iteration *it);

/* Copy a name, cut between characters to fit into `size` bytes. Invalid UTF-8 becomes '?'. */
void sal_trace_copy_name(char *to, size_t size, const char *from);

static inline bool sal_trace_has_job(const struct sal_trace_entry *entry)
{
	return entry->record.what == SAL_OPEN || entry->record.what == SAL_DECLARE;
}

#endif
