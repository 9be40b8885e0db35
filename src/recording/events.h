/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events - the Trace Event Format of Perfetto and chrome://tracing, one event per line.
 *
 * Texts are UTF-8; the code that reads them checks that. Errors show in ferror(out).
 */
#ifndef SAL_RECORDING_EVENTS_H
#define SAL_RECORDING_EVENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct rec_events {
	FILE *out; /* borrowed */
	unsigned pid; /* from 1; a process is a device */
	uint64_t origin_ns; /* where its time starts */
};

/* JSON values: a text in quotes; a number, in quotes if it is too large for most readers. */
void rec_json_text(FILE *out, const char *text);
void rec_json_number(FILE *out, uint64_t number);

/* The first event of a process, and of the file if its pid is 1. */
void rec_event_process(const struct rec_events *e, const char *name);
void rec_event_track(const struct rec_events *e, unsigned track, const char *name);

/* Starts an event. The caller writes the end: `}`, or `,"args":{...}}`. */
void rec_event_open(const struct rec_events *e, const char *phase, unsigned track, uint64_t at_ns);
void rec_event_interval(const struct rec_events *e, unsigned track, uint64_t from_ns,
			uint64_t to_ns);
void rec_event_name(const struct rec_events *e, const char *name);

#endif
