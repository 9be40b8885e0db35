/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job - what callers tell the engine: facts about a job, and the iterations it submits.
 *
 * An iteration is embedded in an object of the caller's and belongs to the caller; the engine links
 * it from submit until done, so that submitting allocates nothing.
 */
#ifndef SAL_CORE_JOB_H
#define SAL_CORE_JOB_H

#include <stdint.h>
#include <sys/queue.h>

enum sal_kind {
	SAL_TRAINING,
	SAL_INFERENCE
};
#define SAL_KINDS 2

/* Device memory: persistent bytes stay between iterations, ephemeral ones live inside one. */
struct sal_needs {
	uint64_t persist_bytes;
	uint64_t ephem_bytes;
};

/* What is known or wished about a job. Everything can be changed while it runs. */
struct sal_job {
	enum sal_kind kind;
	uint32_t weight_milli; /* share of the device, 1000 is one; 0 reads as 1000 */
	uint32_t priority; /* smaller is more important */
	uint64_t total_ns; /* device time of the whole job, declared or remembered; 0: unknown */
	struct sal_needs declared; /* zero: not declared, the reservation follows what is seen */
	uint64_t limit_bytes; /* most it may ever hold; 0: the device's capacity */
};

struct sal_iteration {
	uint64_t id; /* the caller's name for it, unique within its session */
	struct sal_needs needs; /* persistent bytes while it runs, outputs included; scratch */
	uint64_t grow_bytes; /* what it adds to the bytes the session holds by its own account */
	uint64_t expected_ns; /* 0: unknown */
	uint64_t submit_ns; /* set by the engine */
	TAILQ_ENTRY(sal_iteration) queue_link; /* in its session's queue */
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
