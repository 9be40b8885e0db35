/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace - how long the reader may nap while the job runs ahead of the device.
 *
 * Such a job goes on without most answers. To wake up for each of them takes a core from the
 * computation, twice for each iteration. So the daemon says for how long the device has enough to do
 * (link/holding.h), and the reader naps meanwhile, unless a thread waits for one of the next answers,
 * or for one that may come at any time.
 *
 * Answers are numbered in the order of their requests. Those of iterations come about in this order;
 * those of questions come when they please.
 *
 * Threads: any may count. The rest is under the take lock.
 */
#ifndef SAL_ADAPTOR_DAEMON_PACE_H
#define SAL_ADAPTOR_DAEMON_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The number of an answer that may come at any time. */
#define ADP_ANY_TIME UINT64_C(0)

struct adp_pace {
	uint64_t wanted; /* the nearest answer that a thread waits for; old ones do not count */
	uint64_t until; /* the reader naps until about this answer has come; 0: it does not */
	_Atomic int32_t waits; /* answers that threads wait for */
	_Atomic int32_t urgent; /* those of them that may come at any time */
};

/* One wait more (1) or less (-1) for this answer. */
void adp_pace_count(struct adp_pace *pace, uint64_t number, int32_t change);
/* A thread, which is counted, waits for this answer. True: the reader must not nap for so long. */
bool adp_pace_want(struct adp_pace *pace, uint64_t number, uint64_t answered);
/* How long to nap, if the daemon allows so long. 0: not longer than usual. */
uint64_t adp_pace_nap_ns(struct adp_pace *pace, uint64_t allowed_ns, uint64_t answered,
			 uint64_t owed);

#endif
