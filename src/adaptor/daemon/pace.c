/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/daemon/pace.h"

/* The next answers are these. */
#define NEAR 3
#define NAP_NS_MAX UINT64_C(10000000)

void adp_pace_count(struct adp_pace *pace, uint64_t number, int32_t change)
{
	(void)atomic_fetch_add_explicit(&pace->waits, change, memory_order_relaxed);
	if (number == ADP_ANY_TIME)
		(void)atomic_fetch_add_explicit(&pace->urgent, change, memory_order_relaxed);
}

bool adp_pace_want(struct adp_pace *pace, uint64_t number, uint64_t answered)
{
	if (number == ADP_ANY_TIME)
		return true;
	if (pace->wanted <= answered || number < pace->wanted)
		pace->wanted = number;
	return number <= answered + NEAR || number <= pace->until;
}

/* Does a thread wait for an answer that comes nobody knows when? */
static bool is_unknown(const struct adp_pace *pace, uint64_t answered)
{
	return atomic_load_explicit(&pace->urgent, memory_order_relaxed) > 0 ||
	       (atomic_load_explicit(&pace->waits, memory_order_relaxed) > 0 &&
		pace->wanted <= answered);
}

uint64_t adp_pace_nap_ns(struct adp_pace *pace, uint64_t allowed_ns, uint64_t answered,
			 uint64_t owed)
{
	uint64_t wanted = pace->wanted;
	uint64_t ahead = wanted > answered && wanted - answered < owed ? wanted - answered : owed;

	pace->until = 0;
	if (ahead <= NEAR || is_unknown(pace, answered))
		return 0;
	if (allowed_ns > NAP_NS_MAX)
		allowed_ns = NAP_NS_MAX;
	pace->until = answered + ahead;
	return allowed_ns * ahead / owed;
}
