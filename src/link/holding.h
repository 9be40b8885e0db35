/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holding - the bytes that a session may hold on the device, and holds, and how far its client is
 * ahead. The daemon publishes them in shared memory.
 *
 *     submission ring | completion ring | holding
 *
 * It exists if both sides are of SAL_MINOR_HOLDING or later. The daemon writes it whenever it
 * changes and never reads it, because the client could write there, too. persist_bytes is written
 * last: a client that reads it first finds a peak that is not below it.
 */
#ifndef SAL_LINK_HOLDING_H
#define SAL_LINK_HOLDING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct sal_holding {
	_Alignas(64) _Atomic uint64_t limit_bytes; /* the job's limit, or all of the device */
	_Atomic uint64_t persist_bytes; /* of its buffers that have memory, here or paged out */
	_Atomic uint64_t peak_bytes; /* the most persist_bytes was */
	_Atomic uint64_t nap_ns; /* the client need not hear for so long that iterations end */
	uint64_t reserved[4];
};

_Static_assert(sizeof(struct sal_holding) == 64, "holding");

/*
 * Bytes of shared memory for two rings of so much data each and, if the peer's minor knows of it, a
 * holding.
 */
size_t sal_holding_span(uint64_t ring_bytes, uint32_t peer_minor);
/* Where the holding is in that memory; NULL: there is none. */
struct sal_holding *sal_holding_find(void *memory, uint64_t ring_bytes, uint32_t peer_minor);

#endif
