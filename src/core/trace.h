/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace - records with all that is needed to repeat them: the layout in which salusd hands them
 * out.
 *
 *     head | entries, oldest first | names
 *
 * An entry of an event holds every argument of the engine's call; the entries of the decisions it
 * caused follow it. So a trace from which nothing was dropped, put to a fresh engine, gives the
 * same decisions.
 *
 * Plain data of one machine and one version: it goes from a daemon to its own command line tool.
 * What is kept in files is JSON (docs/TRACE.md).
 */
#ifndef SAL_CORE_TRACE_H
#define SAL_CORE_TRACE_H

#include "core/engine.h"

#define SAL_TRACE_MAGIC UINT64_C(0x33454341525453) /* "STRACE3" */
#define SAL_TRACE_NAME_BYTES 31
#define SAL_TRACE_POLICY_BYTES 16

/* Of SAL_OPEN and SAL_DECLARE. The record has the rest: persist_bytes and ephem_bytes are what was
 * declared, value is total_ns. */
struct sal_trace_job {
	uint64_t limit_bytes;
	uint32_t weight_milli;
	uint32_t priority;
	uint8_t kind; /* enum sal_kind */
	char name[SAL_TRACE_NAME_BYTES]; /* of SAL_OPEN; UTF-8, cut to fit, ends in NUL */
};

/* What the device's memory held before the event, or when a decision was made. */
struct sal_trace_memory {
	uint64_t persist_bytes;
	uint64_t lane_sum_bytes;
};

/* Of SAL_DONE: when it really ran, on the caller's clock; 0: not known. */
struct sal_trace_span {
	uint64_t start_ns, end_ns;
};

struct sal_trace_entry {
	struct sal_record record;
	union {
		struct sal_tuning tuning; /* of SAL_SET_TUNING */
		struct {
			struct sal_trace_memory memory; /* of all others */
			union {
				struct sal_trace_job job; /* of SAL_OPEN and SAL_DECLARE */
				struct sal_trace_span span; /* of SAL_DONE */
			};
		};
	};
};
_Static_assert(sizeof(struct sal_trace_entry) <= 128, "an entry is two cache lines");

/* Names in full, of those that are there. */
struct sal_trace_name {
	uint64_t session;
	char name[120]; /* ends in NUL */
};

struct sal_trace_head {
	uint64_t magic;
	uint32_t entry_bytes; /* size of an entry */
	uint32_t name_count;
	uint64_t count; /* of entries */
	uint64_t dropped; /* entries that came before those */
	uint64_t capacity_bytes;
	uint64_t start_ns; /* when the engine was made */
	int64_t realtime_ns; /* add it to a time of ours to get one since 1970 */
	struct sal_trace_memory memory; /* after the last entry */
	char policy[SAL_TRACE_POLICY_BYTES]; /* the engine's first, and its first tuning */
	struct sal_tuning tuning;
};

/*
 * Fill in an entry from within emit; s is the record's session, or NULL. Names and times of
 * execution are the caller's to add. The engine may be NULL: it is just being made.
 */
void sal_trace_fill(struct sal_trace_entry *entry, const struct sal_engine *engine,
		    const struct sal_record *r, const struct sal_session *s);

/* Copy a name, cut between characters to fit into `size` bytes; what is no UTF-8 becomes '?'. */
void sal_trace_copy_name(char *to, size_t size, const char *from);

static inline bool sal_trace_has_job(const struct sal_trace_entry *entry)
{
	return entry->record.what == SAL_OPEN || entry->record.what == SAL_DECLARE;
}

#endif
