/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pause - how long the device has nothing to do between iterations, and when it pays to poll for the next.
 *
 *     end of an iteration                                  start of the next
 *         |------------------------ pause ----------------------|
 *         |            asleep             |       polling            |
 *                                        due                       over
 *
 * A job that waits for each result sends its next iteration some time after it got the last, mostly the same time.
 * Polling from a little before then spares it the waking of a thread. Polling earlier would keep a core from the job
 * itself; polling longer would waste it. What the last pauses took says when: the few shortest and longest of them do
 * not count, for now and then a job does something else. Pauses that are long, or of all lengths, are slept through.
 */
#ifndef SVC_PAUSE_H
#define SVC_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

#define SVC_PAUSES 16

struct svc_pause {
	uint64_t from_ns; /* it began then; 0: there is none */
	uint64_t last_ns[SVC_PAUSES]; /* what the last ones took, in no order */
	uint32_t next; /* the oldest of them */
	uint64_t due_after_ns, over_after_ns;
	bool is_foreseen; /* these two mean something */
};

enum svc_pause_phase {
	SVC_PAUSE_EARLY,
	SVC_PAUSE_DUE,
	SVC_PAUSE_OVER /* or there is none, or nothing can be said */
};

/* Nothing is known: pauses are taken to be long. */
void svc_pause_init(struct svc_pause *p);
void svc_pause_begin(struct svc_pause *p, uint64_t now_ns);
void svc_pause_end(struct svc_pause *p, uint64_t now_ns);
enum svc_pause_phase svc_pause_phase(const struct svc_pause *p, uint64_t now_ns);
/* When its end is due: polling begins then. */
uint64_t svc_pause_due_ns(const struct svc_pause *p);

#endif
