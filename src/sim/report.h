/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report - the outcome of a simulation, for people and for programs.
 */
#ifndef SAL_SIM_REPORT_H
#define SAL_SIM_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/words.h"
#include "sim/sim.h"

/* A table with a row for each result, then one for each job if asked for. */
int sim_report_text(FILE *out, const struct sim_result *results, size_t count, bool with_jobs,
		    struct sal_err *err);

/* One JSON object, {"policies": [...]}. */
int sim_report_json(FILE *out, const struct sim_result *results, size_t count, bool with_jobs,
		    struct sal_err *err);

/*
 * Explains in one sentence why jobs were refused; out stays empty if none was. Returns false if
 * every job of every result was refused.
 */
bool sim_report_refusals(const struct sim_result *results, size_t count, struct sal_words *out);

/* Tells of each policy that was replaced by fifo, and why; out stays empty if none was. */
void sim_report_ejections(const struct sim_result *results, size_t count, struct sal_words *out);

#endif
