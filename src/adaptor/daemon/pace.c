/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/daemon/pace.h"

/* The next answers are these. */
#define NEAR 3
#define NAP_NS_MAX UINT64_C(10000000)

bool adp_pace_want(struct adp_pace *pace, uint64_t number, uint64_t answered)
{
	uint64_t before = atomic_load_explicit(&pace->wanted, memory_order_relaxed);

	if (before <= answered || number < before)
		atomic_store_explicit(&pace->wanted, number, memory_order_relaxed);
	return number <= answered + NEAR;
}

uint64_t adp_pace_nap_ns(const struct adp_pace *pace, uint64_t allowed_ns, uint64_t answered,
			 uint64_t owed)
{
	uint64_t wanted = atomic_load_explicit(&pace->wanted, memory_order_relaxed);
	uint64_t until = wanted > answered && wanted - answered < owed ? wanted - answered : owed;

	if (until <= NEAR)
		return 0;
	if (allowed_ns > NAP_NS_MAX)
		allowed_ns = NAP_NS_MAX;
	return allowed_ns * until / owed;
}
