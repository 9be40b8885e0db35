/* SPDX-License-Identifier: Apache-2.0 */
/*
 * margin - guesses how much the first run of a program takes beyond its temporary bytes.
 *
 * A vendor takes more for some operations than it says: a convolution copies its input once for
 * each element of the kernel, a sort copies what it sorts. So the guess depends on the kinds of
 * operations in the program. It is a multiple of the bytes that the program reads and writes. The
 * multiples are learned from first runs.
 *
 * Threads: margin_scan may be called by any thread; everything else under server->lock.
 */
#ifndef SAL_SERVICE_MARGIN_H
#define SAL_SERVICE_MARGIN_H

#include <stdint.h>

struct sal_program_facts;
struct sal_text;

enum svc_margin_kind {
	SVC_MARGIN_CONVOLUTION,
	SVC_MARGIN_FFT,
	SVC_MARGIN_SORT,
	SVC_MARGIN_DOT,
	SVC_MARGIN_LIBRARY, /* custom calls */
	SVC_MARGIN_KINDS
};

/* Part of the server. */
struct svc_margins {
	uint32_t milli[SVC_MARGIN_KINDS]; /* thousandths of what the program reads and writes */
};

void svc_margins_init(struct svc_margins *m);
/* The kinds of operations in an optimised module (HloModuleProtoWithConfig), as bits. */
uint32_t svc_margin_scan(struct sal_text optimized);
/* Bytes beyond the temporary bytes. 0 for a program without such operations. */
uint64_t svc_margin_guess(const struct svc_margins *m, uint32_t kinds,
			  const struct sal_program_facts *facts);
/* The first run took so many bytes beyond the temporary bytes. */
void svc_margin_learn(struct svc_margins *m, uint32_t kinds, const struct sal_program_facts *facts,
		      uint64_t bytes);

#endif
