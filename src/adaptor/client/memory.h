/* SPDX-License-Identifier: Apache-2.0 */
/* memory - the kinds of memory that a device has. */
#ifndef SAL_ADAPTOR_CLIENT_MEMORY_H
#define SAL_ADAPTOR_CLIENT_MEMORY_H

#include "adaptor/function.h"
#include "base/facts.h"

struct PJRT_Memory {
	PJRT_Device *device; /* borrowed: whose it is */
	const struct sal_memory_facts *facts; /* borrowed: the device's */
};

PJRT_Memory *adp_memory_default(PJRT_Device *device);
/* The default memory if there is none of that kind. */
PJRT_Memory *adp_memory_of_kind(PJRT_Device *device, struct sal_text kind);

ADP_FUNCTION(Memory_Id);
ADP_FUNCTION(Memory_Kind);
ADP_FUNCTION(Memory_Kind_Id);
ADP_FUNCTION(Memory_DebugString);
ADP_FUNCTION(Memory_ToString);
ADP_FUNCTION(Memory_AddressableByDevices);

#endif
