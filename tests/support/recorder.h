/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorder - records all events and decisions of an engine, as salusd does.
 *
 * Put it between the engine and its listener: call recorder_put first in `emit`.
 */
#ifndef SAL_TESTS_SUPPORT_RECORDER_H
#define SAL_TESTS_SUPPORT_RECORDER_H

#include "core/policy.h"
#include "core/trace.h"
#include "recording/trace.h"

struct recorder {
	struct sal_trace_head head;
	struct sal_trace_entry *entries; /* owned */
	size_t room;
};

/* cfg: the configuration of the engine. */
void recorder_start(struct recorder *r, const struct sal_engine_config *cfg);
void recorder_stop(struct recorder *r);
void recorder_put(struct recorder *r, const struct sal_engine *engine,
		  const struct sal_record *record, const struct sal_session *s,
		  const struct sal_iteration *it);

/*
 * The recording that salusd would return, without the first `dropped` entries. Free it with
 * rec_trace_fini.
 */
struct rec_trace recorder_take(const struct recorder *r, size_t dropped);

/* Writes the recording as JSON, reads it again, and checks that nothing is lost. Free it, too. */
struct rec_trace recorder_round_trip(const struct rec_trace *rec);

/*
 * Replays the recording, after a round trip through JSON, on a new engine: it must make the same
 * decisions. Fails with `what`.
 */
void recorder_replay(const struct recorder *r, const char *what);

#endif
