/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline - what the daemon did with this process's iterations, for a profile.
 *
 * While a framework takes a profile, the daemon tells with each completion when the iteration was
 * submitted, granted, started and ended, and when the job was paged. The timeline keeps this. It
 * becomes a plane of the profile with three lines:
 *
 *     iterations   |== jit_step ==|                         |== jit_step ==|
 *     waits                        |--- waits for its turn -|
 *     paging                        |out|             |in|
 *
 * The profiler's interface has no object of ours in its calls, and a process takes one profile at a
 * time: so there is one timeline in the process. Threads: any.
 */
#ifndef SAL_ADAPTOR_TIMELINE_H
#define SAL_ADAPTOR_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/facts.h"

struct sal_times;

/* Does somebody take a profile? */
bool adp_timeline_is_on(void);
/* Forgets earlier iterations. */
void adp_timeline_start(void);
void adp_timeline_stop(void);
void adp_timeline_add(struct sal_text program, const struct sal_times *times);
/*
 * The iterations as an XSpace, the format of profiles. The caller frees the bytes. NULL: there are
 * none, or no memory.
 */
void *adp_timeline_write(size_t *out_size);

#endif
