/* SPDX-License-Identifier: Apache-2.0 */
/*
 * picture - the result of a simulation as data for drawings and summaries.
 */
#ifndef SAL_SIM_PICTURE_H
#define SAL_SIM_PICTURE_H

#include <stdio.h>

#include "recording/draw/picture.h"
#include "sim/sim.h"

/*
 * Borrows everything but the jobs from result. sim_picture_fini frees the jobs, also after a
 * failure.
 */
int sim_picture_init(struct rec_picture *picture, const struct sim_result *result,
		     struct sal_err *err);
void sim_picture_fini(struct rec_picture *picture);

int sim_summarise(const struct sim_result *result, struct rec_summary *out_summary,
		  struct sal_err *err);

/* One block for each result, on a common time axis. The results must have their spans. */
int sim_svg_write(FILE *out, const struct sim_result *results, size_t count, struct sal_err *err);

#endif
