/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gap - how long the device is idle between two iterations, and when polling for the next iteration
 * pays.
 *
 *     end of an iteration                                  start of the next
 *         |-------------------------- gap ----------------------|
 *         |            asleep             |       polling            |
 *                                        due                       over
 *
 * A job that waits for each result sends its next iteration some time after it got the last result.
 * This time is nearly always the same. Polling from a little before the next iteration saves waking
 * a thread. Polling earlier takes a core from the job itself. Polling longer wastes the core. The
 * lengths of the last gaps say when to poll. If the gaps are long or differ much, the worker sleeps
 * through them.
 *
 * Threads: none. The worker's gap is under server->lock.
 */
#ifndef SAL_SERVICE_GAP_H
#define SAL_SERVICE_GAP_H

#include <stdbool.h>
#include <stdint.h>

#include "service/timing/lengths.h"

struct svc_gap {
	uint64_t from_ns; /* when the gap began; 0: there is no gap now */
	struct svc_lengths lengths;
	uint64_t due_after_ns, over_after_ns;
	bool is_foreseen; /* due_after_ns and over_after_ns are valid */
};

enum svc_gap_phase {
	SVC_GAP_EARLY,
	SVC_GAP_DUE,
	SVC_GAP_OVER /* or there is no gap, or its end is not foreseen */
};

/* No gap is known yet: assume that gaps are long. */
void svc_gap_init(struct svc_gap *g);
void svc_gap_begin(struct svc_gap *g, uint64_t now_ns);
void svc_gap_end(struct svc_gap *g, uint64_t now_ns);
enum svc_gap_phase svc_gap_phase(const struct svc_gap *g, uint64_t now_ns);
/* When polling for the end of the gap begins. */
uint64_t svc_gap_due_ns(const struct svc_gap *g);

#endif
