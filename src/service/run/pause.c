/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run/pause.h"

#include <string.h>

/* Longer ones are slept through; so are those whose end would have to be polled for longer than that. */
#define LONG_NS UINT64_C(1000000)
#define POLL_MOST_NS UINT64_C(300000)
/* Of the last pauses in order of length: the first and the last that count. */
#define FIRST 2
#define LAST (SVC_PAUSES - 4)
/* Waking up takes this long, also for a client whose gap the worker slept through. */
#define WAKE_NS UINT64_C(50000)

void svc_pause_init(struct svc_pause *p)
{
	uint32_t i;

	memset(p, 0, sizeof(*p));
	for (i = 0; i < SVC_PAUSES; i++)
		p->last_ns[i] = UINT64_MAX;
}

void svc_pause_begin(struct svc_pause *p, uint64_t now_ns)
{
	p->from_ns = now_ns;
}

static void sort(uint64_t *values)
{
	uint32_t i, j;

	for (i = 1; i < SVC_PAUSES; i++) {
		uint64_t value = values[i];

		for (j = i; j > 0 && values[j - 1] > value; j--)
			values[j] = values[j - 1];
		values[j] = value;
	}
}

static void foresee(struct svc_pause *p)
{
	uint64_t sorted[SVC_PAUSES];

	memcpy(sorted, p->last_ns, sizeof(sorted));
	sort(sorted);
	p->is_foreseen = sorted[LAST] <= LONG_NS && sorted[LAST] - sorted[FIRST] <= POLL_MOST_NS;
	p->due_after_ns = sorted[FIRST] > 2 * WAKE_NS ? sorted[FIRST] - 2 * WAKE_NS : 0;
	p->over_after_ns = sorted[LAST] + WAKE_NS;
}

void svc_pause_end(struct svc_pause *p, uint64_t now_ns)
{
	if (p->from_ns == 0)
		return;
	p->last_ns[p->next] = now_ns - p->from_ns;
	p->next = (p->next + 1) % SVC_PAUSES;
	p->from_ns = 0;
	foresee(p);
}

uint64_t svc_pause_due_ns(const struct svc_pause *p)
{
	return p->from_ns + p->due_after_ns;
}

enum svc_pause_phase svc_pause_phase(const struct svc_pause *p, uint64_t now_ns)
{
	if (p->from_ns == 0 || !p->is_foreseen || now_ns > p->from_ns + p->over_after_ns)
		return SVC_PAUSE_OVER;
	return now_ns < svc_pause_due_ns(p) ? SVC_PAUSE_EARLY : SVC_PAUSE_DUE;
}
