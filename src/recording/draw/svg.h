/* SPDX-License-Identifier: Apache-2.0 */
/*
 * svg - pictures of schedules as an SVG file: jobs, lanes and memory over time.
 */
#ifndef SAL_RECORDING_DRAW_SVG_H
#define SAL_RECORDING_DRAW_SVG_H

#include <stdio.h>

#include "recording/draw/picture.h"

/* One block for each picture, on a common time axis. All have the same jobs and the same device. */
int rec_svg_write(FILE *out, const struct rec_picture *pictures, size_t count, struct sal_err *err);

#endif
