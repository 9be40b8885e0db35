/* SPDX-License-Identifier: Apache-2.0 */
#include "service/timing/due.h"

/* A sleeping worker wakes up in half of this time. */
#define EARLY_NS UINT64_C(100000)
/* Polling takes at most so long, or such a part of the iteration. */
#define POLL_NS_MAX UINT64_C(1000000)
#define PART_MAX 8

struct svc_due svc_due(const struct svc_lengths *lengths, uint64_t start_ns)
{
	uint64_t low_ns = lengths->low_ns > EARLY_NS ? lengths->low_ns - EARLY_NS : 0;
	uint64_t part_ns = lengths->high_ns / PART_MAX;
	uint64_t poll_ns = part_ns > POLL_NS_MAX ? part_ns : POLL_NS_MAX;

	if (lengths->high_ns == UINT64_MAX || lengths->high_ns - low_ns > poll_ns)
		return (struct svc_due){ start_ns, start_ns };
	return (struct svc_due){ start_ns + low_ns, start_ns + low_ns + poll_ns };
}
