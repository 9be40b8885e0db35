/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay - the events of a recording, put to a fresh engine: does it decide the same again?
 */
#ifndef SAL_SIM_REPLAY_H
#define SAL_SIM_REPLAY_H

#include <stdbool.h>
#include <stddef.h>

#include "core/record.h"
#include "sim/recording.h"

struct sim_replay {
	size_t events, decisions, grants; /* as recorded, up to the difference if there is one */
	bool identical;
	/* The first difference: what was recorded, what was decided now; what 0: nothing. */
	size_t at; /* number of the entry */
	struct sal_record recorded, replayed;
};

/*
 * -SAL_FAILED_PRECONDITION: its beginning is missing; -SAL_DATA_LOSS: an event could not have happened. A
 * difference is no error.
 */
int sim_replay_run(const struct sim_recording *rec, struct sim_replay *out, struct sal_err *err);

#endif
