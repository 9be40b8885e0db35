/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run/gap.h"

#include <string.h>

/*
 * The worker sleeps through gaps that are longer than LONG_NS, or that would take longer than
 * POLL_NS_MAX of polling.
 */
#define LONG_NS UINT64_C(1000000)
#define POLL_NS_MAX UINT64_C(300000)
/* The first and the last gap that count, when the last gaps are sorted by length. */
#define FIRST 2
#define LAST (SVC_GAPS - 4)
/* Waking up takes this long, also for a client whose gap the worker slept through. */
#define WAKE_NS UINT64_C(50000)

void svc_gap_init(struct svc_gap *g)
{
	uint32_t i;

	memset(g, 0, sizeof(*g));
	for (i = 0; i < SVC_GAPS; i++)
		g->last_ns[i] = UINT64_MAX;
}

void svc_gap_begin(struct svc_gap *g, uint64_t now_ns)
{
	g->from_ns = now_ns;
}

static void sort(uint64_t *values)
{
	uint32_t i, j;

	for (i = 1; i < SVC_GAPS; i++) {
		uint64_t value = values[i];

		for (j = i; j > 0 && values[j - 1] > value; j--)
			values[j] = values[j - 1];
		values[j] = value;
	}
}

static void foresee(struct svc_gap *g)
{
	uint64_t sorted[SVC_GAPS];

	memcpy(sorted, g->last_ns, sizeof(sorted));
	sort(sorted);
	g->is_foreseen = sorted[LAST] <= LONG_NS && sorted[LAST] - sorted[FIRST] <= POLL_NS_MAX;
	g->due_after_ns = sorted[FIRST] > 2 * WAKE_NS ? sorted[FIRST] - 2 * WAKE_NS : 0;
	g->over_after_ns = sorted[LAST] + WAKE_NS;
}

void svc_gap_end(struct svc_gap *g, uint64_t now_ns)
{
	if (g->from_ns == 0)
		return;
	g->last_ns[g->next] = now_ns - g->from_ns;
	g->next = (g->next + 1) % SVC_GAPS;
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
