/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chrome - the decisions of a simulation in the Trace Event Format, for Perfetto and
 * chrome://tracing.
 */
#ifndef SAL_SIM_CHROME_H
#define SAL_SIM_CHROME_H

#include <stdio.h>

#include "sim/sim.h"

/*
 * Each result is a process; a track for each lane and each job, counters for memory and the queue.
 * The results must have their records.
 */
int sim_chrome_write(FILE *out, const struct sim_result *results, size_t count,
		     struct sal_err *err);

#endif
