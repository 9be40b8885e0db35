/* SPDX-License-Identifier: Apache-2.0 */
#include "heap/meter.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

struct meter {
	_Atomic bool is_open;
	_Atomic uint64_t bytes;
	_Atomic uint32_t run; /* number of the run; counts from 1 */
	_Atomic uint64_t run_bytes, run_peak;
};

static struct meter meters[SAL_METERS_MAX];
static _Atomic uint32_t streams[SAL_PAYERS_MAX]; /* by mark: who pays */

static _Thread_local struct {
	struct sal_payer payer;
	bool knows_mark;
	uint32_t mark; /* of its stream; 0: none */
} me;

uint32_t sal_meter_open(void)
{
	/* As late as possible again: see "Meters are in one table" in the header. */
	static _Atomic uint32_t opened;

	for (uint32_t n = 1; n < SAL_METERS_MAX; n++) {
		uint32_t i = 1 + atomic_fetch_add(&opened, 1) % (SAL_METERS_MAX - 1);
		bool expected = false;

		if (atomic_load_explicit(&meters[i].bytes, memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_strong(&meters[i].is_open, &expected, true)) {
			sal_meter_begin(i);
			return i;
		}
	}
	return SAL_NO_METER;
}

void sal_meter_close(uint32_t meter)
{
	if (meter)
		atomic_store(&meters[meter].is_open, false);
}

uint64_t sal_meter_bytes(uint32_t meter)
{
	return meter ? atomic_load_explicit(&meters[meter].bytes, memory_order_relaxed) : 0;
}

void sal_meter_begin(uint32_t meter)
{
	struct meter *m = &meters[meter];

	if (!meter)
		return;
	/*
	 * The number first: blocks of the run before may go at any time, and must not be taken from
	 * the new run. Number 0 means "of no run".
	 */
	if (atomic_fetch_add(&m->run, 1) == UINT32_MAX)
		atomic_store(&m->run, 1);
	atomic_store(&m->run_bytes, 0);
	atomic_store(&m->run_peak, 0);
}

struct sal_meter_run sal_meter_run(uint32_t meter)
{
	const struct meter *m = &meters[meter];

	return (struct sal_meter_run){
		.peak_bytes = atomic_load_explicit(&m->run_peak, memory_order_relaxed),
		.left_bytes = atomic_load_explicit(&m->run_bytes, memory_order_relaxed),
	};
}

struct sal_payer sal_payer_set(struct sal_payer payer)
{
	struct sal_payer before = me.payer;

	me.payer = payer;
	return before;
}

void sal_payer_of_stream(uint32_t mark, uint32_t meter)
{
	if (mark < SAL_PAYERS_MAX)
		atomic_store_explicit(&streams[mark], meter, memory_order_relaxed);
}

/* The real-time signals that the thread blocks, as a number. */
static uint32_t read_mark(void)
{
	uint32_t mark = 0;
	sigset_t set;

	if (pthread_sigmask(SIG_SETMASK, NULL, &set) != 0)
		return 0;
	for (int i = 0; SIGRTMIN + i <= SIGRTMAX; i++)
		mark |= (uint32_t)sigismember(&set, SIGRTMIN + i) << i;
	return mark;
}

struct sal_payer sal_payer_find(void)
{
	uint32_t meter = SAL_NO_METER;

	if (me.payer.is_set)
		return me.payer;
	if (!me.knows_mark) {
		me.mark = read_mark();
		me.knows_mark = true;
	}
	if (me.mark > 0 && me.mark < SAL_PAYERS_MAX)
		meter = atomic_load_explicit(&streams[me.mark], memory_order_relaxed);
	return sal_payer_for(meter, true);
}

void sal_payer_forget(void)
{
	me.knows_mark = false;
}

static void raise_to(_Atomic uint64_t *peak, uint64_t bytes)
{
	uint64_t before = atomic_load_explicit(peak, memory_order_relaxed);

	while (bytes > before &&
	       !atomic_compare_exchange_weak_explicit(peak, &before, bytes, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

/* A block that came just before its run's numbers were reset is not in them. */
static void take_from_run(_Atomic uint64_t *run_bytes, uint64_t bytes)
{
	uint64_t before = atomic_load_explicit(run_bytes, memory_order_relaxed);

	while (!atomic_compare_exchange_weak_explicit(run_bytes, &before,
						      before > bytes ? before - bytes : 0,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

uint32_t sal_meter_add(struct sal_payer payer, uint64_t bytes)
{
	struct meter *m = &meters[payer.meter];
	uint32_t run;

	if (!payer.meter)
		return 0;
	(void)atomic_fetch_add_explicit(&m->bytes, bytes, memory_order_relaxed);
	if (!payer.is_run)
		return 0;
	run = atomic_load_explicit(&m->run, memory_order_relaxed);
	raise_to(&m->run_peak,
		 atomic_fetch_add_explicit(&m->run_bytes, bytes, memory_order_relaxed) + bytes);
	return run;
}

void sal_meter_remove(uint32_t meter, uint32_t run, uint64_t bytes)
{
	struct meter *m = &meters[meter];

	if (!meter)
		return;
	(void)atomic_fetch_sub_explicit(&m->bytes, bytes, memory_order_relaxed);
	if (run && run == atomic_load_explicit(&m->run, memory_order_relaxed))
		take_from_run(&m->run_bytes, bytes);
}
