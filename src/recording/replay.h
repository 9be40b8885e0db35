/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay - feeds the events of a trace to a fresh engine and compares the decisions.
 */
#ifndef SAL_RECORDING_REPLAY_H
#define SAL_RECORDING_REPLAY_H

#include <stdbool.h>
#include <stddef.h>

#include "core/record.h"
#include "recording/trace.h"

struct sal_policy;

struct rec_replay {
	size_t events, decisions, grants; /* as recorded, up to the difference if there is one */
	bool identical;
	/* The first difference: the recorded decision and the new one. what 0: none. */
	size_t at; /* number of the entry */
	struct sal_record recorded, replayed;
};

/*
 * `policies` are those that are not built in, ended by NULL; NULL: there are none.
 * -SAL_FAILED_PRECONDITION: the beginning is missing; -SAL_DATA_LOSS: an event could not have
 * happened. A difference is no error.
 */
int rec_replay_run(const struct rec_trace *trace, const struct sal_policy *const *policies,
		   struct rec_replay *out, struct sal_err *err);

#endif
