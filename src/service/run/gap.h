/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gap - how long the device has nothing to do between two iterations, and when it pays to poll for
 * the next.
 *
 *     end of an iteration                                  start of the next
 *         |-------------------------- gap ----------------------|
 *         |            asleep             |       polling            |
 *                                        due                       over
 *
 * A job that waits for each result sends its next iteration some time after it got the last, mostly
 * the same time. Polling from a little before that moment saves the waking of a thread. Polling
 * earlier would keep a core from the job itself; polling longer would waste it. The lengths of the
 * last gaps say when to poll. The few shortest and longest of them do not count, because a job does
 * something else now and then. Gaps that are long, or differ much, are slept through.
 *
 * Threads: none. The worker's gap is under server->lock.
 */
#ifndef SAL_SERVICE_GAP_H
#define SAL_SERVICE_GAP_H

#include <stdbool.h>
#include <stdint.h>

#define SVC_GAPS 16

struct svc_gap {
	uint64_t from_ns; /* when it began; 0: there is none */
	uint64_t last_ns[SVC_GAPS]; /* lengths of the last gaps, in no order */
	uint32_t next; /* index of the oldest of them */
	uint64_t due_after_ns, over_after_ns;
	bool is_foreseen; /* due_after_ns and over_after_ns are valid */
};

enum svc_gap_phase {
	SVC_GAP_EARLY,
	SVC_GAP_DUE,
	SVC_GAP_OVER /* or there is no gap, or its end is not foreseen */
};

/* Nothing is known: gaps are taken to be long. */
void svc_gap_init(struct svc_gap *g);
void svc_gap_begin(struct svc_gap *g, uint64_t now_ns);
void svc_gap_end(struct svc_gap *g, uint64_t now_ns);
enum svc_gap_phase svc_gap_phase(const struct svc_gap *g, uint64_t now_ns);
/* When polling for its end begins. */
uint64_t svc_gap_due_ns(const struct svc_gap *g);

#endif
