/* SPDX-License-Identifier: Apache-2.0 */
#include "service/timing/lengths.h"

#include <string.h>

/* The first and the last length that count, when they are sorted. */
#define FIRST 2
#define LAST (SVC_LENGTHS - 4)

void svc_lengths_init(struct svc_lengths *l)
{
	uint32_t i;

	memset(l, 0, sizeof(*l));
	for (i = 0; i < SVC_LENGTHS; i++)
		l->last_ns[i] = UINT64_MAX;
	l->low_ns = l->high_ns = UINT64_MAX;
}

static void sort(uint64_t *values)
{
	uint32_t i, j;

	for (i = 1; i < SVC_LENGTHS; i++) {
		uint64_t value = values[i];

		for (j = i; j > 0 && values[j - 1] > value; j--)
			values[j] = values[j - 1];
		values[j] = value;
	}
}

void svc_lengths_add(struct svc_lengths *l, uint64_t length_ns)
{
	uint64_t sorted[SVC_LENGTHS];

	l->last_ns[l->next] = length_ns;
	l->next = (l->next + 1) % SVC_LENGTHS;
	memcpy(sorted, l->last_ns, sizeof(sorted));
	sort(sorted);
	l->low_ns = sorted[FIRST];
	l->high_ns = sorted[LAST];
}
