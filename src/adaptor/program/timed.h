/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timed - an execution during a profile: the daemon's answer has the times, for the timeline.
 *
 * Threads: any.
 */
#ifndef SAL_ADAPTOR_PROGRAM_TIMED_H
#define SAL_ADAPTOR_PROGRAM_TIMED_H

#include "adaptor/python/calls.h"

struct adp_program;

/*
 * Puts itself before the listener: it notes the times, then the listener learns of the end. True:
 * the record must ask for the times. False: nobody takes a profile, and nothing changes.
 */
bool adp_timed_begin(const struct adp_program *program, struct adp_listener *listener);
/* There will be no answer: undoes adp_timed_begin. */
void adp_timed_drop(struct adp_listener *listener);

#endif
