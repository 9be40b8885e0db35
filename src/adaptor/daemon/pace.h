/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace - how long the reader may nap while the job runs ahead of the device.
 *
 * Such a job goes on without most answers. To wake up for each of them takes a core from the
 * computation, twice for each iteration. So the daemon says for how long the device has enough to do
 * (link/holding.h), and the reader naps meanwhile, unless a thread waits for one of the next answers.
 *
 * Answers are numbered in the order of their requests, and come about in this order.
 *
 * Threads: any.
 */
#ifndef SAL_ADAPTOR_DAEMON_PACE_H
#define SAL_ADAPTOR_DAEMON_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The nearest answer that a thread waits for; old ones do not count. */
struct adp_pace {
	_Atomic uint64_t wanted;
};

/* A thread waits for the answer `number`. True: it is one of the next. */
bool adp_pace_want(struct adp_pace *pace, uint64_t number, uint64_t answered);
/* How long to nap, if the daemon allows so long. 0: not longer than usual. */
uint64_t adp_pace_nap_ns(const struct adp_pace *pace, uint64_t allowed_ns, uint64_t answered,
			 uint64_t owed);

#endif
