/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace - the events and decisions of an engine, in memory and as JSON. docs/TRACE.md has the
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

/* For the files of this layer. Other code treats it as opaque. */
struct rec_trace {
	struct sal_trace_head *head; /* owned */
	struct sal_trace_entry *entries; /* owned; head->count of them */
	struct sal_trace_name *names; /* owned; head->name_count of them */
};

/* Called now and then while a trace is written; may be NULL. */
struct rec_progress {
	void (*tell)(void *ctx, size_t done, size_t of);
	void *ctx;
};

/*
 * Copies the trace that salusd handed out (core/trace.h). size may exceed the trace.
 * -SAL_UNAVAILABLE: salusd took it back meanwhile.
 */
int rec_trace_copy(const void *bytes, size_t size, struct rec_trace *out, struct sal_err *err);

/* Reads the key "salus" of a JSON file. -SAL_NOT_FOUND: no such file; -SAL_DATA_LOSS: no trace. */
int rec_trace_read(const char *path, struct rec_trace *out, struct sal_err *err);

void rec_trace_fini(struct rec_trace *trace);

/* Number of entries, and of older entries that were dropped. */
size_t rec_trace_count(const struct rec_trace *trace);
size_t rec_trace_dropped(const struct rec_trace *trace);

/* Writes events for Perfetto, with everything that rec_trace_read needs. */
int rec_trace_write(FILE *out, const struct rec_trace *trace, const struct rec_progress *progress,
		    struct sal_err *err);

/* Draws jobs, lanes and memory over time as SVG. */
int rec_trace_draw(FILE *out, const struct rec_trace *trace, struct sal_err *err);

/* Lists the entries as JSON objects. */
void rec_trace_list(FILE *out, const struct rec_trace *trace, const struct rec_progress *progress);

#endif
