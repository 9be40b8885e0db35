/* SPDX-License-Identifier: Apache-2.0 */
/*
 * donation - the arguments whose memory an iteration takes over.
 *
 * An argument is donated if the program can take over its memory, the host does not retain it, and
 * nobody pins it. Numpy views and dlpack capsules pin a buffer, and the vendor does not donate a
 * pinned one. Pins may change at any moment: they are read again when the argument is marked as
 * deleted, and an argument that is marked cannot be pinned. An argument of several devices is donated
 * on all of them or on none.
 *
 * Threads: that of the call.
 */
#ifndef SAL_ADAPTOR_PROGRAM_DONATION_H
#define SAL_ADAPTOR_PROGRAM_DONATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adaptor/function.h"

struct adp_loan;

struct adp_donation {
	size_t count;
	uint32_t *args; /* ascending; `few`, or owned */
	uint32_t few[64];
};

/* False for lack of memory. */
bool adp_donation_init(struct adp_donation *d, const PJRT_LoadedExecutable_Execute_Args *args);
/* Takes out what was pinned meanwhile. Arguments that are left count as deleted, and are in the loan. */
void adp_donation_lend(struct adp_donation *d, const PJRT_LoadedExecutable_Execute_Args *args,
		       struct adp_loan *loan);
void adp_donation_fini(struct adp_donation *d);
/* A donated buffer must be passed only once. */
PJRT_Error *adp_donation_check(const struct adp_donation *d,
			       const PJRT_LoadedExecutable_Execute_Args *args);

#endif
