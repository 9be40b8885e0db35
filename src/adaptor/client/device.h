/* SPDX-License-Identifier: Apache-2.0 */
/* device - the devices of a client: usually one. */
#ifndef SAL_ADAPTOR_CLIENT_DEVICE_H
#define SAL_ADAPTOR_CLIENT_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "adaptor/client/memory.h"
#include "adaptor/function.h"
#include "base/facts.h"

#define ADP_MEMORIES_MAX 8

struct PJRT_DeviceDescription {
	PJRT_Device *device; /* borrowed: whose it is */
};

struct PJRT_Device {
	PJRT_Client *client; /* borrowed: whose it is */
	uint32_t number; /* among the client's devices: its chip, for the daemon */
	struct sal_chip_facts facts;
	PJRT_DeviceDescription description;
	PJRT_Memory memories[ADP_MEMORIES_MAX];
	PJRT_Memory *memory_list[ADP_MEMORIES_MAX];
	size_t memory_count;
	PJRT_NamedValue *attributes; /* owned */
};

ADP_FUNCTION(DeviceDescription_Id);
ADP_FUNCTION(DeviceDescription_ProcessIndex);
ADP_FUNCTION(DeviceDescription_Attributes);
ADP_FUNCTION(DeviceDescription_Kind);
ADP_FUNCTION(DeviceDescription_DebugString);
ADP_FUNCTION(DeviceDescription_ToString);
ADP_FUNCTION(Device_GetDescription);
ADP_FUNCTION(Device_IsAddressable);
ADP_FUNCTION(Device_LocalHardwareId);
ADP_FUNCTION(Device_AddressableMemories);
ADP_FUNCTION(Device_DefaultMemory);
ADP_FUNCTION(Device_MemoryStats);

#endif
