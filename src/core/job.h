/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job - the caller's description of a job: facts about the job, and the iterations it submits.
 *
 * The caller embeds an iteration in an object of its own and owns it. The engine links the
 * iteration from submit until done, so submitting allocates nothing.
 */
#ifndef SAL_CORE_JOB_H
#define SAL_CORE_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

enum sal_kind {
	SAL_TRAINING,
	SAL_INFERENCE
};
#define SAL_KINDS 2

/* Device memory. Persistent bytes stay between iterations; ephemeral bytes live inside one. */
struct sal_needs {
	uint64_t persist_bytes;
	uint64_t ephem_bytes;
};

/*
 * Facts and wishes about a job. All of them can change while the job runs. A job with a deadline is
 * an inference job.
 */
struct sal_job {
	enum sal_kind kind;
	bool kind_undeclared; /* nobody declared the kind: the engine may find another (kind.c) */
	uint32_t weight_milli; /* share of the device; 1000 is weight 1; 0 means 1000 */
	uint32_t priority; /* smaller is more important */
	uint64_t total_ns; /* device time of the whole job, declared or remembered; 0: unknown */
	uint64_t deadline_ns; /* from an iteration's submission to its end; 0: none */
	struct sal_needs declared; /* 0: not declared; the engine reserves the needs it sees */
	uint64_t limit_bytes; /* most bytes that the job may use; 0: the device's capacity */
};

/*
 * What the engine has learned about one program. The caller owns it and clears it; iterations of
 * the same program point to the same one, also those of different sessions. Times are device times.
 */
struct sal_pace {
	uint64_t alone_ns; /* mean time of a run with the device to itself; 0: unknown */
	uint32_t runs, alone_runs; /* how many runs it had; how many of them count in alone_ns */
	uint32_t util_milli; /* thousandths of the device that a run alone uses; 0: unknown */
	uint32_t beside_runs; /* how many runs beside others count in util_milli */
	uint32_t told_milli; /* util_milli by the device's own word, from runs alone; 0: unknown */
	uint64_t beside_ns; /* when a run beside others last counted, on the engine's clock */
	uint32_t retries; /* how often in a row the device's word was tried again */
	uint64_t scratch_bytes; /* the most scratch that a run really took; 0: unknown */
};

/* Runs that take so much more than fits, and 5 % of the device, are no reason to refuse a program. */
#define SAL_SCRATCH_TOLERANCE (UINT64_C(32) << 20)

struct sal_iteration {
	uint64_t id; /* chosen by the caller, unique within the session */
	uint64_t program; /* number of its program; for traces */
	struct sal_pace *pace; /* borrowed: the caller's, of its program; NULL: not followed */
	struct sal_needs needs; /* persistent bytes during the run, with outputs; scratch */
	/* The part of needs.ephem_bytes that is a guess, for the first run of a program. */
	uint64_t margin_bytes;
	uint64_t stated_bytes; /* set by the engine: scratch without a guess and experience */
	uint64_t grow_bytes; /* bytes that it adds to the session's tracked_bytes */
	uint64_t expected_ns; /* 0: unknown */
	uint64_t submit_ns; /* set by the engine */
	/*
	 * Set by the caller before it reports the end: how long the iteration kept the whole device
	 * busy, or two halves of it one after the other. 0: the device does not tell.
	 */
	uint64_t busy_ns;
	/* Set by the caller before it reports the end: the scratch that it took. 0: unknown. */
	uint64_t took_bytes;
	TAILQ_ENTRY(sal_iteration) queue_link; /* session->queue */
};

TAILQ_HEAD(sal_iteration_list, sal_iteration);

/* Where a session's persistent bytes are. */
enum sal_place {
	SAL_OUTSIDE,
	SAL_PAGING_IN,
	SAL_RESIDENT,
	SAL_PAGING_OUT
};

#endif
