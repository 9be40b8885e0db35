/* SPDX-License-Identifier: Apache-2.0 */
/* memory - the kinds of memory that a device has. */
#ifndef SAL_ADAPTOR_CLIENT_MEMORY_H
#define SAL_ADAPTOR_CLIENT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "adaptor/function.h"
#include "base/facts.h"

struct PJRT_Memory {
	PJRT_Device *device; /* borrowed: whose it is */
	const struct sal_memory_facts *facts; /* borrowed: the device's */
};

PJRT_Memory *adp_memory_default(PJRT_Device *device);
/* The default memory if there is none of that kind. */
PJRT_Memory *adp_memory_of_kind(PJRT_Device *device, struct sal_text kind);

/* For records: 0 for the default memory. */
uint8_t adp_memory_number(const PJRT_Memory *memory);
/* True if arrays there are in the host's memory, and not in the device's. */
bool adp_memory_is_host(const PJRT_Memory *memory);

ADP_FUNCTION(Memory_Id);
ADP_FUNCTION(Memory_Kind);
ADP_FUNCTION(Memory_Kind_Id);
ADP_FUNCTION(Memory_DebugString);
ADP_FUNCTION(Memory_ToString);
ADP_FUNCTION(Memory_AddressableByDevices);

#endif
