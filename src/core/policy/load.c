/* SPDX-License-Identifier: Apache-2.0 */
#include "core/policy/load.h"

#define WHOLE_DEVICE UINT64_C(1000000)

static uint64_t load_of(uint64_t time_ns, uint64_t deadline_ns)
{
	uint64_t part;

	if (__builtin_mul_overflow(time_ns, WHOLE_DEVICE, &part))
		return WHOLE_DEVICE * WHOLE_DEVICE;
	return part / deadline_ns;
}

static void book(uint64_t *sum, struct sal_load *load, uint64_t time_ns)
{
	uint64_t booked = time_ns ? load_of(time_ns, load->deadline_ns) : 0;

	*sum += booked - load->load;
	load->load = booked;
	load->time_ns = time_ns;
}

void sal_load_drop(uint64_t *sum, struct sal_load *load)
{
	book(sum, load, 0);
}

static bool was_accepted(const struct sal_load *load, uint64_t time_ns)
{
	return load->time_ns && time_ns / 2 <= load->time_ns;
}

/* Longer times count at once, shorter ones little by little. Other, short programs do not count. */
static void follow(uint64_t *sum, struct sal_load *load, uint64_t time_ns)
{
	if (time_ns > load->time_ns)
		book(sum, load, time_ns);
	else if (time_ns >= load->time_ns / 2)
		book(sum, load, load->time_ns - (load->time_ns - time_ns) / 8);
}

static enum sal_reason judge(uint64_t sum, const struct sal_load *load, uint64_t time_ns,
			     uint64_t *out_value)
{
	*out_value = time_ns;
	if (time_ns > load->deadline_ns)
		return SAL_REFUSE_DEADLINE;
	*out_value = sum - load->load + load_of(time_ns, load->deadline_ns);
	return *out_value > WHOLE_DEVICE ? SAL_REFUSE_LOAD : SAL_REASON_NONE;
}

static bool is_on_trial(struct sal_load *load, const struct sal_session *s, uint64_t time_ns)
{
	if (time_ns / 2 > load->doubted_ns) { /* another program: a trial of its own */
		load->doubted_ns = time_ns;
		load->doubted_from = s->done_iterations;
	}
	return s->done_iterations - load->doubted_from < SAL_LOAD_TRIALS;
}

enum sal_reason sal_load_accepts(uint64_t *sum, struct sal_load *load, const struct sal_session *s,
				 const struct sal_iteration *it, uint64_t *out_value)
{
	uint64_t time_ns = it->expected_ns;
	enum sal_reason reason;

	if (load->deadline_ns != s->job.deadline_ns) {
		sal_load_drop(sum, load);
		*load = (struct sal_load){ .deadline_ns = s->job.deadline_ns };
	}
	if (!load->deadline_ns || !time_ns)
		return SAL_REASON_NONE;
	if (was_accepted(load, time_ns)) {
		follow(sum, load, time_ns);
		return SAL_REASON_NONE;
	}
	reason = judge(*sum, load, time_ns, out_value);
	if (reason != SAL_REASON_NONE)
		return is_on_trial(load, s, time_ns) ? SAL_REASON_NONE : reason;
	book(sum, load, time_ns);
	if (time_ns >= load->doubted_ns / 4) /* the doubt is settled, not put off by a short one */
		load->doubted_ns = 0;
	return SAL_REASON_NONE;
}
