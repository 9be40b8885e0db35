/* SPDX-License-Identifier: Apache-2.0 */
#include "service/timing/gap.h"

#include <string.h>

/*
 * The worker sleeps through gaps that are longer than LONG_NS, or that would take longer than
 * POLL_NS_MAX of polling.
 */
#define LONG_NS UINT64_C(1000000)
#define POLL_NS_MAX UINT64_C(300000)
/* Waking up takes this long, also for a client whose gap the worker slept through. */
#define WAKE_NS UINT64_C(50000)

void svc_gap_init(struct svc_gap *g)
{
	memset(g, 0, sizeof(*g));
	svc_lengths_init(&g->lengths);
}

void svc_gap_begin(struct svc_gap *g, uint64_t now_ns)
{
	g->from_ns = now_ns;
}

static void foresee(struct svc_gap *g)
{
	uint64_t low_ns = g->lengths.low_ns, high_ns = g->lengths.high_ns;

	g->is_foreseen = high_ns <= LONG_NS && high_ns - low_ns <= POLL_NS_MAX;
	g->due_after_ns = low_ns > 2 * WAKE_NS ? low_ns - 2 * WAKE_NS : 0;
	g->over_after_ns = high_ns + WAKE_NS;
}

void svc_gap_end(struct svc_gap *g, uint64_t now_ns)
{
	if (g->from_ns == 0)
		return;
	svc_lengths_add(&g->lengths, now_ns - g->from_ns);
	g->from_ns = 0;
	foresee(g);
}

uint64_t svc_gap_due_ns(const struct svc_gap *g)
{
	return g->from_ns + g->due_after_ns;
}

enum svc_gap_phase svc_gap_phase(const struct svc_gap *g, uint64_t now_ns)
{
	if (g->from_ns == 0 || !g->is_foreseen || now_ns > g->from_ns + g->over_after_ns)
		return SVC_GAP_OVER;
	return now_ns < svc_gap_due_ns(g) ? SVC_GAP_EARLY : SVC_GAP_DUE;
}
