/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuning - numbers that a person may change while jobs run.
 *
 * There are two kinds: the knobs of the engine (struct sal_tuning), the same under every policy,
 * and the parameters of a policy, which the policy describes and keeps. Both have a name, a unit, a
 * default, a range and a sentence, so that `--tune NAME=VALUE`, `salus policy NAME a=b` and their
 * messages need to know none of them.
 */
#ifndef SAL_CORE_TUNING_H
#define SAL_CORE_TUNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct sal_policy;

#define SAL_LANES_MAX 64

/* Parameters of one policy. */
#define SAL_PARAMS_MAX 4

/* Longest name of a knob or parameter, with its NUL. */
#define SAL_PARAM_NAME_BYTES 32

/* Knobs. sal_tuning_default() fills in what suits most machines. */
struct sal_tuning {
	uint32_t lanes; /* most lanes at once; 0: as many as the policy wants */
	uint32_t lane_cap; /* most the policy may want; 0: no bound */
	uint64_t page_bytes_per_s; /* between device and host; 0: no paging */
	uint32_t page_margin; /* a swap must buy this many times the time its copies take */
	uint32_t pass_bound; /* times a waiting session may be passed over before it blocks */
	uint64_t anticipate_ns; /* longest time that a turn is reserved between two iterations */
	uint64_t short_ns; /* iterations expected to be shorter pass without a decision */
	uint64_t idle_ns; /* a session idle that long gives up its memory to one that waits */
	uint64_t guess_ns; /* srtf: least a job of unknown length is taken to need */
	uint64_t stuck_ns; /* others leave a lane whose iteration runs that long; 0: never */
};

/* What salusd uses: others go on within a second. The simulator's iterations all end. */
#define SAL_STUCK_NS UINT64_C(500000000)

void sal_tuning_default(struct sal_tuning *tuning);

enum sal_unit {
	SAL_UNIT_COUNT,
	SAL_UNIT_TIME /* in ns; people write 20ms */
};

struct sal_param {
	const char *name;
	const char *about; /* one line for people */
	enum sal_unit unit;
	uint64_t standard, min, max; /* the default, and the range */
};

/* The knobs that have a name, ended by one without; the others have options of their own. */
extern const struct sal_param sal_knobs[];

uint64_t sal_knob_get(const struct sal_tuning *tuning, uint32_t knob);
void sal_knob_set(struct sal_tuning *tuning, uint32_t knob, uint64_t value);

/* The value as people read it; returns text, which has SAL_UNITS_TEXT bytes or more. */
const char *sal_param_format(const struct sal_param *param, uint64_t value, char *text,
			     size_t size);

/* A new value of a knob, or of a parameter of one policy. */
struct sal_change {
	bool is_knob;
	uint32_t index; /* in sal_knobs, or in the policy's params */
	uint64_t value;
};

/*
 * Read `name=value`. Fails with a sentence: -SAL_NOT_FOUND if there is no such knob and the policy
 * has no such parameter, -SAL_INVALID_ARGUMENT or -SAL_OUT_OF_RANGE if the value is none.
 */
int sal_change_parse(const struct sal_policy *policy, const char *pair, struct sal_change *out,
		     struct sal_err *err);

#endif
