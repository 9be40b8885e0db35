/* SPDX-License-Identifier: Apache-2.0 */
/* execution - what a device needs to run a program once, and how it reports the end. */
#ifndef SAL_DEVICE_EXECUTION_H
#define SAL_DEVICE_EXECUTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/call.h"

struct sal_buffer;

/* code is 0 or a positive enum sal_code; message is valid during the call. */
typedef void sal_done_fn(void *ctx, int code, const char *message);
/* Gets the bytes of a buffer in place, in the format of download. They stay during the call. */
typedef void sal_use_fn(void *bytes, size_t size, void *ctx);

struct sal_execution {
	/*
	 * For each chip of the program a list of arguments and a list of outputs, one list behind
	 * the other. The counts are those of one list.
	 */
	struct sal_buffer *const *args;
	size_t arg_count;
	const int64_t *retained; /* arguments that must not be donated, in no list */
	size_t retained_count;
	struct sal_buffer **outputs; /* filled in; one for each output of the program */
	size_t output_count;
	size_t chip_count; /* of the program; 0: one */
	uint32_t chip; /* that runs the program, if it is portable */
	/*
	 * The call is known to return before the program computes. So a stream of tier 1 needs no
	 * thread of low priority for the call.
	 */
	bool is_quick;
	bool is_even; /* nobody is urgent: the stream need not interrupt others */
	bool is_measured; /* busy_ns counts the CPU time of this call */
	sal_done_fn *done; /* all outputs are defined, or failed */
	void *done_ctx;
	uint32_t meter; /* counts the host memory that the iteration takes: heap/meter.h; 0: none */
	sal_call_fn *call; /* serves the program's calls (call.h); NULL: calls fail */
	void *call_ctx;
};

/*
 * How many tiers there are, and the nice value of all threads that compute for tier 1. Measured on
 * XLA:CPU: beside tier 1 at nice 10, a job of tier 0 is 7 % slower than alone; at 19 it is as fast
 * as alone. 15 lies between them, so that tier 1 is still ahead of a user's background work at 19.
 */
#define SAL_TIERS 2
#define SAL_TIER_NICE 15

/* What a device says of the memory of a stream. 0: it does not say. */
struct sal_stream_memory {
	uint64_t used_bytes, peak_bytes;
};

#endif
