/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recording - what an engine was told and what it decided, in memory and as JSON. docs/TRACE.md has the
 * format.
 */
#ifndef SAL_SIM_RECORDING_H
#define SAL_SIM_RECORDING_H

#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

struct sal_trace_head;
struct sal_trace_entry;
struct sal_trace_name;

/* The files of a recording and those that use it share this; others need not know more. */
struct sim_recording {
	struct sal_trace_head *head; /* owned */
	struct sal_trace_entry *entries; /* owned; head->count of them */
	struct sal_trace_name *names; /* owned; head->name_count of them */
};

/* Called now and then by those who write; may be NULL. */
struct sim_progress {
	void (*tell)(void *ctx, size_t done, size_t of);
	void *ctx;
};

/*
 * A copy of what salusd handed out (core/trace.h), which may be larger than what is in it. -SAL_UNAVAILABLE: salusd
 * took it back meanwhile.
 */
int sim_recording_copy(const void *bytes, size_t size, struct sim_recording *out,
		       struct sal_err *err);

/* The key "salus" of a JSON file. -SAL_NOT_FOUND: no such file; -SAL_DATA_LOSS: no recording. */
int sim_recording_read(const char *path, struct sim_recording *out, struct sal_err *err);

void sim_recording_fini(struct sim_recording *rec);

/* Entries there are, and how many came before them. */
size_t sim_recording_count(const struct sim_recording *rec);
size_t sim_recording_dropped(const struct sim_recording *rec);

/* For Perfetto, with all that is needed to read it back. */
int sim_recording_write(FILE *out, const struct sim_recording *rec,
			const struct sim_progress *progress, struct sal_err *err);

/* For people: an SVG picture of jobs, lanes and memory over time. */
int sim_recording_draw(FILE *out, const struct sim_recording *rec, struct sal_err *err);

/* For programs: the entries as objects. */
void sim_recording_list(FILE *out, const struct sim_recording *rec,
			const struct sim_progress *progress);

#endif
