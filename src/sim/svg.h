/* SPDX-License-Identifier: Apache-2.0 */
/*
 * svg - a picture of a simulation: jobs, lanes and memory over time.
 */
#ifndef SAL_SIM_SVG_H
#define SAL_SIM_SVG_H

#include <stdio.h>

#include "sim/sim.h"

/* One block for each result, on a common time axis. The results must have their spans. */
int sim_svg_write(FILE *out, const struct sim_result *results, size_t count, struct sal_err *err);

#endif
