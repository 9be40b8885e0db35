/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holding - what a session may hold on the device, and holds, told by the daemon in shared memory.
 *
 *     submission ring | completion ring | holding
 *
 * It is there if both sides are of SAL_MINOR_HOLDING or later. The daemon writes it whenever it changes and never
 * reads it, for the client could write there, too. persist_bytes is written last, so that whoever reads it first
 * finds a peak that is not below it.
 */
#ifndef SAL_LINK_HOLDING_H
#define SAL_LINK_HOLDING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct sal_holding {
	_Alignas(64) _Atomic uint64_t limit_bytes; /* the job's limit, or all of the device */
	_Atomic uint64_t persist_bytes; /* of its buffers that have memory, here or paged out */
	_Atomic uint64_t peak_bytes; /* the most that was */
	uint64_t reserved[5];
};

_Static_assert(sizeof(struct sal_holding) == 64, "holding");

/* Bytes of shared memory for two rings of so much data each and, if the peer's minor knows of it, a holding. */
size_t sal_holding_span(uint64_t ring_bytes, uint32_t peer_minor);
/* Where it lies in that memory; NULL: nowhere. */
struct sal_holding *sal_holding_find(void *memory, uint64_t ring_bytes, uint32_t peer_minor);

#endif
