/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuning - numbers that people can change while jobs run.
 *
 * There are two kinds. Knobs belong to the engine (struct sal_tuning) and are the same under every
 * policy. Parameters belong to one policy, which describes and stores them. Both have a name, a
 * unit, a default, a range and a sentence. So `--tune NAME=VALUE`, `salus policy NAME a=b` and
 * their messages name no knob or parameter in their code.
 */
#ifndef SAL_CORE_TUNING_H
#define SAL_CORE_TUNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct sal_policy;

#define SAL_LANES_MAX 64

/* As many lanes as pay: see core/engine/pay.c. */
#define SAL_LANES_AUTO (SAL_LANES_MAX + 1)

/* Most parameters of one policy. */
#define SAL_PARAMS_MAX 4

/* Most bytes in the name of a knob or parameter, with its NUL. */
#define SAL_PARAM_NAME_BYTES 32

/* Knobs. sal_tuning_default() sets values that suit most machines. */
struct sal_tuning {
	uint32_t lanes; /* most lanes at once; 0: the policy decides; or SAL_LANES_AUTO */
	uint32_t lane_cap; /* most lanes if `lanes` is no number; 0: no bound */
	uint64_t page_bytes_per_s; /* copy speed between device and host; 0: no paging */
	uint32_t page_margin; /* a swap must gain this many times the time of its copies */
	uint32_t pass_bound; /* a session that is passed over more often than this blocks others */
	uint64_t anticipate_ns; /* longest reservation of a turn between two iterations */
	uint64_t short_ns; /* iterations expected to be shorter go ahead of the order */
	uint64_t idle_ns; /* a session idle for this long is paged out for a waiting one */
	uint64_t guess_ns; /* srtf, mix: least remaining time assumed for a job of unknown length */
	uint64_t stuck_ns; /* a lane is stuck if its iteration runs for this long; 0: never */
	uint64_t move_ns; /* a session changes its lane at most once in this time; 0: it costs nothing */
	uint32_t slow_percent; /* how much slower the first in rank may get beside others */
	/*
	 * 1: the device runs iterations of tier 1 behind those of tier 0, and a change of the tier
	 * costs something. 2: it costs nothing.
	 */
	uint32_t tiers;
};

/* The value in salusd: other sessions go on within a second. In the simulator no lane is stuck. */
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
	uint64_t standard, min, max; /* the default and the range */
};

/* The knobs with a name; the last entry has none. The other knobs have options of their own. */
extern const struct sal_param sal_knobs[];

uint64_t sal_knob_get(const struct sal_tuning *tuning, uint32_t knob);
void sal_knob_set(struct sal_tuning *tuning, uint32_t knob, uint64_t value);

/* Writes the value for people. `text` has SAL_UNITS_TEXT bytes or more. Returns text. */
const char *sal_param_format(const struct sal_param *param, uint64_t value, char *text,
			     size_t size);

/* A new value for a knob, or for a parameter of one policy. */
struct sal_change {
	bool is_knob;
	uint32_t index; /* in sal_knobs, or in the policy's params */
	uint64_t value;
};

/*
 * Read `name=value`. Fails with a sentence in err: -SAL_NOT_FOUND if neither the engine nor the
 * policy knows the name, -SAL_INVALID_ARGUMENT if the text cannot be read, -SAL_OUT_OF_RANGE if the
 * value is outside the range.
 */
int sal_change_parse(const struct sal_policy *policy, const char *pair, struct sal_change *out,
		     struct sal_err *err);

#endif
