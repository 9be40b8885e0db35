/* SPDX-License-Identifier: Apache-2.0 */
#include "link/holding.h"

#include "link/ring.h"
#include "wire/messages.h"

size_t sal_holding_span(uint64_t ring_bytes, uint32_t peer_minor)
{
	size_t rings = 2 * sal_ring_span(ring_bytes);

	return peer_minor >= SAL_MINOR_HOLDING ? rings + sizeof(struct sal_holding) : rings;
}

struct sal_holding *sal_holding_find(void *memory, uint64_t ring_bytes, uint32_t peer_minor)
{
	void *behind = (char *)memory + 2 * sal_ring_span(ring_bytes);

	return peer_minor >= SAL_MINOR_HOLDING ? behind : NULL;
}
