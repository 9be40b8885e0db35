/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crew - the threads of one stream of a host device: their priority and their CPU time.
 *
 * On a host device the vendor's threads compute. A new thread inherits two things from its creator
 * that matter here, and so do the threads that it creates later:
 *
 *   - the nice value and the scheduling class. Threads of a stream of tier 1 have SAL_TIER_NICE
 *     and SCHED_IDLE: a thread of tier 0 that wakes up runs at once in their place. Where the
 *     system refuses the class, the nice value counts;
 *   - the set of blocked signals. Nobody sends real-time signals here. So the set of blocked
 *     real-time signals is a number, the mark of the stream. /proc shows it for each thread.
 *
 * A thread that wakes up interrupts another one, unless its scheduling class is SCHED_BATCH. Where
 * nobody is urgent, this costs time: the stream whose thread was interrupted waits for it. So the
 * threads of even streams are batch threads. Measured on XLA:CPU, 2 cores, with two CNN training
 * jobs of 1.2 ms a step: together they then go 1.1 times as fast.
 *
 * A thread that lowered its priority cannot raise it again without privilege. So a stream of tier 1
 * has a thread of its own. This thread creates the vendor's client, and makes the calls in which
 * the vendor may compute. With privilege a stream can change its tier: all threads that were found
 * change, except its own one.
 *
 * The crew looks for its threads when calls are measured, not when the client is made. A thread
 * that was just made has no mark yet, and a vendor may make threads later. Of a thread that is
 * found, only the CPU time from then on counts: so the sum never jumps.
 *
 * Owns: its own thread, the list of threads. Threads: any thread may make a call or read the CPU
 * time. The list only grows, so reading needs no lock.
 */
#ifndef SAL_DEVICE_PJRT_CREW_H
#define SAL_DEVICE_PJRT_CREW_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef void crew_call_fn(void *ctx);

/* On a machine with more cores the crew cannot tell its CPU time. */
#define CREW_THREADS_MAX 512

struct crew_thread {
	pid_t id;
	uint64_t base_ns; /* its CPU time when it was found */
};

struct vendor_crew {
	uint32_t mark;
	pthread_mutex_t listing; /* the list of threads and their class change under it */
	struct crew_thread *threads; /* owned; CREW_THREADS_MAX; NULL: none was found yet */
	_Atomic uint32_t thread_count;
	_Atomic uint32_t measured; /* calls so far */
	_Atomic uint64_t guest_ns; /* CPU time of other threads in measured calls */

	/* Of the threads that were found, except the own one. */
	_Atomic bool is_even;
	_Atomic uint32_t tier;
	int nice; /* in tier 0 */
	uint32_t changes; /* of the tier, so far */
	_Atomic bool has_own; /* the stream is of tier 1, or was */
	pthread_t own;
	_Atomic pid_t own_id;
	pthread_mutex_t lock;
	pthread_cond_t asked, answered;
	/* under the lock */
	crew_call_fn *call; /* that the own thread makes; NULL: none */
	void *ctx;
	bool ends;
};

/* Starts the own thread for a tier above 0. Returns 0 or an errno; call fini after 0 only. */
int sal_crew_init(struct vendor_crew *c, uint32_t mark, uint32_t tier);
/* The vendor's client must be gone. */
void sal_crew_fini(struct vendor_crew *c);

/* Makes a call that creates threads of the crew. Waits for its end. */
void sal_crew_create(struct vendor_crew *c, crew_call_fn *call, void *ctx);
/* Makes a call that may compute, at the priority of the crew. Waits for its end. */
void sal_crew_call(struct vendor_crew *c, crew_call_fn *call, void *ctx);

/* May this process raise the priority of threads, so that streams can change their tier? */
bool sal_crew_can_raise(void);
/* Only if it may. The tier stays as it is if there is no thread to be had, or threads are listed now. */
void sal_crew_set_tier(struct vendor_crew *c, uint32_t tier);
/* Does the own thread make the calls in which the vendor may compute? */
static inline bool sal_crew_calls_own(const struct vendor_crew *c)
{
	return atomic_load_explicit(&c->tier, memory_order_relaxed) > 0 &&
	       atomic_load_explicit(&c->has_own, memory_order_acquire);
}

/* Is nobody urgent? A change costs a search for the threads. */
void sal_crew_set_even(struct vendor_crew *c, bool is_even);

/* Call this before each measured call. It looks for new threads, again and again but ever rarer. */
void sal_crew_muster(struct vendor_crew *c);
/* CPU time that the crew used so far, with guest_ns. 0: unknown. Does not block. */
uint64_t sal_crew_busy_ns(const struct vendor_crew *c);

#endif
