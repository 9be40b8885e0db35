/* SPDX-License-Identifier: Apache-2.0 */
#include "service/timing/nap.h"

#include "link/holding.h"

/* With so few the client may be about to wait for one of them. */
#define FEW 3
/* A client learns of memory that is free again after so long at most. */
#define NAP_NS_MAX UINT64_C(10000000)

/* Times become shorter after the first runs, and when others leave the device: the least counts. */
static uint64_t least(uint64_t queued_ns, uint32_t count, uint64_t last_ns)
{
	if (last_ns > NAP_NS_MAX)
		return queued_ns;
	return queued_ns < count * last_ns ? queued_ns : count * last_ns;
}

void svc_nap_publish(struct sal_holding *holding, uint32_t queued_count, uint64_t queued_ns,
		     uint64_t last_ns)
{
	uint64_t ns = queued_count > FEW ? least(queued_ns, queued_count, last_ns) / 2 : 0;

	if (holding)
		atomic_store_explicit(&holding->nap_ns, ns < NAP_NS_MAX ? ns : NAP_NS_MAX,
				      memory_order_relaxed);
}
