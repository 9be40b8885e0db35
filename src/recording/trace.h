/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace - what an engine was told and what it decided, in memory and as JSON. docs/TRACE.md has the
 * format.
 */
#ifndef SAL_RECORDING_TRACE_H
#define SAL_RECORDING_TRACE_H

#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

struct sal_trace_head;
struct sal_trace_entry;
struct sal_trace_name;

/* The files of a trace and those that use it share this; others need not know more. */
struct rec_trace {
	struct sal_trace_head *head; /* owned */
	struct sal_trace_entry *entries; /* owned; head->count of them */
	struct sal_trace_name *names; /* owned; head->name_count of them */
};

/* Called now and then by those who write; may be NULL. */
struct rec_progress {
	void (*tell)(void *ctx, size_t done, size_t of);
	void *ctx;
};

/*
 * A copy of what salusd handed out (core/trace.h), which may be larger than what is in it. -SAL_UNAVAILABLE: salusd
 * took it back meanwhile.
 */
int rec_trace_copy(const void *bytes, size_t size, struct rec_trace *out, struct sal_err *err);

/* The key "salus" of a JSON file. -SAL_NOT_FOUND: no such file; -SAL_DATA_LOSS: no trace. */
int rec_trace_read(const char *path, struct rec_trace *out, struct sal_err *err);

void rec_trace_fini(struct rec_trace *trace);

/* Entries there are, and how many came before them. */
size_t rec_trace_count(const struct rec_trace *trace);
size_t rec_trace_dropped(const struct rec_trace *trace);

/* For Perfetto, with all that is needed to read it back. */
int rec_trace_write(FILE *out, const struct rec_trace *trace, const struct rec_progress *progress,
		    struct sal_err *err);

/* For people: an SVG picture of jobs, lanes and memory over time. */
int rec_trace_draw(FILE *out, const struct rec_trace *trace, struct sal_err *err);

/* For programs: the entries as objects. */
void rec_trace_list(FILE *out, const struct rec_trace *trace, const struct rec_progress *progress);

#endif
