/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meter - how much memory the vendor has for one session, and how much for one of its runs.
 *
 * On a host device the vendor allocates in many threads: in the thread that calls it, and in
 * threads of its own. Each thread has a payer, which says whose meter counts the blocks that the
 * thread allocates. A block remembers its meter, so any thread may free it.
 *
 *   - A thread of the daemon sets its payer around the calls that it makes for a session.
 *   - A thread of the vendor belongs to a stream. The stream pays with the meter of the session
 *     whose iteration runs in it. The thread knows its stream by a mark: see sal_payer_find.
 *
 * A run is one iteration. Blocks that a thread allocates for a run count as the run's, as long as
 * they live: the most that they are together is what the iteration really takes.
 *
 * Meters are in one table and are used again. A thread may hold the number of a meter whose session
 * has just ended: its block then counts for the next session with this meter, until it is freed.
 *
 * Threads: any. All numbers are atomic. The state is global, because malloc has no argument for it.
 */
#ifndef SAL_HEAP_METER_H
#define SAL_HEAP_METER_H

#include <stdbool.h>
#include <stdint.h>

/* Meter 0 counts nothing: memory of the daemon itself, and copies of paged-out arrays. */
#define SAL_NO_METER 0u
/* Sessions that have a meter at the same time. Further sessions have none. */
#define SAL_METERS_MAX 4096u
/* Streams that pay. */
#define SAL_PAYERS_MAX 1024u

/* { 0 }: the thread pays as its stream does. */
struct sal_payer {
	bool is_set;
	bool is_run; /* what the thread allocates belongs to the run */
	uint32_t meter;
};

static inline struct sal_payer sal_payer_for(uint32_t meter, bool is_run)
{
	return (struct sal_payer){ .is_set = true, .is_run = is_run, .meter = meter };
}

/* What an iteration took: at the most, and what of it is still there. */
struct sal_meter_run {
	uint64_t peak_bytes, left_bytes;
};

/* SAL_NO_METER: all are in use. */
uint32_t sal_meter_open(void);
/* Blocks that are left stay counted. The meter is used again when they are freed. */
void sal_meter_close(uint32_t meter);
/* Bytes of all blocks of the meter whose pages are in memory. */
uint64_t sal_meter_bytes(uint32_t meter);

/* A run begins; the one before has ended. */
void sal_meter_begin(uint32_t meter);
struct sal_meter_run sal_meter_run(uint32_t meter);

/* Sets the payer of the calling thread. Returns the payer before. */
struct sal_payer sal_payer_set(struct sal_payer payer);
/* The streams with this mark pay with this meter from now on. Marks from 1 on. */
void sal_payer_of_stream(uint32_t mark, uint32_t meter);
/*
 * The payer of the calling thread. A thread without a payer of its own reads its mark once: the
 * real-time signals that it blocks, which it inherited from its creator.
 */
struct sal_payer sal_payer_find(void);
/* The calling thread reads its mark again. */
void sal_payer_forget(void);

/* For the heap: a block of the meter comes or goes. add returns the number of the run, 0: none. */
uint32_t sal_meter_add(struct sal_payer payer, uint64_t bytes);
void sal_meter_remove(uint32_t meter, uint32_t run, uint64_t bytes);

#endif
