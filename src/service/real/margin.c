/* SPDX-License-Identifier: Apache-2.0 */
#include "service/real/margin.h"

#include <stdbool.h>
#include <string.h>

#include "base/facts.h"

/* The guess is so much larger than what was seen. */
#define ROOM_MILLI 1250u
/* An outlier does not make all later guesses useless. */
#define MILLI_MAX 32000u
/* What was seen counts so much if it is less than the guess. */
#define WEIGHT 8u

/*
 * Names as the serialised module has them: field 2 of an instruction, its length, its opcode. Seen
 * on XLA:CPU, in thousandths: convolution 4500, fft 2000, sort 1400, products 650.
 */
static const struct {
	const char *text;
	uint32_t milli;
} kinds[SVC_MARGIN_KINDS] = {
	[SVC_MARGIN_CONVOLUTION] = { "\x12\x0b"
				     "convolution",
				     6000 },
	[SVC_MARGIN_FFT] = { "\x12\x03"
			     "fft",
			     3000 },
	[SVC_MARGIN_SORT] = { "\x12\x04"
			      "sort",
			      2000 },
	[SVC_MARGIN_DOT] = { "\x12\x03"
			     "dot",
			     1000 },
	[SVC_MARGIN_LIBRARY] = { "\x12\x0b"
				 "custom-call",
				 1000 },
};

void svc_margins_init(struct svc_margins *m)
{
	for (uint32_t i = 0; i < SVC_MARGIN_KINDS; i++)
		m->milli[i] = kinds[i].milli;
}

uint32_t svc_margin_scan(struct sal_text optimized)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < SVC_MARGIN_KINDS && optimized.size > 0; i++)
		if (memmem(optimized.at, optimized.size, kinds[i].text, strlen(kinds[i].text)))
			found |= 1u << i;
	return found;
}

static uint64_t positive(int64_t bytes)
{
	return bytes > 0 ? (uint64_t)bytes : 0;
}

/* What the program reads and writes. */
static uint64_t traffic(const struct sal_program_facts *facts)
{
	return positive(facts->memory.argument) + positive(facts->memory.output) +
	       positive(facts->memory.temp);
}

/* The kind with the largest multiple. -1: none. */
static int largest(const struct svc_margins *m, uint32_t found)
{
	int best = -1;

	for (int i = 0; i < SVC_MARGIN_KINDS; i++)
		if (found >> i & 1 && (best < 0 || m->milli[i] > m->milli[best]))
			best = i;
	return best;
}

uint64_t svc_margin_guess(const struct svc_margins *m, uint32_t found,
			  const struct sal_program_facts *facts)
{
	int kind = largest(m, found);

	return kind < 0 ? 0 : traffic(facts) / 1000 * m->milli[kind];
}

void svc_margin_learn(struct svc_margins *m, uint32_t found, const struct sal_program_facts *facts,
		      uint64_t bytes)
{
	uint64_t unit = traffic(facts) / 1000, seen;
	int kind = largest(m, found);

	if (kind < 0 || unit == 0)
		return;
	seen = bytes / unit * ROOM_MILLI / 1000;
	if (seen > MILLI_MAX)
		seen = MILLI_MAX;
	if (seen > m->milli[kind])
		m->milli[kind] = (uint32_t)seen;
	else
		m->milli[kind] -= (m->milli[kind] - (uint32_t)seen) / WEIGHT;
}
